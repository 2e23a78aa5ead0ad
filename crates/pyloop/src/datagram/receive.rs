//! Receiving: datagrams of one readiness, and what the protocol gets of them.
//!
//! After one datagram it is not known whether there are more, and to ask costs a system call, which traffic of questions and
//! answers would pay in vain each time. Asking in vain makes the next time rarer; finding something brings it back at once.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use evloop::Interest;
use pyrt::{Attached, Owned, PyResult, Raised};
use rustix::io::Errno;
use rustix::net::SocketAddrAny;

use super::DatagramTransport;
use super::peers::{Peer, name_of};
use crate::transport::{Socket, is_later, os_error};

/// The most datagrams in one go: others want their turn too.
const MOST: usize = 16;
/// The most times in a row that it is not asked whether there are more.
const RARELY: u32 = 64;

/// Whether to ask for more after the first datagram of a readiness.
#[derive(Default)]
pub(super) struct More {
    /// How many times it will not be asked.
    rests: AtomicU32,
    /// How many times it was not asked before the last time.
    rested: AtomicU32,
}

impl More {
    /// The most datagrams to receive now.
    fn most(&self) -> usize {
        match self.rests.load(Relaxed) {
            0 => MOST,
            rests => {
                self.rests.store(rests - 1, Relaxed);
                1
            }
        }
    }

    fn found(&self) {
        self.rested.store(0, Relaxed);
    }

    fn asked_in_vain(&self) {
        let rests = (self.rested.load(Relaxed) * 2 + 1).min(RARELY);
        self.rested.store(rests, Relaxed);
        self.rests.store(rests, Relaxed);
    }
}

impl DatagramTransport {
    pub(super) fn receive(&self, py: Attached<'_>) -> PyResult<()> {
        for number in 0..self.more.most() {
            let Some(socket) = self.base.socket(py).filter(|_| !self.base.is_lost()) else { return Ok(()) };
            let Some(protocol) = self.base.protocol.get(py) else { return Ok(()) };
            let (data, sender) = match self.receive_one(py, socket)? {
                Ok(received) => received,
                Err(error) if is_later(error) => {
                    if number == 1 {
                        self.more.asked_in_vain();
                    }
                    return Ok(());
                }
                Err(error) => return self.tell_error(py, os_error(py, error)),
            };
            if number > 0 {
                self.more.found();
            }
            let sender = self.name(py, sender)?;
            let method = &self.base.parts().names.datagram_received;
            protocol.call_method(py, method, [data.borrow(), sender.borrow()])?;
            if !self.base.interest(py)?.contains(Interest::READ) {
                return Ok(());
            }
        }
        Ok(())
    }

    /// By way of the loop's buffer.
    #[inline]
    fn receive_one(
        &self,
        py: Attached<'_>,
        socket: Socket,
    ) -> PyResult<Result<(Owned, Option<SocketAddrAny>), Errno>> {
        // Making a `bytes` runs no Python code: the collector does not know them.
        self.base.owner.scratch.with(py, |scratch| match socket.receive_from(scratch.room()) {
            Ok((read, sender)) => Owned::bytes(py, read).map(|data| Ok((data, sender))),
            Err(error) => Ok(Err(error)),
        })?
    }

    /// The sender as Python's sockets tell it; one without an address is `None`.
    #[inline]
    fn name(&self, py: Attached<'_>, sender: Option<SocketAddrAny>) -> PyResult<Owned> {
        let Some(address) = sender else { return Ok(Owned::none(py)) };
        // The guard is left before anything is dropped.
        if let Some((name, _forgotten)) = self.peers.with(py, |peers| peers.recognise(py, &address))? {
            return Ok(name);
        }
        let name = name_of(py, &address)?;
        let peer = Peer { address, name: name.clone_ref(py) };
        drop(self.peers.with(py, |peers| peers.sent(py, peer))?);
        Ok(name)
    }

    /// Tells the protocol of an error that is not the end.
    #[cold]
    pub(super) fn tell_error(&self, py: Attached<'_>, raised: Raised) -> PyResult<()> {
        let exception = raised.take(py).into_value();
        let protocol = self.base.protocol.get(py).unwrap_or_else(|| Owned::none(py));
        let method = &self.base.parts().names.error_received;
        protocol.call_method1(py, method, &exception).map(drop)
    }
}
