//! Sending: at once when nothing waits, otherwise into the queue; and the queue going out.

use evloop::Interest;
use pyrt::{Args, Attached, Borrowed, Buffer, Fault, Kind, Owned, PyResult, Raised};
use rustix::io::Errno;

use super::peers::{Peer, address_of};
use super::{DatagramTransport, This, Waiting};
use crate::transport::{
    Sink as _, call_connection_lost, fatal, is_expected, is_later, listen_also, listen_no_more, maybe_pause,
    maybe_resume, os_error, remember_context,
};

/// What became of a datagram.
#[derive(PartialEq)]
enum Sent {
    Now,
    /// There is no room.
    Later,
}

#[inline]
fn outcome(py: Attached<'_>, sent: Result<usize, Errno>) -> PyResult<Sent> {
    match sent {
        Ok(_) => Ok(Sent::Now),
        Err(error) if is_later(error) => Ok(Sent::Later),
        Err(error) => Err(os_error(py, error)),
    }
}

impl DatagramTransport {
    pub(super) fn sendto(py: Attached<'_>, this: This<'_>, args: Args<'_>) -> PyResult<()> {
        let (data, address) = match (args.positional(), args.named()) {
            ([data, address], 0) => (*data, Some(*address)),
            ([data], 0) => (*data, None),
            _ => match this.parts().sendto.parse(py, &args)? {
                [Some(data), address] => (data, address),
                _ => return Err(Fault::system("a required argument was lost").raise(py)),
            },
        };
        if data.is_exact_bytes() {
            return this.put(py, this, data, address);
        }
        if !(data.is_bytes() || data.is_bytearray() || data.is_memoryview()) {
            let text = format!("data argument must be a bytes-like object, not '{}'", data.class_name(py));
            return Err(Kind::TypeError.raise(py, &text));
        }
        match Buffer::read(py, &data).and_then(|buffer| Owned::bytes(py, buffer.as_slice())) {
            Ok(copy) => this.put(py, this, copy.borrow(), address),
            Err(raised) => this.failed(py, this, raised),
        }
    }

    #[inline]
    fn put(
        &self,
        py: Attached<'_>,
        this: This<'_>,
        data: Borrowed<'_>,
        address: Option<Borrowed<'_>>,
    ) -> PyResult<()> {
        let bytes = data.to_bytes(py)?;
        if bytes.is_empty() && !self.parts().sends_nothing {
            return Ok(());
        }
        let address = address.filter(|address| !address.is_none());
        let fixed = self.address.get(py);
        let address = match &fixed {
            Some(fixed) => Some(self.check(py, fixed, address)?),
            None => address,
        };
        if self.base.is_lost() && (fixed.is_some() || !self.base.is_open(py)) {
            return self.base.write_is_late(py, c"socket.send() raised exception.");
        }
        if self.is_idle(py)? {
            match self.transmit(py, data, bytes, address) {
                Ok(Sent::Now) => return Ok(()),
                Ok(Sent::Later) if self.base.is_lost() => return Ok(()),
                Ok(Sent::Later) => {
                    // The protocol hears of room in the context of whoever filled it up.
                    remember_context(py, &self.base.writing_in)?;
                    listen_also(py, this, Interest::WRITE)?;
                }
                Err(raised) => return self.failed(py, this, raised),
            }
        }
        let waiting = Waiting {
            data: data.clone_ref(py),
            address: address.map(|address| address.clone_ref(py)),
            size: bytes.len() + self.parts().header,
        };
        self.queue.with(py, |queue| {
            queue.size += waiting.size;
            queue.datagrams.push_back(waiting);
        })?;
        maybe_pause(py, this)
    }

    /// Where it goes, if that was fixed; another address is an error.
    fn check<'a>(
        &self,
        py: Attached<'_>,
        fixed: &'a Owned,
        given: Option<Borrowed<'_>>,
    ) -> PyResult<Borrowed<'a>> {
        match given {
            Some(given) if !given.is(fixed) && !given.equals(py, fixed)? => {
                let fixed = fixed.str(py)?.to_string_lossy(py)?;
                let text = format!("Invalid address: must be None or {fixed}");
                Err(Kind::ValueError.raise(py, &text))
            }
            _ => Ok(fixed.borrow()),
        }
    }

    /// Hands a datagram to the kernel.
    fn transmit(
        &self,
        py: Attached<'_>,
        data: Borrowed<'_>,
        bytes: &[u8],
        address: Option<Borrowed<'_>>,
    ) -> PyResult<Sent> {
        let Some(socket) = self.base.socket(py) else { return Ok(Sent::Later) };
        let sent = if self.connected {
            socket.send(bytes)
        } else {
            let Some(address) = address else { return self.transmit_across(py, data, bytes) };
            let known = self
                .peers
                .with(py, |peers| peers.find(address).map(|address| socket.send_to(bytes, address)))?;
            match known {
                Some(sent) => sent,
                None => match address_of(py, address, self.family) {
                    Some(found) => {
                        let sent = socket.send_to(bytes, &found);
                        let peer = Peer { address: found, name: address.clone_ref(py) };
                        drop(self.peers.with(py, |peers| peers.sent_to(peer))?);
                        sent
                    }
                    None => return self.transmit_slowly(py, data, Some(address)),
                },
            }
        };
        outcome(py, sent)
    }

    /// To the other end of a pair, which has no name: so the transport is not known to be connected.
    #[cold]
    fn transmit_across(&self, py: Attached<'_>, data: Borrowed<'_>, bytes: &[u8]) -> PyResult<Sent> {
        let Some(socket) = self.base.socket(py) else { return Ok(Sent::Later) };
        match socket.send(bytes) {
            // Nobody is there: Python says what an address should be.
            Err(Errno::NOTCONN | Errno::DESTADDRREQ) => self.transmit_slowly(py, data, None),
            sent => outcome(py, sent),
        }
    }

    /// By way of the Python socket: it knows what to do with names, and what to say about what is no address.
    #[cold]
    fn transmit_slowly(
        &self,
        py: Attached<'_>,
        data: Borrowed<'_>,
        address: Option<Borrowed<'_>>,
    ) -> PyResult<Sent> {
        let Some(sock) = self.base.file.get(py) else { return Ok(Sent::Later) };
        let address = address.unwrap_or_else(|| Borrowed::none(py));
        match sock.call_method(py, &self.base.parts().names.sendto, [data, address]) {
            Ok(_) => Ok(Sent::Now),
            Err(raised)
                if raised.matches(py, &Kind::BlockingIOError.class(py))
                    || raised.matches(py, &Kind::InterruptedError.class(py)) =>
            {
                raised.clear(py);
                Ok(Sent::Later)
            }
            Err(raised) => Err(raised),
        }
    }

    /// The network's errors are told to the protocol and are not the end; all others are.
    #[cold]
    fn failed(&self, py: Attached<'_>, this: This<'_>, raised: Raised) -> PyResult<()> {
        if is_expected(py, &raised) {
            self.tell_error(py, raised)
        } else {
            fatal(py, this, raised, c"Fatal write error on datagram transport")
        }
    }

    /// Sends what waits, and goes on with whatever waited for that.
    pub(super) fn flush(&self, py: Attached<'_>, this: This<'_>) -> PyResult<()> {
        while let Some(first) = self.next(py)? {
            let address = first.address.as_ref().map(|address| address.borrow());
            match self.transmit(py, first.data.borrow(), first.data.to_bytes(py)?, address) {
                Ok(Sent::Now) => {}
                Ok(Sent::Later) => {
                    self.queue.with(py, |queue| {
                        queue.size += first.size;
                        queue.datagrams.push_front(first);
                    })?;
                    break;
                }
                Err(raised) => return self.failed(py, this, raised),
            }
        }
        maybe_resume(py, this)?;
        if self.base.is_lost() || !self.is_idle(py)? {
            return Ok(());
        }
        drop(self.base.writing_in.take(py));
        listen_no_more(py, this, Interest::WRITE)?;
        if self.base.is_closing() { call_connection_lost(py, this, Borrowed::none(py)) } else { Ok(()) }
    }

    fn next(&self, py: Attached<'_>) -> PyResult<Option<Waiting>> {
        self.queue.with(py, |queue| {
            let first = queue.datagrams.pop_front()?;
            queue.size = queue.size.saturating_sub(first.size);
            Some(first)
        })
    }
}
