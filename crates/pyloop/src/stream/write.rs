//! Writing: at once when nothing waits, otherwise into the queue; and the queue going out.

use std::sync::atomic::Ordering::Relaxed;

use evloop::Interest;
use pyrt::{Attached, Borrowed, Buffer, Kind, Owned, PyResult, Raised};
use rustix::io::Errno;

use super::{SocketTransport, This};
use crate::transport::{
    Paced as _, Streaming as _, Transport as _, fatal, is_later, listen_for_room, listen_no_more,
    maybe_pause, maybe_resume, os_error, put,
};

impl SocketTransport {
    pub(super) fn write(py: Attached<'_>, this: This<'_>, data: Borrowed<'_>) -> PyResult<()> {
        if data.is_exact_bytes() {
            let bytes = data.to_bytes(py)?;
            if !this.accepts(py, "write", bytes.is_empty())? {
                return Ok(());
            }
            if this.put_off(py, this, data, bytes.len())? {
                return Ok(());
            }
            return put(py, this, bytes, Some(data));
        }
        if !(data.is_bytes() || data.is_bytearray() || data.is_memoryview()) {
            let text = format!("data argument must be a bytes-like object, not '{}'", data.class_name(py));
            return Err(Kind::TypeError.raise(py, &text));
        }
        let empty = data.len(py)? == 0;
        if !this.accepts(py, "write", empty)? {
            return Ok(());
        }
        match Buffer::read(py, &data) {
            Ok(buffer) => Self::put_slice(py, this, buffer.as_slice()),
            Err(raised) => this.write_failed(py, this, raised),
        }
    }

    /// [`write`](Self::write) for memory that the caller uses again: what cannot be sent at once is copied.
    #[inline]
    pub(crate) fn write_slice(py: Attached<'_>, this: This<'_>, data: &[u8]) -> PyResult<()> {
        if this.accepts(py, "write", data.is_empty())? { Self::put_slice(py, this, data) } else { Ok(()) }
    }

    #[inline]
    fn put_slice(py: Attached<'_>, this: This<'_>, data: &[u8]) -> PyResult<()> {
        this.send_held(py)?;
        if this.base.is_lost() { Ok(()) } else { put(py, this, data, None) }
    }

    /// Whether it does what its class does: nobody has given this one an attribute of its own.
    #[inline]
    pub(crate) fn is_untouched(&self, py: Attached<'_>) -> bool {
        self.dict.is_unused(py)
    }

    /// What stands against writing: an error, or nothing to be done at all.
    #[inline]
    fn accepts(&self, py: Attached<'_>, method: &str, empty: bool) -> PyResult<bool> {
        if self.eof.load(Relaxed) {
            return Err(Kind::RuntimeError.raise(py, &format!("Cannot call {method}() after write_eof()")));
        }
        if self.empty_waiter.is_set(py) {
            return Err(Kind::RuntimeError.raise(py, &format!("unable to {method}; sendfile is in progress")));
        }
        if empty {
            return Ok(false);
        }
        if self.base.is_lost() {
            self.base.write_is_late(py, c"socket.send() raised exception.")?;
            return Ok(false);
        }
        Ok(true)
    }

    #[cold]
    fn write_failed(&self, py: Attached<'_>, this: This<'_>, raised: Raised) -> PyResult<()> {
        fatal(py, this, raised, Self::FAILED)
    }

    pub(super) fn writelines(py: Attached<'_>, this: This<'_>, lines: Borrowed<'_>) -> PyResult<()> {
        if !this.parts().vectored_lines {
            let all = Owned::bytes(py, b"")?.call_method1(py, &Owned::interned(py, c"join")?, &lines)?;
            return Self::write(py, this, all.borrow());
        }
        // Whatever has a truth value may be nothing at all.
        if !this.accepts(py, "writelines", false)? || !lines.is_true(py)? {
            return Ok(());
        }
        let lines = lines.iter(py)?;
        let mut chunks = Vec::new();
        while let Some(line) = lines.next(py)? {
            if line.is_exact_bytes() {
                chunks.push((line, None));
            } else {
                // The words for what is no buffer are a memoryview's.
                let view = Owned::memoryview(py, &line)?;
                let copy = Buffer::read(py, &view)?.as_slice().to_vec();
                chunks.push((line, Some(copy)));
            }
        }
        this.send_held(py)?;
        if this.base.is_lost() {
            return Ok(());
        }
        let was_empty = this.queue.with(py, |queue| {
            let was_empty = queue.size() == 0;
            for (line, copy) in &chunks {
                match copy {
                    Some(copy) => queue.copy(copy),
                    None => queue.keep(py, line.clone_ref(py), 0),
                }
            }
            was_empty
        })?;
        if was_empty { this.start_queue(py, this) } else { maybe_pause(py, this) }
    }

    /// What was put into an empty queue goes out, as far as it does.
    pub(super) fn start_queue(&self, py: Attached<'_>, this: This<'_>) -> PyResult<()> {
        self.flush(py, this)?;
        if self.size(py)? == 0 || self.base.is_lost() {
            return Ok(());
        }
        listen_for_room(py, this)?;
        maybe_pause(py, this)
    }

    pub(super) fn write_eof(py: Attached<'_>, this: This<'_>) -> PyResult<()> {
        this.send_held(py)?;
        if this.base.is_closing() || this.eof.swap(true, Relaxed) {
            return Ok(());
        }
        if this.size(py)? == 0 { this.end_writing(py) } else { Ok(()) }
    }

    fn end_writing(&self, py: Attached<'_>) -> PyResult<()> {
        match self.base.socket(py).map(|socket| socket.end()) {
            Some(Err(error)) => Err(os_error(py, error)),
            _ => Ok(()),
        }
    }

    /// Sends what waits, and goes on with whatever waited for that.
    pub(super) fn flush(&self, py: Attached<'_>, this: This<'_>) -> PyResult<()> {
        let Some(socket) = self.base.socket(py).filter(|_| !self.base.is_lost()) else { return Ok(()) };
        match self.queue.with(py, |queue| queue.send(py, socket))? {
            Ok(()) => {}
            Err(error) if is_later(error) => return Ok(()),
            Err(error) => return self.flush_failed(py, this, error),
        }
        maybe_resume(py, this)?;
        if self.size(py)? > 0 {
            return Ok(());
        }
        drop(self.base.writing_in.take(py));
        listen_no_more(py, this, Interest::WRITE)?;
        if let Some(waiter) = self.empty_waiter.get(py) {
            waiter.call_method1(py, &self.base.parts().names.set_result, &Borrowed::none(py))?;
        }
        if self.base.is_closing() && !self.base.is_lost() {
            return Self::connection_lost(py, this, Borrowed::none(py));
        }
        if self.eof.load(Relaxed) && !self.base.is_closing() { self.end_writing(py) } else { Ok(()) }
    }

    #[cold]
    fn flush_failed(&self, py: Attached<'_>, this: This<'_>, error: Errno) -> PyResult<()> {
        listen_no_more(py, this, Interest::WRITE)?;
        self.drop_queue(py)?;
        let exception = os_error(py, error).take(py);
        let waiter = self.empty_waiter.get(py);
        let cause = exception.clone_ref(py);
        self.write_failed(py, this, exception.raise(py))?;
        match waiter {
            Some(waiter) => {
                waiter.call_method1(py, &self.base.parts().names.set_exception, &cause.into_value()).map(drop)
            }
            None => Ok(()),
        }
    }
}
