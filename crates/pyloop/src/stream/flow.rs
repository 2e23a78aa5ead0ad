//! Flow control: the protocol is told to stop writing when too much waits, and to go on when little is left.

use std::sync::atomic::Ordering::Relaxed;

use pyrt::{Attached, Owned, PyResult};

use super::{SocketTransport, This};

/// asyncio's default water marks.
pub(super) const HIGH: i64 = 64 * 1024;
pub(super) const LOW: i64 = 16 * 1024;

impl SocketTransport {
    pub(super) fn size(&self, py: Attached<'_>) -> PyResult<usize> {
        self.queue.with(py, |queue| queue.size())
    }

    pub(super) fn buffer_size(py: Attached<'_>, this: This<'_>) -> PyResult<usize> {
        this.size(py)
    }

    pub(super) fn maybe_pause(py: Attached<'_>, this: This<'_>) -> PyResult<()> {
        let size = i64::try_from(this.size(py)?).unwrap_or(i64::MAX);
        if size <= this.high.load(Relaxed) || this.protocol_paused.swap(true, Relaxed) {
            return Ok(());
        }
        let name = &this.parts().names.pause_writing;
        this.tell(py, this, name, "protocol.pause_writing() failed")
    }

    pub(super) fn maybe_resume(py: Attached<'_>, this: This<'_>) -> PyResult<()> {
        if !this.protocol_paused.load(Relaxed) {
            return Ok(());
        }
        let size = i64::try_from(this.size(py)?).unwrap_or(i64::MAX);
        if size > this.low.load(Relaxed) {
            return Ok(());
        }
        this.protocol_paused.store(false, Relaxed);
        let name = &this.parts().names.resume_writing;
        this.tell(py, this, name, "protocol.resume_writing() failed")
    }

    /// Calls the protocol. What it raises is reported and changes nothing.
    fn tell(&self, py: Attached<'_>, this: This<'_>, method: &pyrt::Fixed, failed: &str) -> PyResult<()> {
        let protocol = self.protocol.get(py).unwrap_or_else(|| Owned::none(py));
        let Err(raised) = protocol.call_method0(py, method) else { return Ok(()) };
        let exception = super::close::reportable(py, raised)?;
        let text = Owned::str(py, failed)?;
        let report = self.parts().report.get(py)?;
        report.call(py, [this.object(), exception.borrow(), text.borrow()]).map(drop)
    }
}
