//! `SocketTransport`: a connected stream socket, TCP or Unix, with a protocol on top. The loop's thread only.
//!
//! ```text
//!   open    what it is made of; connection_made and the first read are scheduled
//!   read    readiness -> data_received, or get_buffer and buffer_updated; end of stream; pause and resume
//!   write   at once if nothing waits, otherwise into the queue, which goes out in one vectored write   [queue]
//!   flow    water marks, pause_writing and resume_writing
//!   close   flush, then connection_lost in a turn of its own, then the socket is closed
//!   info    what others look at
//! ```
//!
//! How it ends. 1. `close()` stops reading; once the queue is empty, `_call_connection_lost` is scheduled. `abort()` and a
//! fatal error drop the queue and schedule it at once. 2. `connection_lost` runs. 3. The fd leaves epoll. 4. The Python
//! socket is closed, and protocol and server are let go. Nothing refers to the transport from then on but its users.
//!
//! The fd belongs to the Python socket. As long as the transport has that, one of its `makefile()` references is ours, so that a
//! `close()` by anybody else takes effect only afterwards: no call here ever meets a number that has a new owner.
//! It is registered only while it listens for something, and the registration is what keeps an idle transport alive.

use std::ffi::CStr;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicUsize, Ordering::Relaxed};

use evloop::os::now;
use evloop::{Interest, SourceToken};
use pyrt::{
    Attached, Borrowed, Class, DictSlot, Guarded, Instance, Method, ObjCell, Offset, Owned, Property,
    PyResult, Traverse, TypeSlot, Typed, Visit, Visited, WeakSlot, confined, offset,
};

use crate::event_loop::Loop;
use crate::schedule::seconds;

mod close;
mod flow;
mod info;
mod open;
mod parts;
mod queue;
mod read;
mod socket;
mod write;

pub(crate) use open::open;
pub(crate) use parts::Parts;
use queue::Queue;
pub(crate) use read::Scratch;
use socket::Socket;

/// What the fd is registered for, if it is.
#[derive(Default)]
struct Registration {
    token: Option<SourceToken>,
    interest: Interest,
}

confined!(Registration { token, interest });

/// A transport over a stream socket.
pub(crate) struct SocketTransport {
    owner: Typed<Loop>,
    fd: i32,
    sock: ObjCell,
    protocol: ObjCell,
    server: ObjCell,
    extra: ObjCell,
    empty_waiter: ObjCell,
    /// The contexts in which the protocol is told of data, and of room to write.
    reading_in: ObjCell,
    writing_in: ObjCell,
    registration: Guarded<Registration>,
    queue: Guarded<Queue>,
    /// How much the last reads brought: what the next one makes room for.
    expected: AtomicUsize,
    /// Not 0 once connection_lost is scheduled; then it counts the writes that come too late.
    conn_lost: AtomicU32,
    closing: AtomicBool,
    paused: AtomicBool,
    eof: AtomicBool,
    buffered: AtomicBool,
    protocol_connected: AtomicBool,
    protocol_paused: AtomicBool,
    high: AtomicI64,
    low: AtomicI64,
    /// The marks as they were given, if they were.
    high_given: ObjCell,
    low_given: ObjCell,
    dict: DictSlot,
    weak: WeakSlot,
}

confined!(SocketTransport {
    owner,
    fd,
    sock,
    protocol,
    server,
    extra,
    empty_waiter,
    reading_in,
    writing_in,
    registration,
    queue,
    expected,
    conn_lost,
    closing,
    paused,
    eof,
    buffered,
    protocol_connected,
    protocol_paused,
    high,
    low,
    high_given,
    low_given,
    dict,
    weak
});

impl SocketTransport {
    fn cells(&self) -> [&ObjCell; 8] {
        [
            &self.sock,
            &self.protocol,
            &self.server,
            &self.extra,
            &self.empty_waiter,
            &self.reading_in,
            &self.writing_in,
            &self.high_given,
        ]
    }
}

impl Traverse for SocketTransport {
    fn traverse(&self, visit: &mut Visit<'_>) -> Visited {
        // The queue holds nothing but `bytes`, which refer to nothing.
        self.owner.traverse(visit)?;
        self.cells().into_iter().try_for_each(|cell| cell.traverse(visit))
    }

    fn clear(&self, py: Attached<'_>) {
        for cell in self.cells() {
            cell.clear(py);
        }
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
            c"get_write_buffer_size",
            Self::buffer_size,
            c"get_write_buffer_size($self)\n--\n\nHow many bytes wait.",
        ),
        Method::<Self>::noargs(
            c"is_reading",
            |_, this| Ok(this.is_reading()),
            c"is_reading($self)\n--\n\nWhether it reads.",
        ),
        Method::<Self>::noargs(
            c"pause_reading",
            Self::pause_reading,
            c"pause_reading($self)\n--\n\nNo data is received until resume_reading().",
        ),
        Method::<Self>::noargs(
            c"resume_reading",
            Self::resume_reading,
            c"resume_reading($self)\n--\n\nReads again.",
        ),
        Method::<Self>::noargs(
            c"close",
            Self::close,
            c"close($self)\n--\n\nSends what waits, then ends the connection.",
        ),
        Method::<Self>::noargs(c"abort", Self::abort, c"abort($self)\n--\n\nEnds the connection at once."),
        Method::<Self>::noargs(
            c"is_closing",
            |_, this| Ok(this.is_closing()),
            c"is_closing($self)\n--\n\nWhether it is closing or closed.",
        ),
        Method::one(
            c"set_protocol",
            Self::set_protocol,
            c"set_protocol($self, protocol, /)\n--\n\nChanges the protocol.",
        ),
        Method::<Self>::noargs(
            c"get_protocol",
            |py, this| Ok(this.protocol.get(py)),
            c"get_protocol($self)\n--\n\nThe protocol.",
        ),
        Method::fast(
            c"get_extra_info",
            Self::get_extra_info,
            c"get_extra_info($self, name, default=None)\n--\n\nsocket, sockname, peername.",
        ),
        Method::<Self>::noargs(c"_start_reading", Self::start_reading, c"_start_reading($self)\n--\n\n"),
        Method::one(
            c"_call_connection_lost",
            Self::call_connection_lost,
            c"_call_connection_lost($self, exc, /)\n--\n\n",
        ),
        Method::one(c"_force_close", Self::force_close_method, c"_force_close($self, exc, /)\n--\n\n"),
        Method::fast(
            c"_fatal_error",
            Self::fatal_error_method,
            c"_fatal_error($self, exc, message='Fatal error on transport')\n--\n\n",
        ),
        Method::<Self>::noargs(
            c"_maybe_pause_protocol",
            Self::maybe_pause,
            c"_maybe_pause_protocol($self)\n--\n\n",
        ),
        Method::<Self>::noargs(
            c"_maybe_resume_protocol",
            Self::maybe_resume,
            c"_maybe_resume_protocol($self)\n--\n\n",
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
        Method::END,
    ];
    const PROPERTIES: &'static [Property<Self>] = &[
        Property::DICT,
        Property::<Self>::read(c"_sock", |py, this| Ok(this.sock.get(py)), c""),
        Property::<Self>::read(c"_sock_fd", |_, this| Ok(i64::from(this.fd)), c""),
        Property::<Self>::read(c"_loop", Self::loop_or_none, c"").write(|_, _, _| Ok(())),
        Property::<Self>::read(c"_protocol", |py, this| Ok(this.protocol.get(py)), c"")
            .write(Self::set_protocol_attr),
        Property::<Self>::read(
            c"_protocol_connected",
            |_, this| Ok(this.protocol_connected.load(Relaxed)),
            c"",
        )
        .write(|py, this, value| info::set_flag(py, &this.protocol_connected, value)),
        Property::<Self>::read(c"_protocol_paused", |_, this| Ok(this.protocol_paused.load(Relaxed)), c"")
            .write(|py, this, value| info::set_flag(py, &this.protocol_paused, value)),
        Property::<Self>::read(c"_high_water", Self::high_water, c"")
            .write(|py, this, value| info::set_mark(py, &this.high, &this.high_given, value)),
        Property::<Self>::read(c"_low_water", Self::low_water, c"")
            .write(|py, this, value| info::set_mark(py, &this.low, &this.low_given, value)),
        Property::<Self>::read(c"_conn_lost", |_, this| Ok(i64::from(this.conn_lost.load(Relaxed))), c"")
            .write(Self::set_conn_lost),
        Property::<Self>::read(c"_buffer", Self::buffer_copy, c"What waits to be sent; a copy."),
        Property::<Self>::read(c"_closing", |_, this| Ok(this.is_closing()), c"")
            .write(|py, this, value| info::set_flag(py, &this.closing, value)),
        Property::<Self>::read(c"_paused", |_, this| Ok(this.paused.load(Relaxed)), c"")
            .write(|py, this, value| info::set_flag(py, &this.paused, value)),
        Property::<Self>::read(c"_eof", |_, this| Ok(this.eof.load(Relaxed)), c"")
            .write(|py, this, value| info::set_flag(py, &this.eof, value)),
        Property::<Self>::read(c"_extra", |py, this| this.extra(py), c""),
        Property::<Self>::read(c"_server", |py, this| Ok(this.server.get(py)), c""),
        Property::<Self>::read(c"_empty_waiter", |py, this| Ok(this.empty_waiter.get(py)), c"")
            .write(Self::set_empty_waiter),
        Property::END,
    ];
    const SLOTS: &'static [TypeSlot<Self>] =
        &[TypeSlot::repr(Self::repr), TypeSlot::finalize(Self::finalize)];
}

impl SocketTransport {
    fn parts(&self) -> &Parts {
        &self.owner.payload().native().stream
    }

    #[inline]
    fn is_closing(&self) -> bool {
        self.closing.load(Relaxed)
    }

    #[inline]
    fn is_lost(&self) -> bool {
        self.conn_lost.load(Relaxed) != 0
    }

    /// The socket, as long as it is open.
    #[inline]
    fn socket(&self, py: Attached<'_>) -> Option<Socket> {
        // SAFETY: the Python socket owns the fd and, by our reference among its `makefile()` ones, does not close it before
        // `end` has taken it out of `sock`. Users of the result run no Python code in between.
        self.sock.is_set(py).then(|| unsafe { Socket::new(self.fd) })
    }

    /// What the fd is listened to for.
    #[inline]
    fn interest(&self, py: Attached<'_>) -> PyResult<Interest> {
        self.registration.with(py, |registration| registration.interest)
    }

    /// Listens for exactly this; for nothing means that the fd is not registered.
    fn listen(&self, py: Attached<'_>, this: This<'_>, wanted: Interest) -> PyResult<()> {
        let (token, before) =
            self.registration.with(py, |registration| (registration.token, registration.interest))?;
        if before == wanted {
            return Ok(());
        }
        let token = match token {
            Some(token) if wanted == Interest::NONE => {
                self.registration.with(py, std::mem::take)?;
                self.owner.deregister(py, token, self.fd)?;
                return Ok(());
            }
            Some(token) => {
                self.owner.set_interest(py, token, wanted)?;
                token
            }
            None => {
                self.owner.check_open(py)?;
                let target = this.object().clone_ref(py);
                self.owner.register(py, self.fd.into(), self.fd, wanted, target, ready)?
            }
        };
        self.registration.with(py, |registration| {
            *registration = Registration { token: Some(token), interest: wanted };
        })
    }

    fn listen_also(&self, py: Attached<'_>, this: This<'_>, direction: Interest) -> PyResult<()> {
        self.listen(py, this, self.interest(py)?.with(direction))
    }

    fn listen_no_more(&self, py: Attached<'_>, this: This<'_>, direction: Interest) -> PyResult<()> {
        self.listen(py, this, self.interest(py)?.without(direction))
    }
}

/// The fd is ready. What is not listened for any more is left alone: a callback of this very turn may have seen to that.
fn ready(py: Attached<'_>, target: Borrowed<'_>, what: Interest) -> PyResult<()> {
    // SAFETY: `listen` registers this function with an instance of this class, and nobody else does.
    let this = unsafe { This::assume(target) };
    if this.owner.is_debug() { ready_in_debug(py, this, what) } else { act(py, this, what) }
}

#[inline]
fn act(py: Attached<'_>, this: This<'_>, what: Interest) -> PyResult<()> {
    if what.contains(Interest::READ) && this.interest(py)?.contains(Interest::READ) {
        this.read_ready(py, this)?;
    }
    if what.contains(Interest::WRITE) && this.interest(py)?.contains(Interest::WRITE) {
        this.write_ready(py, this)?;
    }
    Ok(())
}

/// With a look at the clock, as asyncio's debug mode has for its handles.
#[cold]
fn ready_in_debug(py: Attached<'_>, this: This<'_>, what: Interest) -> PyResult<()> {
    let started = now();
    act(py, this, what)?;
    let took = Owned::float(py, seconds(now().saturating_sub(started)))?;
    let report = this.parts().slow.get(py)?;
    report.call(py, [this.owner.object().borrow(), this.object(), took.borrow()]).map(drop)
}
