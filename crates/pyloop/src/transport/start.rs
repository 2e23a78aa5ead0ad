//! The beginning: the protocol hears of the connection before anything is read, and whoever waits goes on after that.

use evloop::Interest;
use pyrt::{Attached, Borrowed, Instance, Owned, PyResult};

use super::{Transport, debug, listen_also, listen_no_more, remember_context};
use crate::arguments::Request;
use crate::event_loop::Loop;

/// An argument, unless it is `None`.
pub(crate) fn given(py: Attached<'_>, value: Option<Borrowed<'_>>) -> Option<Owned> {
    value.filter(|value| !value.is_none()).map(|value| value.clone_ref(py))
}

/// Schedules `connection_made`, the first listening if there is to be any, and the waiter, in this order.
pub(crate) fn start<T: Transport>(
    py: Attached<'_>,
    this: Instance<'_, T>,
    listens: bool,
    waiter: Option<Owned>,
) -> PyResult<()> {
    let base = this.payload().base();
    let (parts, owner) = (base.parts(), base.owner.instance());
    let names = &parts.names;
    owner.check_open(py)?;
    let soon = |callback: Owned, args: &[Borrowed<'_>]| {
        Loop::schedule(py, owner, Request { callback: callback.borrow(), args, context: None }).map(drop)
    };
    if let Some(protocol) = base.protocol.get(py) {
        soon(protocol.getattr(py, &names.connection_made)?, &[this.object()])?;
    }
    if listens {
        soon(this.object().getattr(py, &names.listen)?, &[])?;
    }
    if let Some(waiter) = waiter {
        soon(parts.set_result.get(py)?, &[waiter.borrow(), Borrowed::none(py)])?;
    }
    Ok(())
}

pub(super) fn start_reading<T: Transport>(py: Attached<'_>, this: Instance<'_, T>) -> PyResult<()> {
    if this.payload().base().is_reading() { listen_also(py, this, Interest::READ) } else { Ok(()) }
}

pub(super) fn pause_reading<T: Transport>(py: Attached<'_>, this: Instance<'_, T>) -> PyResult<()> {
    let base = this.payload().base();
    if !base.is_reading() {
        return Ok(());
    }
    base.paused.store(true, std::sync::atomic::Ordering::Relaxed);
    listen_no_more(py, this, Interest::READ)?;
    debug(py, this, c"%r pauses reading")
}

pub(super) fn resume_reading<T: Transport>(py: Attached<'_>, this: Instance<'_, T>) -> PyResult<()> {
    let base = this.payload().base();
    if base.is_closing() || !base.paused.swap(false, std::sync::atomic::Ordering::Relaxed) {
        return Ok(());
    }
    remember_context(py, &base.reading_in)?;
    listen_also(py, this, Interest::READ)?;
    debug(py, this, c"%r resumes reading")
}
