//! Reading: one recv(2) per readiness, and what the protocol gets of it.
//!
//! Small reads go to a buffer that all transports of a loop share, and from there into a `bytes` of the exact size. Where the last
//! read was large the next one goes straight into a `bytes` as large as is to be expected, which saves the copy.

use std::sync::atomic::Ordering::Relaxed;

use evloop::Interest;
use pyrt::{Attached, Borrowed, Buffer, Fault, Kind, Owned, PyResult, Room};
use rustix::io::Errno;

use super::{SocketTransport, This};
use crate::transport::{LARGEST, Socket, debug, fatal, is_later, listen_no_more, os_error};

/// From here on a copy costs more than room that is not used up.
const LARGE: usize = 32 * 1024;

/// What a `bytes` and its block take beside the content. With it, room for 128 KiB stays below the size from which on
/// malloc(3) asks the kernel each time (mallopt(3), M_MMAP_THRESHOLD).
const HEADER: usize = 64;

impl SocketTransport {
    #[inline]
    pub(super) fn read(&self, py: Attached<'_>, this: This<'_>) -> PyResult<()> {
        let Some(protocol) = self.base.protocol.get(py) else { return Ok(()) };
        if self.buffered.load(Relaxed) {
            return self.read_into(py, this, protocol.borrow());
        }
        let Some(socket) = self.base.socket(py) else { return Ok(()) };
        let read = if self.expected.load(Relaxed) >= LARGE {
            self.read_large(py, socket)?
        } else {
            self.read_small(py, socket)?
        };
        let data = match read {
            Ok(Some(data)) => data,
            Ok(None) => return self.read_end(py, this, protocol.borrow()),
            Err(error) => return self.read_failed(py, this, error),
        };
        match protocol.call_method1(py, &self.base.parts().names.data_received, &data) {
            Ok(_) => Ok(()),
            Err(raised) => fatal(py, this, raised, c"Fatal error: protocol.data_received() call failed."),
        }
    }

    /// By way of the loop's buffer.
    #[inline]
    fn read_small(&self, py: Attached<'_>, socket: Socket) -> PyResult<Result<Option<Owned>, Errno>> {
        // Making a `bytes` runs no Python code: the collector does not know them.
        self.base.owner.scratch.with(py, |scratch| {
            let room = scratch.room();
            match socket.receive(room) {
                Ok(0) => Ok(Ok(None)),
                Ok(read) => {
                    self.expected.store(read, Relaxed);
                    Owned::bytes(py, room).map(|data| Ok(Some(data)))
                }
                Err(error) => Ok(Err(error)),
            }
        })?
    }

    /// Straight into its place. The room follows the traffic: twice as much if it was used up, half if not a quarter was used.
    /// A message often comes as a large part and the rest; the rest must not make the room too small for the next one.
    fn read_large(&self, py: Attached<'_>, socket: Socket) -> PyResult<Result<Option<Owned>, Errno>> {
        let expected = self.expected.load(Relaxed).next_power_of_two().min(LARGEST);
        let size = expected - HEADER;
        let mut room = Room::new(py, size)?;
        Ok(match socket.receive_raw(room.space()) {
            Ok(0) => Ok(None),
            Ok(read) => {
                let next = match read {
                    read if read == size => expected * 2,
                    read if read < expected / 4 => expected / 2,
                    _ => expected,
                };
                self.expected.store(next, Relaxed);
                // SAFETY: that many bytes were just read into it.
                Ok(Some(unsafe { room.finish(py, read)? }))
            }
            Err(error) => Err(error),
        })
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
            Err(raised) => fatal(py, this, raised, c"Fatal error: protocol.buffer_updated() call failed."),
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
