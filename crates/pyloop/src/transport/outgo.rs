//! Writing to a stream of bytes: at once when nothing waits, otherwise into the queue.

use std::ffi::CStr;

use evloop::Interest;
use pyrt::{Attached, Borrowed, Guarded, Instance, PyResult};
use rustix::io::Errno;

use super::{Paced, Queue, Sink, fatal, is_later, listen_also, maybe_pause, os_error, remember_context};

/// A transport that writes a stream of bytes.
pub(crate) trait Streaming: Paced {
    /// What is said of a write that fails.
    const FAILED: &'static CStr;

    fn queue(&self) -> &Guarded<Queue>;

    /// Where bytes go to, as long as it is open. Users of the result run no Python code in between.
    fn sink(&self, py: Attached<'_>) -> Option<impl Sink>;
}

/// Sends now if nothing waits; what is left is queued, by reference if it is a `bytes`.
#[inline]
pub(crate) fn put<T: Streaming>(
    py: Attached<'_>,
    this: Instance<'_, T>,
    data: &[u8],
    kept: Option<Borrowed<'_>>,
) -> PyResult<()> {
    let transport = this.payload();
    let Some(sink) = transport.sink(py) else { return Ok(()) };
    let was_empty = transport.size(py)? == 0;
    if was_empty {
        return match sink.send(data) {
            Ok(all) if all == data.len() => Ok(()),
            sent => send_rest(py, this, sent, data, kept),
        };
    }
    queue(py, this, data, kept, 0)?;
    maybe_pause(py, this)
}

/// What is left of data of which so much was sent waits for room; an error ends the transport.
#[cold]
pub(crate) fn send_rest<T: Streaming>(
    py: Attached<'_>,
    this: Instance<'_, T>,
    sent: Result<usize, Errno>,
    data: &[u8],
    kept: Option<Borrowed<'_>>,
) -> PyResult<()> {
    let sent = match sent {
        Ok(sent) => sent,
        Err(error) if is_later(error) => 0,
        Err(error) => return fatal(py, this, os_error(py, error), T::FAILED),
    };
    queue(py, this, data, kept, sent)?;
    listen_for_room(py, this)?;
    maybe_pause(py, this)
}

fn queue<T: Streaming>(
    py: Attached<'_>,
    this: Instance<'_, T>,
    data: &[u8],
    kept: Option<Borrowed<'_>>,
    sent: usize,
) -> PyResult<()> {
    this.payload().queue().with(py, |queue| match kept {
        Some(bytes) => queue.keep(py, bytes.clone_ref(py), sent),
        None => queue.copy(data.get(sent..).unwrap_or(&[])),
    })
}

/// The protocol hears of room in the context of whoever filled it up.
pub(crate) fn listen_for_room<T: Paced>(py: Attached<'_>, this: Instance<'_, T>) -> PyResult<()> {
    remember_context(py, &this.payload().base().writing_in)?;
    listen_also(py, this, Interest::WRITE)
}
