//! `Limits`: a high and a low water mark, as numbers to compare with and as the objects that were given.

use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

use pyrt::{Attached, ObjCell, Owned, PyResult, confined};

/// Two water marks.
pub(super) struct Limits {
    high: AtomicI64,
    low: AtomicI64,
    /// `(low, high)`, if they were set.
    given: ObjCell,
}

confined!(Limits { high, low, given });

impl Limits {
    /// The stdlib's defaults for so many KiB.
    pub(super) fn new(kib: i64) -> Self {
        let high = kib * 1024;
        Self { high: AtomicI64::new(high), low: AtomicI64::new(high / 4), given: ObjCell::empty() }
    }

    /// Whether nobody has changed them.
    #[inline]
    pub(super) fn is_default(&self, py: Attached<'_>) -> bool {
        !self.given.is_set(py)
    }

    /// Sets them to numbers of any kind, checked before.
    pub(super) fn set(&self, py: Attached<'_>, high: Owned, low: Owned) -> PyResult<()> {
        // A float-to-integer cast saturates. A size is above 1.5 if it is 2 or more, and below if it is 1 or less.
        self.high.store(high.to_f64(py)?.ceil() as i64, Relaxed);
        self.low.store(low.to_f64(py)?.floor() as i64, Relaxed);
        self.given.set(py, Owned::tuple(py, [low, high])?);
        Ok(())
    }

    /// `(low, high)`.
    pub(super) fn get(&self, py: Attached<'_>) -> PyResult<Owned> {
        if let Some(given) = self.given.get(py) {
            return Ok(given);
        }
        let numbers = [self.low.load(Relaxed), self.high.load(Relaxed)];
        let [low, high] = numbers;
        Owned::tuple(py, [Owned::int(py, low)?, Owned::int(py, high)?])
    }

    #[inline]
    pub(super) fn is_high(&self, size: usize) -> bool {
        i64::try_from(size).unwrap_or(i64::MAX) >= self.high.load(Relaxed)
    }

    #[inline]
    pub(super) fn is_low(&self, size: usize) -> bool {
        i64::try_from(size).unwrap_or(i64::MAX) <= self.low.load(Relaxed)
    }
}
