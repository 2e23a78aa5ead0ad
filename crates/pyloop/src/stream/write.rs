//! Writing: at once when nothing waits, otherwise into the queue; and the queue going out.

use std::sync::atomic::Ordering::Relaxed;

use evloop::Interest;
use pyrt::{Attached, Borrowed, Buffer, Context, Fault, Kind, Owned, PyResult, Raised, run_in};
use rustix::io::Errno;

use super::socket::is_later;
use super::{SocketTransport, This};

/// Writes to a lost connection that pass without a word (asyncio's LOG_THRESHOLD_FOR_CONNLOST_WRITES).
const SILENT: u32 = 5;

impl SocketTransport {
    pub(super) fn write(py: Attached<'_>, this: This<'_>, data: Borrowed<'_>) -> PyResult<()> {
        if data.is_exact_bytes() {
            let bytes = data.to_bytes(py)?;
            if !this.accepts(py, "write", bytes.is_empty())? {
                return Ok(());
            }
            return this.put(py, this, bytes, Some(data));
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
            Ok(buffer) => this.put(py, this, buffer.as_slice(), None),
            Err(raised) => this.write_failed(py, this, raised),
        }
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
        if self.is_lost() {
            if self.conn_lost.load(Relaxed) >= SILENT {
                self.parts().lost_write.get(py)?.call0(py)?;
            }
            self.conn_lost.fetch_add(1, Relaxed);
            return Ok(false);
        }
        Ok(true)
    }

    /// Sends now if nothing waits; what is left is queued, by reference if it is a `bytes`.
    #[inline]
    fn put(&self, py: Attached<'_>, this: This<'_>, data: &[u8], kept: Option<Borrowed<'_>>) -> PyResult<()> {
        let Some(socket) = self.socket(py) else { return Ok(()) };
        let was_empty = self.size(py)? == 0;
        let mut sent = 0;
        if was_empty {
            match socket.send(data) {
                Ok(all) if all == data.len() => return Ok(()),
                Ok(some) => sent = some,
                Err(error) if is_later(error) => {}
                Err(error) => return self.write_failed(py, this, os_error(py, error)),
            }
        }
        self.queue.with(py, |queue| match kept {
            Some(bytes) => queue.keep(py, bytes.clone_ref(py), sent),
            None => queue.copy(data.get(sent..).unwrap_or(&[])),
        })?;
        if was_empty {
            self.listen_for_room(py, this)?;
        }
        Self::maybe_pause(py, this)
    }

    /// The protocol hears of room in the context of whoever filled it up.
    fn listen_for_room(&self, py: Attached<'_>, this: This<'_>) -> PyResult<()> {
        self.writing_in.set(py, Context::copy_current(py)?.into_object());
        self.listen_also(py, this, Interest::WRITE)
    }

    #[cold]
    fn write_failed(&self, py: Attached<'_>, this: This<'_>, raised: Raised) -> PyResult<()> {
        self.fatal(py, this, raised, c"Fatal write error on socket transport")
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
        if was_empty {
            this.flush(py, this)?;
        }
        if this.size(py)? > 0 && !this.is_lost() {
            this.listen_for_room(py, this)?;
            Self::maybe_pause(py, this)?;
        }
        Ok(())
    }

    pub(super) fn write_eof(py: Attached<'_>, this: This<'_>) -> PyResult<()> {
        if this.is_closing() || this.eof.swap(true, Relaxed) {
            return Ok(());
        }
        if this.size(py)? == 0 { this.end_writing(py) } else { Ok(()) }
    }

    fn end_writing(&self, py: Attached<'_>) -> PyResult<()> {
        match self.socket(py).map(|socket| socket.end()) {
            Some(Err(error)) => Err(os_error(py, error)),
            _ => Ok(()),
        }
    }

    /// There is room.
    pub(super) fn write_ready(&self, py: Attached<'_>, this: This<'_>) -> PyResult<()> {
        match self.writing_in.get(py) {
            Some(context) => run_in(py, &context, || self.flush(py, this)),
            None => self.flush(py, this),
        }
    }

    /// Sends what waits, and goes on with whatever waited for that.
    fn flush(&self, py: Attached<'_>, this: This<'_>) -> PyResult<()> {
        let Some(socket) = self.socket(py).filter(|_| !self.is_lost()) else { return Ok(()) };
        match self.queue.with(py, |queue| queue.send(py, socket))? {
            Ok(()) => {}
            Err(error) if is_later(error) => return Ok(()),
            Err(error) => return self.flush_failed(py, this, error),
        }
        Self::maybe_resume(py, this)?;
        if self.size(py)? > 0 {
            return Ok(());
        }
        drop(self.writing_in.take(py));
        self.listen_no_more(py, this, Interest::WRITE)?;
        if let Some(waiter) = self.empty_waiter.get(py) {
            waiter.call_method1(py, &self.parts().names.set_result, &Borrowed::none(py))?;
        }
        if self.is_closing() && !self.is_lost() {
            return Self::call_connection_lost(py, this, Borrowed::none(py));
        }
        if self.eof.load(Relaxed) && !self.is_closing() { self.end_writing(py) } else { Ok(()) }
    }

    #[cold]
    fn flush_failed(&self, py: Attached<'_>, this: This<'_>, error: Errno) -> PyResult<()> {
        self.listen_no_more(py, this, Interest::WRITE)?;
        drop(self.queue.with(py, |queue| queue.take())?);
        let exception = os_error(py, error).take(py);
        let waiter = self.empty_waiter.get(py);
        let cause = exception.clone_ref(py);
        self.write_failed(py, this, exception.raise(py))?;
        match waiter {
            Some(waiter) => {
                waiter.call_method1(py, &self.parts().names.set_exception, &cause.into_value()).map(drop)
            }
            None => Ok(()),
        }
    }
}

fn os_error(py: Attached<'_>, error: Errno) -> Raised {
    Fault::Os(error.raw_os_error()).raise(py)
}
