//! The time slice of a step: what `erlang.consume_time_slice` has counted of it. Per thread.
//!
//! As with `enif_consume_timeslice`, the code says how much of its slice its work was worth, and is told when the slice is
//! used up: from then on until the step ends. Code that no request runs has slice after slice.

use std::cell::Cell;

use pyrt::{Args, Attached, Fault, PyResult};

use crate::bridge::{Bridge, positional};

const WHOLE: i64 = 100;

thread_local! {
    /// What was spent of this step's slice; `None` where no request runs.
    static STEP: Cell<Option<i64>> = const { Cell::new(None) };
    static OUTSIDE: Cell<i64> = const { Cell::new(0) };
}

/// The slice of the surrounding step, until its nested one ends.
pub(crate) struct Outer(Option<i64>);

/// A request begins on this thread.
pub(crate) fn begin() -> Outer {
    Outer(STEP.replace(Some(0)))
}

/// Its next step begins.
pub(crate) fn renew() {
    STEP.set(Some(0));
}

/// It ends.
pub(crate) fn end(outer: Outer) {
    STEP.set(outer.0);
}

/// `consume_time_slice(percent)`.
pub(crate) fn consume(py: Attached<'_>, _bridge: &Bridge, args: Args<'_>) -> PyResult<bool> {
    let &[percent] = positional(py, "consume_time_slice", args)? else {
        return Err(Fault::type_error("consume_time_slice() takes a percentage").raise(py));
    };
    let refuse = || Fault::value_error("a percentage from 1 to 100 is expected").raise(py);
    let percent = percent.to_i64(py).map_err(|raised| {
        if raised.matches(py, &pyrt::Kind::OverflowError.class(py)) {
            raised.clear(py);
            return refuse();
        }
        raised
    })?;
    if !(1..=WHOLE).contains(&percent) {
        return Err(refuse());
    }
    if let Some(spent) = STEP.get() {
        let spent = (spent + percent).min(WHOLE);
        STEP.set(Some(spent));
        return Ok(spent == WHOLE);
    }
    let spent = OUTSIDE.get() + percent;
    OUTSIDE.set(if spent < WHOLE { spent } else { 0 });
    Ok(spent >= WHOLE)
}
