//! Starting threads of Python so that no interrupt goes astray. Attached threads only.
//!
//! Up to Python 3.11 the state of a new thread bears the ident of the thread that starts it, until it runs. An interrupt for the
//! starter then strikes the new one, before its first line: it ends without a word, and `Thread.start()` waits for it for ever.

use pyrt::{Args, Attached, Exception, Fault, Owned, PyResult};

use crate::bridge::{Bridge, positional};
use crate::runner::Runner;

/// `start_thread(start, begun, function, args, *kwargs)`: `start(function, args, *kwargs)`, and the wait for the lock `begun`, which the
/// new thread releases. An interrupt that comes meanwhile strikes afterwards. Native, so none of before strikes in between.
pub(crate) fn start_thread(py: Attached<'_>, bridge: &Bridge, args: Args<'_>) -> PyResult<Owned> {
    let [start, begun, rest @ ..] = positional(py, "start_thread", args)? else {
        return Err(Fault::type_error("start_thread() takes a function, a lock and arguments").raise(py));
    };
    let (started, due) = Runner::uninterrupted(|| {
        let ident = start.call_slice(py, rest)?;
        begun.getattr_str(py, c"acquire")?.call0(py)?;
        Ok(ident)
    });
    if due && started.is_ok() {
        let class = bridge.interrupted.get(py)?;
        return Err(Exception::new(py, &class, [])?.raise(py));
    }
    started
}
