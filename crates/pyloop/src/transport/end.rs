//! The end, whatever brings it about. 1. [`lose`] stops listening and schedules `_call_connection_lost`. 2. The protocol's
//! `connection_lost` runs. 3. The fd leaves epoll. 4. The file is closed, and everything is let go: from then on nothing
//! refers to the transport but its users.

use std::ffi::CStr;
use std::sync::atomic::Ordering::Relaxed;

use evloop::Interest;
use pyrt::{Args, Attached, Borrowed, Fault, Instance, Kind, Owned, PyResult, Raised, warn_resource};

use super::{Transport, listen};
use crate::arguments::Request;
use crate::event_loop::Loop;

/// Schedules the end.
pub(crate) fn lose<T: Transport>(
    py: Attached<'_>,
    this: Instance<'_, T>,
    cause: Borrowed<'_>,
) -> PyResult<()> {
    let base = this.payload().base();
    base.closing.store(true, Relaxed);
    base.conn_lost.fetch_add(1, Relaxed);
    listen(py, this, Interest::NONE)?;
    base.owner.check_open(py)?;
    let callback = this.object().getattr(py, &base.parts().names.call_connection_lost)?;
    let request = Request { callback: callback.borrow(), args: &[cause], context: None };
    Loop::schedule(py, base.owner.instance(), request).map(drop)
}

/// Drops what waits and ends it in the next turn.
pub(crate) fn force_close<T: Transport>(
    py: Attached<'_>,
    this: Instance<'_, T>,
    cause: Borrowed<'_>,
) -> PyResult<()> {
    this.payload().settle(py)?;
    if this.payload().base().is_lost() {
        return Ok(());
    }
    this.payload().drop_queue(py)?;
    lose(py, this, cause)
}

pub(crate) fn call_connection_lost<T: Transport>(
    py: Attached<'_>,
    this: Instance<'_, T>,
    cause: Borrowed<'_>,
) -> PyResult<()> {
    let base = this.payload().base();
    if !base.is_open(py) {
        return Ok(());
    }
    let told = match base.protocol.get(py).filter(|_| base.connected.load(Relaxed)) {
        Some(protocol) => protocol.call_method1(py, &base.parts().names.connection_lost, &cause).map(drop),
        None => Ok(()),
    };
    let exception = told.err().map(|raised| raised.take(py));
    let ended = leave(py, this);
    match exception {
        None => ended,
        Some(exception) => {
            if let Err(raised) = ended {
                raised.write_unraisable(py, Some(&this.object()));
            }
            Err(exception.raise(py))
        }
    }
}

/// Out of epoll first, then closed; and everything is let go.
pub(crate) fn leave<T: Transport>(py: Attached<'_>, this: Instance<'_, T>) -> PyResult<()> {
    let base = this.payload().base();
    // A writer that was flushed in close() has not gone through `lose`.
    if !base.is_lost() {
        base.conn_lost.fetch_add(1, Relaxed);
    }
    listen(py, this, Interest::NONE)?;
    this.payload().drop_queue(py)?;
    // While there is still something to be found out.
    let known = this.payload().extra(py).map(drop);
    let closed = match base.file.take(py) {
        Some(file) => T::close_file(py, this, file),
        None => Ok(()),
    };
    drop((base.protocol.take(py), base.reading_in.take(py), base.writing_in.take(py)));
    known.and(closed)
}

/// Nobody refers to it any more. Said if it is still open, and closed.
pub(crate) fn finalize<T: Transport>(py: Attached<'_>, this: Instance<'_, T>) -> PyResult<()> {
    let base = this.payload().base();
    if !base.is_open(py) {
        return Ok(());
    }
    let text = this.object().repr(py)?.to_string_lossy(py)?;
    let warned = warn_resource(py, &this.object(), &format!("unclosed transport {text}"));
    let warned = warned.map_err(|raised| raised.take(py));
    // A registration would have kept it alive, unless the loop goes with it.
    listen(py, this, Interest::NONE)?;
    if let Some(file) = base.file.take(py) {
        T::close_file(py, this, file)?;
    }
    warned.map_err(|exception| exception.raise(py))
}

/// An exception out of the protocol or the OS: said, unless it is to be expected, and the transport ends. What ends the
/// loop's run goes on.
#[cold]
pub(crate) fn fatal<T: Transport>(
    py: Attached<'_>,
    this: Instance<'_, T>,
    raised: Raised,
    message: &CStr,
) -> PyResult<()> {
    let exception = reportable(py, raised)?;
    let message = Owned::interned(py, message)?;
    fatal_error(py, this, exception.borrow(), message.borrow())
}

fn fatal_error<T: Transport>(
    py: Attached<'_>,
    this: Instance<'_, T>,
    exception: Borrowed<'_>,
    message: Borrowed<'_>,
) -> PyResult<()> {
    let report = T::report_fatal(this.payload().base().parts()).get(py)?;
    report.call(py, [this.object(), exception, message])?;
    force_close(py, this, exception)
}

/// `_fatal_error(exc, message)`.
pub(crate) fn fatal_error_method<T: Transport>(
    py: Attached<'_>,
    this: Instance<'_, T>,
    args: Args<'_>,
) -> PyResult<()> {
    let [Some(exception), message] = this.payload().base().parts().fatal.parse(py, &args)? else {
        return Err(Fault::system("a required argument was lost").raise(py));
    };
    match message {
        Some(message) => fatal_error(py, this, exception, message),
        None => {
            let message = Owned::interned(py, c"Fatal error on transport")?;
            fatal_error(py, this, exception, message.borrow())
        }
    }
}

/// Whether it is an error of the OS: the network's, not the program's.
pub(crate) fn is_expected(py: Attached<'_>, raised: &Raised) -> bool {
    raised.matches(py, &Kind::OSError.class(py))
}

/// The exception, unless it is one that ends the loop's run.
pub(crate) fn reportable(py: Attached<'_>, raised: Raised) -> PyResult<Owned> {
    if raised.matches(py, &Kind::SystemExit.class(py))
        || raised.matches(py, &Kind::KeyboardInterrupt.class(py))
    {
        return Err(raised);
    }
    Ok(raised.take(py).into_value())
}
