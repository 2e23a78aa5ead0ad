//! Reading: one recv(2) per readiness, and what the protocol gets of it.

use std::ffi::CStr;
use std::sync::atomic::Ordering::Relaxed;

use evloop::Interest;
use pyrt::{Attached, Borrowed, Buffer, Fault, Instance, Kind, Owned, PyResult};
use rustix::io::Errno;

use super::{SocketTransport, This};
use crate::tls::SslProtocol;
use crate::transport::{debug, fatal, is_later, listen_no_more, os_error};

const UPDATED_FAILED: &CStr = c"Fatal error: protocol.buffer_updated() call failed.";

impl SocketTransport {
    #[inline]
    pub(super) fn read(&self, py: Attached<'_>, this: This<'_>) -> PyResult<()> {
        let Some(protocol) = self.base.protocol.get(py) else { return Ok(()) };
        if self.buffered.load(Relaxed) {
            let secure = &self.base.owner.native().tls.protocol;
            return match secure.downcast(protocol.borrow()).filter(|_| secure.is_exact(&protocol)) {
                Some(tls) => self.read_secure(py, this, tls),
                None => self.read_into(py, this, protocol.borrow()),
            };
        }
        let Some(socket) = self.base.socket(py) else { return Ok(()) };
        let data = match self.intake.read(py, &self.base.owner, socket)? {
            Ok(Some(data)) => data,
            Ok(None) => return self.read_end(py, this, protocol.borrow()),
            Err(error) => return self.read_failed(py, this, error),
        };
        match protocol.call_method1(py, &self.base.parts().names.data_received, &data) {
            Ok(_) => Ok(()),
            Err(raised) => fatal(py, this, raised, c"Fatal error: protocol.data_received() call failed."),
        }
    }

    /// Into the buffer of our own TLS, without objects in between.
    fn read_secure(&self, py: Attached<'_>, this: This<'_>, tls: Instance<'_, SslProtocol>) -> PyResult<()> {
        let Some(window) = self.base.owner.tls.lend_window(py, tls)? else {
            return self.read_into(py, this, tls.object());
        };
        let Some(socket) = self.base.socket(py) else { return Ok(()) };
        let read = window.fill(py, |room| socket.receive_into(room));
        drop(window);
        let read = match read {
            Ok(0) => return self.read_end(py, this, tls.object()),
            Ok(read) => read,
            Err(error) => return self.read_failed(py, this, error),
        };
        match SslProtocol::received(py, tls, read) {
            Ok(()) => Ok(()),
            Err(raised) => fatal(py, this, raised, UPDATED_FAILED),
        }
    }

    /// Into memory of the protocol's own.
    fn read_into(&self, py: Attached<'_>, this: This<'_>, protocol: Borrowed<'_>) -> PyResult<()> {
        let names = &self.base.parts().names;
        let buffer = match self.get_buffer(py, protocol) {
            Ok(buffer) => buffer,
            Err(raised) => {
                return fatal(py, this, raised, c"Fatal error: protocol.get_buffer() call failed.");
            }
        };
        let mut room = match Buffer::write(py, &buffer) {
            Ok(room) => room,
            Err(raised) => {
                raised.clear(py);
                let class = buffer.class_name(py);
                let text =
                    format!("recv_into() argument 1 must be read-write bytes-like object, not {class}");
                let raised = Kind::TypeError.raise(py, &text);
                return fatal(py, this, raised, c"Fatal read error on socket transport");
            }
        };
        // get_buffer() was anybody's code; asked for after it.
        let Some(socket) = self.base.socket(py) else { return Ok(()) };
        let read = socket.receive_into(room.as_mut_slice());
        // The protocol may want to resize it in buffer_updated().
        drop(room);
        let read = match read {
            Ok(0) => return self.read_end(py, this, protocol),
            Ok(read) => read,
            Err(error) => return self.read_failed(py, this, error),
        };
        match protocol.call_method1(py, &names.buffer_updated, &Owned::uint(py, read as u64)?) {
            Ok(_) => Ok(()),
            Err(raised) => fatal(py, this, raised, UPDATED_FAILED),
        }
    }

    #[inline]
    fn get_buffer(&self, py: Attached<'_>, protocol: Borrowed<'_>) -> PyResult<Owned> {
        let buffer = protocol.call_method1(py, &self.base.parts().names.get_buffer, &Owned::int(py, -1)?)?;
        if buffer.len(py)? == 0 {
            return Err(Fault::runtime("get_buffer() returned an empty buffer").raise(py));
        }
        Ok(buffer)
    }

    #[cold]
    fn read_failed(&self, py: Attached<'_>, this: This<'_>, error: Errno) -> PyResult<()> {
        if is_later(error) {
            return Ok(());
        }
        fatal(py, this, os_error(py, error), c"Fatal read error on socket transport")
    }

    /// The peer sends nothing more.
    fn read_end(&self, py: Attached<'_>, this: This<'_>, protocol: Borrowed<'_>) -> PyResult<()> {
        debug(py, this, c"%r received EOF")?;
        let keep_open = match protocol.call_method0(py, &self.base.parts().names.eof_received) {
            Ok(keep_open) => keep_open,
            Err(raised) => {
                return fatal(py, this, raised, c"Fatal error: protocol.eof_received() call failed.");
            }
        };
        if keep_open.is_true(py)? {
            // Writing goes on; there is nothing to read any more.
            listen_no_more(py, this, Interest::READ)
        } else {
            Self::close(py, this)
        }
    }
}
