//! `SocketTransport`: a connected stream socket, TCP or Unix, with a protocol on top. The loop's thread only.
//!
//! ```text
//!   open    what it is made of; connection_made and the first read are scheduled
//!   read    readiness -> data_received, or get_buffer and buffer_updated; end of stream
//!   write   at once if nothing waits, otherwise into the queue, which goes out in one vectored write
//!   held    small writes, put off while the turn goes on
//!   close   flush, then connection_lost in a turn of its own; the server is told
//!   info    what others look at
//! ```
//!
//! What it shares with other transports, its end among it, is in [`transport`](crate::transport).

use std::ffi::CStr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use pyrt::{
    Attached, Class, DictSlot, Guarded, Instance, Method, ObjCell, Offset, Owned, Property, PyResult,
    Traverse, TypeSlot, Visit, Visited, WeakSlot, confined, offset,
};

use crate::datagram::full_name;
use crate::transport::{
    Base, Flow, Intake, Paced, Queue, Rows, Sink, Streaming, Transport, close_socket, describe, socket_repr,
};

mod accept;
mod close;
mod held;
mod info;
mod open;
mod parts;
mod read;
mod write;

pub(crate) use accept::accept;
pub(crate) use held::Held;
pub(crate) use open::open;
pub(crate) use parts::Parts;

/// A transport over a stream socket.
pub(crate) struct SocketTransport {
    base: Base,
    flow: Flow,
    server: ObjCell,
    empty_waiter: ObjCell,
    queue: Guarded<Queue>,
    intake: Intake,
    eof: AtomicBool,
    buffered: AtomicBool,
    /// Something of it is put off.
    held: AtomicBool,
    dict: DictSlot,
    weak: WeakSlot,
}

confined!(SocketTransport {
    base,
    flow,
    server,
    empty_waiter,
    queue,
    intake,
    eof,
    buffered,
    held,
    dict,
    weak
});

impl Traverse for SocketTransport {
    fn traverse(&self, visit: &mut Visit<'_>) -> Visited {
        // The queue holds nothing but `bytes`, which refer to nothing.
        self.base.traverse(visit)?;
        self.flow.traverse(visit)?;
        self.server.traverse(visit)?;
        self.empty_waiter.traverse(visit)
    }

    fn clear(&self, py: Attached<'_>) {
        self.base.clear(py);
        self.flow.clear(py);
        self.server.clear(py);
        self.empty_waiter.clear(py);
    }
}

type This<'a> = Instance<'a, SocketTransport>;

impl Class for SocketTransport {
    const NAME: &'static CStr = c"erlang._native.SocketTransport";
    const DOC: &'static CStr = c"A transport over a stream socket. Made by the event loop.";
    const BASE_SLOTS: usize = 5;
    const DICT: Option<Offset<Self, DictSlot>> = Some(offset!(SocketTransport, dict));
    const WEAKREFS: Option<Offset<Self, WeakSlot>> = Some(offset!(SocketTransport, weak));
    const METHODS: &'static [Method<Self>] = &[
        Method::one(
            c"write",
            Self::write,
            c"write($self, data, /)\n--\n\nSends data, now or when there is room; never waits.",
        ),
        Method::one(
            c"writelines",
            Self::writelines,
            c"writelines($self, list_of_data, /)\n--\n\nSends several pieces of data at once.",
        ),
        Method::<Self>::noargs(
            c"write_eof",
            Self::write_eof,
            c"write_eof($self)\n--\n\nEnds the sending side when all is sent.",
        ),
        Method::<Self>::noargs(c"can_write_eof", |_, _| Ok(true), c"can_write_eof($self)\n--\n\nTrue."),
        Method::<Self>::noargs(
            c"close",
            Self::close,
            c"close($self)\n--\n\nSends what waits, then ends the connection.",
        ),
        Method::one(
            c"set_protocol",
            Self::set_protocol,
            c"set_protocol($self, protocol, /)\n--\n\nChanges the protocol.",
        ),
        Method::one(
            c"_call_connection_lost",
            Self::connection_lost,
            c"_call_connection_lost($self, exc, /)\n--\n\n",
        ),
        Method::<Self>::noargs(
            c"_make_empty_waiter",
            Self::make_empty_waiter,
            c"_make_empty_waiter($self)\n--\n\n",
        ),
        Method::<Self>::noargs(
            c"_reset_empty_waiter",
            |py, this| {
                this.empty_waiter.clear(py);
                Ok(())
            },
            c"_reset_empty_waiter($self)\n--\n\n",
        ),
        Rows::IS_READING,
        Rows::PAUSE_READING,
        Rows::RESUME_READING,
        Rows::START_READING,
        Rows::ABORT,
        Rows::IS_CLOSING,
        Rows::GET_PROTOCOL,
        Rows::GET_EXTRA_INFO,
        Rows::FORCE_CLOSE,
        Rows::FATAL_ERROR,
        Rows::BUFFER_SIZE,
        Rows::MAYBE_PAUSE,
        Rows::MAYBE_RESUME,
        Method::END,
    ];
    const PROPERTIES: &'static [Property<Self>] = &[
        Property::DICT,
        Property::<Self>::read(c"_buffer", Self::buffer_copy, c"What waits to be sent; a copy."),
        Property::<Self>::read(c"_eof", |_, this| Ok(this.eof.load(Relaxed)), c"").write(Self::set_eof),
        Property::<Self>::read(c"_server", |py, this| Ok(this.server.get(py)), c""),
        Property::<Self>::read(c"_empty_waiter", |py, this| Ok(this.empty_waiter.get(py)), c"")
            .write(Self::set_empty_waiter),
        Rows::SOCK,
        Rows::SOCK_FD,
        Rows::LOOP,
        Rows::PROTOCOL,
        Rows::PROTOCOL_CONNECTED,
        Rows::CONN_LOST,
        Rows::CLOSING,
        Rows::PAUSED,
        Rows::EXTRA,
        Rows::PROTOCOL_PAUSED,
        Rows::HIGH_WATER,
        Rows::LOW_WATER,
        Property::END,
    ];
    const SLOTS: &'static [TypeSlot<Self>] =
        &[TypeSlot::repr(socket_repr::<Self>), TypeSlot::finalize(Self::finalize)];
}

impl Transport for SocketTransport {
    fn base(&self) -> &Base {
        &self.base
    }

    fn read_ready(py: Attached<'_>, this: This<'_>) -> PyResult<()> {
        if this.base.is_lost() { Ok(()) } else { this.read(py, this) }
    }

    fn write_ready(py: Attached<'_>, this: This<'_>) -> PyResult<()> {
        this.flush(py, this)
    }

    fn close_file(py: Attached<'_>, this: This<'_>, file: Owned) -> PyResult<()> {
        let closed = close_socket(py, this.base.parts(), file.borrow());
        closed.and(this.leave_server(py, this))
    }

    fn settle(&self, py: Attached<'_>) -> PyResult<()> {
        self.send_held(py)
    }

    fn drop_queue(&self, py: Attached<'_>) -> PyResult<()> {
        self.queue.with(py, |queue| queue.take()).map(drop)
    }

    /// Made now if it was not asked for before.
    fn extra(&self, py: Attached<'_>) -> PyResult<Option<Owned>> {
        let Some(kept) = self.base.extra.get(py) else { return Ok(None) };
        if kept.is_dict() {
            return Ok(Some(kept));
        }
        // The name of the peer, kept until somebody asks. The end does, so the socket is still open here.
        let Some(sock) = self.base.file.get(py) else { return Ok(None) };
        let kept = full_name(py, kept)?;
        let extra = describe(py, self.base.parts(), sock.borrow(), None, Some(kept))?;
        self.base.extra.set(py, extra.clone_ref(py));
        Ok(Some(extra))
    }
}

impl Paced for SocketTransport {
    fn flow(&self) -> &Flow {
        &self.flow
    }

    #[inline]
    fn size(&self, py: Attached<'_>) -> PyResult<usize> {
        self.queue.with(py, |queue| queue.size())
    }
}

impl Streaming for SocketTransport {
    const FAILED: &'static CStr = c"Fatal write error on socket transport";

    fn queue(&self) -> &Guarded<Queue> {
        &self.queue
    }

    #[inline]
    fn sink(&self, py: Attached<'_>) -> Option<impl Sink> {
        self.base.socket(py)
    }
}

impl SocketTransport {
    fn parts(&self) -> &Parts {
        &self.base.owner.payload().native().stream
    }
}
