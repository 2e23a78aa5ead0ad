//! Starting threads of Python so that no interrupt goes astray. Attached threads only.
//!
//! Up to Python 3.11 the state of a new thread bears the ident of the thread that starts it, until it runs. An interrupt for the
//! starter then strikes the new one, before its first line: it ends without a word, and `Thread.start()` waits for it for ever.
//!
//! Later ones check for interrupts after each call, also that of `__enter__`: one that strikes there leaves a lock locked. For the one
//! that all threads need, that of `threading` itself, they wait.

use pyrt::{Args, Attached, Exception, Fault, Owned, PyResult, raise_in_thread};

use crate::bridge::{Bridge, positional};
use crate::runner::Runner;

/// `start_thread(start, begun, function, args, *kwargs)`: `start(function, args, *kwargs)`, and the wait for the lock `begun`, which the
/// new thread releases. An interrupt that comes meanwhile strikes afterwards. Native, so none of before strikes in between.
pub(crate) fn start_thread(py: Attached<'_>, bridge: &Bridge, args: Args<'_>) -> PyResult<Owned> {
    let [start, begun, rest @ ..] = positional(py, "start_thread", args)? else {
        return Err(Fault::type_error("start_thread() takes a function, a lock and arguments").raise(py));
    };
    let (started, due) = Runner::uninterrupted(py, || {
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

/// `interrupt(thread)`: has an interrupt raised in a thread of this interpreter. Whether there is one of this ident.
pub(crate) fn interrupt(py: Attached<'_>, bridge: &Bridge, args: Args<'_>) -> PyResult<bool> {
    let &[thread] = positional(py, "interrupt", args)? else {
        return Err(Fault::type_error("interrupt() takes the ident of a thread").raise(py));
    };
    let ident = thread.to_i64(py)?.cast_unsigned();
    if Runner::all().iter().any(|runner| runner.ident == ident && runner.break_off()) {
        return Ok(true);
    }
    let class = bridge.interrupted.get(py)?;
    Ok(raise_in_thread(py, ident, Some(&class)))
}

/// `hold(acquire)`: `acquire()`, and no interrupt strikes this thread until `let_go`.
pub(crate) fn hold(py: Attached<'_>, _bridge: &Bridge, args: Args<'_>) -> PyResult<Owned> {
    let &[acquire] = positional(py, "hold", args)? else {
        return Err(Fault::type_error("hold() takes a function").raise(py));
    };
    Runner::hold(py);
    let acquired = acquire.call0(py);
    if acquired.is_err() {
        Runner::let_go();
    }
    acquired
}

/// `let_go(release)`: `release()`, and an interrupt that came meanwhile strikes.
pub(crate) fn let_go(py: Attached<'_>, bridge: &Bridge, args: Args<'_>) -> PyResult<Owned> {
    let &[release] = positional(py, "let_go", args)? else {
        return Err(Fault::type_error("let_go() takes a function").raise(py));
    };
    let released = release.call0(py)?;
    if Runner::let_go() {
        let class = bridge.interrupted.get(py)?;
        return Err(Exception::new(py, &class, [])?.raise(py));
    }
    Ok(released)
}
