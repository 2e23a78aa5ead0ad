//! Flow control: the protocol is told to stop writing when too much waits, and to go on when little is left.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering::Relaxed};

use pyrt::{
    Attached, Borrowed, Fixed, Instance, Kind, ObjCell, Owned, PyResult, Traverse, Visit, Visited, confined,
};

use super::rows::set_to;
use super::{Transport, reportable};

/// asyncio's default water marks.
const HIGH: i64 = 64 * 1024;
const LOW: i64 = 16 * 1024;

/// A water mark: the number to compare sizes with, and what was given, if anything was.
struct Mark {
    number: AtomicI64,
    given: ObjCell,
}

confined!(Mark { number, given });

impl Mark {
    fn new(number: i64) -> Self {
        Self { number: AtomicI64::new(number), given: ObjCell::empty() }
    }

    fn get(&self, py: Attached<'_>) -> PyResult<Owned> {
        self.given.get(py).map_or_else(|| Owned::int(py, self.number.load(Relaxed)), Ok)
    }

    fn set(&self, py: Attached<'_>, value: Option<Borrowed<'_>>) -> PyResult<()> {
        let value = set_to(py, value)?;
        // A float-to-integer cast saturates; what is too big for a float is too big for any buffer.
        let number = match value.to_f64(py) {
            Ok(number) => number.floor() as i64,
            Err(raised) if raised.matches(py, &Kind::OverflowError.class(py)) => {
                raised.clear(py);
                i64::MAX
            }
            Err(raised) => return Err(raised),
        };
        self.number.store(number, Relaxed);
        self.given.set(py, value.clone_ref(py));
        Ok(())
    }
}

/// The marks, and whether the protocol has been told to pause.
pub(crate) struct Flow {
    pub(super) paused: AtomicBool,
    high: Mark,
    low: Mark,
}

confined!(Flow { paused, high, low });

impl Default for Flow {
    fn default() -> Self {
        Self { paused: AtomicBool::new(false), high: Mark::new(HIGH), low: Mark::new(LOW) }
    }
}

impl Traverse for Flow {
    fn traverse(&self, visit: &mut Visit<'_>) -> Visited {
        self.high.given.traverse(visit)?;
        self.low.given.traverse(visit)
    }

    fn clear(&self, py: Attached<'_>) {
        self.high.given.clear(py);
        self.low.given.clear(py);
    }
}

impl Flow {
    /// How much may wait before the protocol hears of it.
    #[inline]
    pub(crate) fn most(&self) -> usize {
        usize::try_from(self.high.number.load(Relaxed)).unwrap_or(0)
    }
}

/// A transport that writes.
pub(crate) trait Paced: Transport {
    fn flow(&self) -> &Flow;

    /// How much waits to be sent, in bytes.
    fn size(&self, py: Attached<'_>) -> PyResult<usize>;
}

pub(crate) fn maybe_pause<T: Paced>(py: Attached<'_>, this: Instance<'_, T>) -> PyResult<()> {
    let flow = this.payload().flow();
    if waiting(py, this)? <= flow.high.number.load(Relaxed) || flow.paused.swap(true, Relaxed) {
        return Ok(());
    }
    let name = &this.payload().base().parts().names.pause_writing;
    tell(py, this, name, "protocol.pause_writing() failed")
}

pub(crate) fn maybe_resume<T: Paced>(py: Attached<'_>, this: Instance<'_, T>) -> PyResult<()> {
    let flow = this.payload().flow();
    if !flow.paused.load(Relaxed) || waiting(py, this)? > flow.low.number.load(Relaxed) {
        return Ok(());
    }
    flow.paused.store(false, Relaxed);
    let name = &this.payload().base().parts().names.resume_writing;
    tell(py, this, name, "protocol.resume_writing() failed")
}

pub(super) fn high_water<T: Paced>(py: Attached<'_>, this: Instance<'_, T>) -> PyResult<Owned> {
    this.payload().flow().high.get(py)
}

pub(super) fn low_water<T: Paced>(py: Attached<'_>, this: Instance<'_, T>) -> PyResult<Owned> {
    this.payload().flow().low.get(py)
}

pub(super) fn set_high<T: Paced>(
    py: Attached<'_>,
    this: Instance<'_, T>,
    value: Option<Borrowed<'_>>,
) -> PyResult<()> {
    this.payload().flow().high.set(py, value)
}

pub(super) fn set_low<T: Paced>(
    py: Attached<'_>,
    this: Instance<'_, T>,
    value: Option<Borrowed<'_>>,
) -> PyResult<()> {
    this.payload().flow().low.set(py, value)
}

fn waiting<T: Paced>(py: Attached<'_>, this: Instance<'_, T>) -> PyResult<i64> {
    Ok(i64::try_from(this.payload().size(py)?).unwrap_or(i64::MAX))
}

/// Calls the protocol. What it raises is reported and changes nothing.
fn tell<T: Paced>(py: Attached<'_>, this: Instance<'_, T>, method: &Fixed, failed: &str) -> PyResult<()> {
    let base = this.payload().base();
    let protocol = base.protocol.get(py).unwrap_or_else(|| Owned::none(py));
    let Err(raised) = protocol.call_method0(py, method) else { return Ok(()) };
    let exception = reportable(py, raised)?;
    let text = Owned::str(py, failed)?;
    let report = base.parts().report.get(py)?;
    report.call(py, [this.object(), exception.borrow(), text.borrow()]).map(drop)
}
