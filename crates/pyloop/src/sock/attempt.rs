//! What an operation tries, each time it may have come to pass. Nothing here waits.
//!
//! Receiving and sending are system calls of our own. Where an address comes in, the socket's own methods know all families.

use pyrt::{Attached, Buffer, Fault, Fixed, Kind, Owned, PyResult, Room};
use rustix::io::Errno;

use super::{Job, Operation, Phase, Progress};
use crate::transport::{LARGE, LARGEST, Origin as _, Sink as _, Socket, is_later};

const EBADF: i32 = 9;

impl Operation {
    /// Tries. Nothing comes back if there is just nothing to be done now.
    pub(super) fn attempt(&self, py: Attached<'_>) -> PyResult<Option<Owned>> {
        let names = &self.owner.native().sock.names;
        match self.job {
            Job::Recv(size) => self.recv(py, size),
            Job::RecvInto => self.recv_into(py),
            Job::SendAll => self.send_all(py),
            Job::RecvFrom => self.ask_socket(py, &names.recvfrom),
            Job::RecvFromInto => self.ask_socket(py, &names.recvfrom_into),
            Job::SendTo => self.ask_socket(py, &names.sendto),
            Job::Accept => self.accept(py),
            Job::Connect => self.connect(py),
        }
    }

    /// The number of the socket, which is the one that is listened to, if any.
    pub(super) fn number(&self, py: Attached<'_>) -> PyResult<i32> {
        let fd = self.sock.call_method0(py, &self.owner.native().sock.names.fileno)?.to_i32(py)?;
        let other = self.progress.with(py, |progress| progress.is_waiting() && progress.fd != fd)?;
        if fd < 0 || other { Err(Fault::Os(EBADF).raise(py)) } else { Ok(fd) }
    }

    #[inline]
    fn socket(&self, py: Attached<'_>) -> PyResult<Socket> {
        let fd = self.number(py)?;
        // SAFETY: the Python socket has just said that it is its fd. It lives, and nothing closes it before the call that
        // follows at once.
        Ok(unsafe { Socket::new(fd) })
    }

    #[inline]
    fn recv(&self, py: Attached<'_>, size: usize) -> PyResult<Option<Owned>> {
        let socket = self.socket(py)?;
        if size > LARGEST || (size >= LARGE && self.owner.scratch.with(py, |it| it.received >= LARGE)?) {
            return self.recv_large(py, socket, size);
        }
        // Making a `bytes` runs no Python code: the collector does not know them.
        let read = self.owner.scratch.with(py, |scratch| {
            match socket.receive(scratch.room().get_mut(..size).unwrap_or_default()) {
                Ok(data) => {
                    let (received, data) = (data.len(), Owned::bytes(py, data));
                    scratch.received = received;
                    data.map(Ok)
                }
                Err(error) => Ok(Err(error)),
            }
        })?;
        read?.map_or_else(|error| later(py, error), |data| Ok(Some(data)))
    }

    /// Straight into its place, as what comes is likely to be worth that.
    fn recv_large(&self, py: Attached<'_>, socket: Socket, size: usize) -> PyResult<Option<Owned>> {
        let mut room = Room::new(py, size)?;
        match socket.receive(room.space()).map(<[u8]>::len) {
            Ok(read) => {
                self.owner.scratch.with(py, |scratch| scratch.received = read)?;
                // SAFETY: that many bytes were just read into it.
                unsafe { room.finish(py, read).map(Some) }
            }
            Err(error) => later(py, error),
        }
    }

    fn recv_into(&self, py: Attached<'_>) -> PyResult<Option<Owned>> {
        let Some(place) = &self.first else { return Err(super::lost(py)) };
        let mut room = Buffer::write(py, place)?;
        match self.socket(py)?.receive_into(room.as_mut_slice()) {
            Ok(read) => Owned::uint(py, read as u64).map(Some),
            Err(error) => later(py, error),
        }
    }

    #[inline]
    fn send_all(&self, py: Attached<'_>) -> PyResult<Option<Owned>> {
        let socket = self.socket(py)?;
        let sent = self.progress.with(py, |progress| {
            let Progress { data: Some(data), sent, .. } = progress else { return Ok(true) };
            *sent += socket.send(data.as_slice().get(*sent..).unwrap_or_default())?;
            Ok(*sent == data.len())
        })?;
        match sent {
            Ok(true) => Ok(Some(Owned::none(py))),
            Ok(false) => Ok(None),
            Err(error) => later(py, error),
        }
    }

    fn ask_socket(&self, py: Attached<'_>, method: &Fixed) -> PyResult<Option<Owned>> {
        self.number(py)?;
        let asked = match (&self.first, &self.second) {
            (Some(first), Some(second)) => {
                self.sock.call_method(py, method, [first.borrow(), second.borrow()])
            }
            (Some(first), None) => self.sock.call_method1(py, method, &**first),
            _ => self.sock.call_method0(py, method),
        };
        unless_later(py, asked)
    }

    fn accept(&self, py: Attached<'_>) -> PyResult<Option<Owned>> {
        let names = &self.owner.native().sock.names;
        let Some(accepted) = self.ask_socket(py, &names.accept)? else { return Ok(None) };
        if let [connection, ..] = accepted.as_tuple(py)? {
            connection.call_method1(py, &names.setblocking, &Owned::bool(py, false))?;
        }
        Ok(Some(accepted))
    }

    /// The first time it connects; after that it asks how that ended.
    fn connect(&self, py: Attached<'_>) -> PyResult<Option<Owned>> {
        let parts = &self.owner.native().sock;
        if self.progress.with(py, |progress| !progress.is_waiting())? {
            return self.ask_socket(py, &parts.names.connect);
        }
        match self.socket(py)?.pending_error() {
            Ok(Ok(())) => Ok(Some(Owned::none(py))),
            Ok(Err(error)) if is_later(error) => Ok(None),
            Ok(Err(error)) | Err(error) => {
                let Some(address) = &self.first else { return Err(super::lost(py)) };
                let number = Owned::int(py, i64::from(error.raw_os_error()))?;
                parts.connect_failed.get(py)?.call(py, [number.borrow(), address.borrow()]).map(Some)
            }
        }
    }
}

impl Progress {
    #[inline]
    pub(super) fn is_waiting(&self) -> bool {
        matches!(self.phase, Phase::Waiting)
    }
}

/// Nothing, if there is just nothing to be done now; otherwise the exception.
#[inline]
fn later(py: Attached<'_>, error: Errno) -> PyResult<Option<Owned>> {
    if is_later(error) { Ok(None) } else { Err(Fault::Os(error.raw_os_error()).raise(py)) }
}

fn unless_later(py: Attached<'_>, asked: PyResult<Owned>) -> PyResult<Option<Owned>> {
    match asked {
        Ok(value) => Ok(Some(value)),
        Err(raised)
            if raised.matches(py, &Kind::BlockingIOError.class(py))
                || raised.matches(py, &Kind::InterruptedError.class(py)) =>
        {
            raised.clear(py);
            Ok(None)
        }
        Err(raised) => Err(raised),
    }
}
