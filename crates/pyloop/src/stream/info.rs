//! What others look at: the attributes that asyncio's own code asks stream transports for.

use std::sync::atomic::Ordering::Relaxed;

use pyrt::{Attached, Borrowed, Kind, Owned, PyResult};

use super::{SocketTransport, This};
use crate::transport::{Paced as _, set_flag, set_to};

impl SocketTransport {
    pub(super) fn set_protocol(py: Attached<'_>, this: This<'_>, protocol: Borrowed<'_>) -> PyResult<()> {
        let buffered = protocol.is_instance(py, &this.parts().buffered_protocol)?;
        this.buffered.store(buffered, Relaxed);
        this.base.set_protocol(py, protocol);
        Ok(())
    }

    pub(super) fn buffer_copy(py: Attached<'_>, this: This<'_>) -> PyResult<Owned> {
        this.send_held(py)?;
        Owned::bytes(py, &this.queue.with(py, |queue| queue.to_vec(py))?)
    }

    pub(super) fn set_eof(py: Attached<'_>, this: This<'_>, value: Option<Borrowed<'_>>) -> PyResult<()> {
        set_flag(py, &this.eof, value)
    }

    pub(super) fn set_empty_waiter(
        py: Attached<'_>,
        this: This<'_>,
        value: Option<Borrowed<'_>>,
    ) -> PyResult<()> {
        let value = set_to(py, value)?;
        drop(this.empty_waiter.replace(py, (!value.is_none()).then(|| value.clone_ref(py))));
        Ok(())
    }

    /// A future that is done when nothing waits to be sent; until it is reset, nothing can be written. For sendfile.
    pub(super) fn make_empty_waiter(py: Attached<'_>, this: This<'_>) -> PyResult<Owned> {
        if this.empty_waiter.is_set(py) {
            return Err(Kind::RuntimeError.raise(py, "Empty waiter is already set"));
        }
        this.send_held(py)?;
        let names = &this.base.parts().names;
        let waiter = this.base.owner.object().call_method0(py, &names.create_future)?;
        this.empty_waiter.set(py, waiter.clone_ref(py));
        if this.size(py)? == 0 {
            waiter.call_method1(py, &names.set_result, &Borrowed::none(py))?;
        }
        Ok(waiter)
    }
}
