//! `DatagramTransport`: a datagram socket, UDP or Unix, connected or not, with a protocol on top. The loop's thread only.
//!
//! ```text
//!   open      what it is made of; connection_made and the first read are scheduled
//!   receive   readiness -> datagram_received, several times if more is there; error_received
//!   send      at once if nothing waits, otherwise into the queue, which goes out when there is room
//!   peers     addresses as Python has them and as the kernel has them; those used last are remembered
//! ```
//!
//! What it shares with other transports, its end among it, is in [`transport`](crate::transport).

use std::collections::VecDeque;
use std::ffi::CStr;
use std::sync::atomic::Ordering::Relaxed;

use evloop::Interest;
use pyrt::{
    Attached, Borrowed, Class, DictSlot, Guarded, Instance, Method, ObjCell, Offset, Owned, Property,
    PyResult, Traverse, TypeSlot, Visit, Visited, WeakSlot, confined, offset,
};
use rustix::net::AddressFamily;

use crate::transport::{
    Base, Flow, Paced, Rows, Transport, call_connection_lost, close_socket, finalize, listen_no_more, lose,
    socket_repr,
};

mod open;
mod parts;
mod peers;
mod receive;
mod send;

pub(crate) use open::open;
pub(crate) use parts::Parts;
use peers::Peers;
pub(crate) use peers::{full_name, name_of, small_name};
use receive::More;

/// A datagram that waits: a `bytes`, and where it goes unless that is known.
struct Waiting {
    data: Owned,
    address: Option<Owned>,
    size: usize,
}

confined!(Waiting { data, address, size });

/// What waits to be sent, in order.
#[derive(Default)]
struct Queue {
    datagrams: VecDeque<Waiting>,
    size: usize,
}

confined!(Queue { datagrams, size });

impl Traverse for Queue {
    fn traverse(&self, visit: &mut Visit<'_>) -> Visited {
        // A `bytes` refers to nothing.
        self.datagrams.iter().try_for_each(|waiting| waiting.address.traverse(visit))
    }
}

/// A transport over a datagram socket.
pub(crate) struct DatagramTransport {
    base: Base,
    flow: Flow,
    /// The one that datagrams go to, if that was said when the transport was made.
    address: ObjCell,
    family: AddressFamily,
    /// The kernel knows where datagrams go.
    connected: bool,
    peers: Guarded<Peers>,
    queue: Guarded<Queue>,
    more: More,
    dict: DictSlot,
    weak: WeakSlot,
}

confined!(DatagramTransport { base, flow, address, family, connected, peers, queue, more, dict, weak });

impl Traverse for DatagramTransport {
    fn traverse(&self, visit: &mut Visit<'_>) -> Visited {
        self.base.traverse(visit)?;
        self.flow.traverse(visit)?;
        self.address.traverse(visit)?;
        self.peers.traverse(visit)?;
        self.queue.traverse(visit)
    }

    fn clear(&self, py: Attached<'_>) {
        self.base.clear(py);
        self.flow.clear(py);
        self.address.clear(py);
        self.peers.clear(py);
        self.queue.clear(py);
    }
}

type This<'a> = Instance<'a, DatagramTransport>;

impl Class for DatagramTransport {
    const NAME: &'static CStr = c"erlang._native.DatagramTransport";
    const DOC: &'static CStr = c"A transport over a datagram socket. Made by the event loop.";
    const BASE_SLOTS: usize = 5;
    const DICT: Option<Offset<Self, DictSlot>> = Some(offset!(DatagramTransport, dict));
    const WEAKREFS: Option<Offset<Self, WeakSlot>> = Some(offset!(DatagramTransport, weak));
    const METHODS: &'static [Method<Self>] = &[
        Method::fast(
            c"sendto",
            Self::sendto,
            c"sendto($self, data, addr=None)\n--\n\nSends a datagram, now or when there is room; never waits.",
        ),
        Method::<Self>::noargs(
            c"close",
            Self::close,
            c"close($self)\n--\n\nSends what waits, then closes the socket.",
        ),
        Method::one(
            c"_call_connection_lost",
            call_connection_lost::<Self>,
            c"_call_connection_lost($self, exc, /)\n--\n\n",
        ),
        Rows::IS_READING,
        Rows::PAUSE_READING,
        Rows::RESUME_READING,
        Rows::START_READING,
        Rows::ABORT,
        Rows::IS_CLOSING,
        Rows::SET_PROTOCOL,
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
        Property::<Self>::read(c"_address", |py, this| Ok(this.address.get(py)), c""),
        Property::<Self>::read(c"_buffer", Self::buffer_copy, c"What waits to be sent; a copy."),
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
        &[TypeSlot::repr(socket_repr::<Self>), TypeSlot::finalize(finalize::<Self>)];
}

impl Transport for DatagramTransport {
    fn base(&self) -> &Base {
        &self.base
    }

    fn read_ready(py: Attached<'_>, this: This<'_>) -> PyResult<()> {
        this.receive(py)
    }

    fn write_ready(py: Attached<'_>, this: This<'_>) -> PyResult<()> {
        this.flush(py, this)
    }

    fn close_file(py: Attached<'_>, this: This<'_>, file: Owned) -> PyResult<()> {
        drop(this.peers.with(py, std::mem::take)?);
        close_socket(py, this.base.parts(), file.borrow())
    }

    fn drop_queue(&self, py: Attached<'_>) -> PyResult<()> {
        self.queue.with(py, std::mem::take).map(drop)
    }
}

impl Paced for DatagramTransport {
    fn flow(&self) -> &Flow {
        &self.flow
    }

    #[inline]
    fn size(&self, py: Attached<'_>) -> PyResult<usize> {
        self.queue.with(py, |queue| queue.size)
    }
}

impl DatagramTransport {
    fn parts(&self) -> &Parts {
        &self.base.owner.payload().native().datagram
    }

    fn close(py: Attached<'_>, this: This<'_>) -> PyResult<()> {
        if this.base.closing.swap(true, Relaxed) {
            return Ok(());
        }
        listen_no_more(py, this, Interest::READ)?;
        if this.is_idle(py)? { lose(py, this, Borrowed::none(py)) } else { Ok(()) }
    }

    /// Nothing waits to be sent. Not a matter of size: a datagram may be empty.
    #[inline]
    fn is_idle(&self, py: Attached<'_>) -> PyResult<bool> {
        self.queue.with(py, |queue| queue.datagrams.is_empty())
    }

    fn buffer_copy(py: Attached<'_>, this: This<'_>) -> PyResult<Owned> {
        let waiting: Vec<(Owned, Option<Owned>)> = this.queue.with(py, |queue| {
            let one = |waiting: &Waiting| {
                (waiting.data.clone_ref(py), waiting.address.as_ref().map(|address| address.clone_ref(py)))
            };
            queue.datagrams.iter().map(one).collect()
        })?;
        let pair = |(data, address): (Owned, Option<Owned>)| {
            Owned::tuple(py, [data, address.unwrap_or_else(|| Owned::none(py))])
        };
        Owned::list_of(py, waiting.into_iter().map(pair).collect::<PyResult<_>>()?)
    }
}
