//! `Socket`: the calls a transport makes on the fd of its socket, none of which blocks; and what it does with the Python
//! socket that owns the fd.
//!
//! The calls are made attached: each takes a few microseconds, and giving up the GIL for that would let a thread that computes
//! keep it for a whole switch interval, once per message.
//!
//! As long as a transport has its Python socket, one of the socket's `makefile()` references is ours, so that a `close()` by
//! anybody else takes effect only afterwards: no call here ever meets a number that has a new owner.

use std::fmt::Write as _;
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;

use evloop::Interest;
use pyrt::{Attached, Borrowed, Fault, Fixed, Instance, Owned, PyResult, Raised};
use rustix::io::Errno;
use rustix::net::addr::SocketAddrArg;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown, SocketAddrAny};

use super::{Base, Origin, Paced, Parts, Sink};

/// A peer that is gone is an error, and no signal; and whether the fd is blocking does not matter (send(2)).
const AT_ONCE: SendFlags = SendFlags::NOSIGNAL.union(SendFlags::DONTWAIT);

/// The number of a socket.
#[derive(Clone, Copy)]
pub(crate) struct Socket(i32);

impl Socket {
    /// # Safety
    /// The fd is open, and stays so until the last call on this: its owner is alive and cannot close it.
    pub(crate) unsafe fn new(fd: i32) -> Self {
        Self(fd)
    }

    fn fd(&self) -> BorrowedFd<'_> {
        // SAFETY: open, by contract of `new`, so not -1 either.
        unsafe { BorrowedFd::borrow_raw(self.0) }
    }

    /// Reads into memory.
    #[inline]
    pub(crate) fn receive_into(self, room: &mut [u8]) -> Result<usize, Errno> {
        rustix::net::recv(self.fd(), room, RecvFlags::DONTWAIT).map(|(read, _)| read)
    }

    /// Reads a datagram into memory that need not be initialised, and says who sent it, if it has an address.
    #[inline]
    pub(crate) fn receive_from(
        self,
        room: &mut [MaybeUninit<u8>],
    ) -> Result<(&[u8], Option<SocketAddrAny>), Errno> {
        rustix::net::recvfrom(self.fd(), room, RecvFlags::DONTWAIT)
            .map(|((read, _), _, sender)| (&*read, sender))
    }

    /// Sends a datagram.
    #[inline]
    pub(crate) fn send_to(self, data: &[u8], address: &impl SocketAddrArg) -> Result<usize, Errno> {
        rustix::net::sendto(self.fd(), data, AT_ONCE, address)
    }

    /// Small writes do not wait for the peer's acknowledgement (tcp(7), TCP_NODELAY).
    pub(crate) fn no_delay(self) -> Result<(), Errno> {
        rustix::net::sockopt::set_tcp_nodelay(self.fd(), true)
    }

    /// How a connect(2) ended, once the fd can be written to.
    pub(crate) fn pending_error(self) -> Result<Result<(), Errno>, Errno> {
        rustix::net::sockopt::socket_error(self.fd())
    }

    /// Tells the peer that nothing more comes; it may go on sending.
    pub(crate) fn end(self) -> Result<(), Errno> {
        rustix::net::shutdown(self.fd(), Shutdown::Write)
    }
}

impl Origin for Socket {
    #[inline]
    fn receive(self, room: &mut [MaybeUninit<u8>]) -> Result<&[u8], Errno> {
        rustix::net::recv(self.fd(), room, RecvFlags::DONTWAIT).map(|((read, _), _)| &*read)
    }
}

impl Sink for Socket {
    #[inline]
    fn send(self, data: &[u8]) -> Result<usize, Errno> {
        rustix::net::send(self.fd(), data, AT_ONCE)
    }

    fn send_many(self, data: &[IoSlice<'_>]) -> Result<usize, Errno> {
        rustix::net::sendmsg(self.fd(), data, &mut SendAncillaryBuffer::default(), AT_ONCE)
    }
}

impl Base {
    /// The socket, as long as it is open. For transports over sockets, which hold them open.
    #[inline]
    pub(crate) fn socket(&self, py: Attached<'_>) -> Option<Socket> {
        // SAFETY: the Python socket owns the fd and, by our reference among its `makefile()` ones, does not close it before
        // `leave` has taken it out of `file`. Users of the result run no Python code in between.
        self.is_open(py).then(|| unsafe { Socket::new(self.fd) })
    }
}

/// Counts as a file made of the socket, so that the socket's own `close()` waits for us.
pub(crate) fn hold_open(py: Attached<'_>, parts: &Parts, sock: Borrowed<'_>) -> PyResult<()> {
    let name = &parts.names.io_refs;
    if let Some(count) = sock.getattr_opt(py, name)? {
        sock.setattr(py, name, &Owned::int(py, count.to_i64(py)? + 1)?)?;
    }
    Ok(())
}

/// Closes a socket that was held open.
pub(crate) fn close_socket(py: Attached<'_>, parts: &Parts, sock: Borrowed<'_>) -> PyResult<()> {
    let names = &parts.names;
    if sock.getattr_opt(py, &names.io_refs)?.is_some() {
        sock.call_method0(py, &names.decref_io)?;
    }
    sock.call_method0(py, &names.close).map(drop)
}

/// `_extra`: what `get_extra_info` tells of a socket.
pub(crate) fn describe(
    py: Attached<'_>,
    parts: &Parts,
    sock: Borrowed<'_>,
    extra: Option<Owned>,
    peername: Option<Owned>,
) -> PyResult<Owned> {
    let names = &parts.names;
    let extra = match extra {
        Some(extra) => extra,
        None => Owned::dict(py)?,
    };
    let seen = parts.transport_socket.get(py)?.call1(py, &sock)?;
    extra.dict_set(py, &names.socket, &seen)?;
    extra.dict_set(py, &names.sockname, &address(py, sock, &names.getsockname)?)?;
    if let Some(peername) = peername {
        extra.dict_set(py, &names.peername, &peername)?;
    } else if extra.dict_get(py, &names.peername)?.is_none() {
        extra.dict_set(py, &names.peername, &address(py, sock, &names.getpeername)?)?;
    }
    Ok(extra)
}

/// An address, or `None` if the socket has none.
fn address(py: Attached<'_>, sock: Borrowed<'_>, method: &Fixed) -> PyResult<Owned> {
    sock.call_method0(py, method).or_else(|raised| {
        if !super::is_expected(py, &raised) {
            return Err(raised);
        }
        raised.clear(py);
        Ok(Owned::none(py))
    })
}

/// `repr` of a transport over a socket.
pub(crate) fn socket_repr<T: Paced>(py: Attached<'_>, this: Instance<'_, T>) -> PyResult<String> {
    let base = this.payload().base();
    let mut text = format!("<{}", this.object().class_name(py));
    let open = base.is_open(py);
    if !open {
        text.push_str(" closed");
    } else if base.is_closing() {
        text.push_str(" closing");
    }
    // Writing to a string does not fail.
    let _ = write!(text, " fd={}", base.fd);
    if open && !base.owner.is_closed() {
        let interest = base.interest(py)?;
        let state = |direction| if interest.contains(direction) { "polling" } else { "idle" };
        let (read, write) = (state(Interest::READ), state(Interest::WRITE));
        let _ = write!(text, " read={read} write=<{write}, bufsize={}>", this.payload().size(py)?);
    }
    text.push('>');
    Ok(text)
}

/// The exception of an error.
#[cold]
pub(crate) fn os_error(py: Attached<'_>, error: Errno) -> Raised {
    Fault::Os(error.raw_os_error()).raise(py)
}

/// Whether there is just nothing to be done now.
#[inline]
pub(crate) fn is_later(error: Errno) -> bool {
    error == Errno::AGAIN || error == Errno::INTR
}
