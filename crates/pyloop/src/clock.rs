//! The clock that a user put in the place of the loop's own: a class that defines `time`, or an attribute set on a loop. Timers
//! follow it as they follow stdlib's loop: their times are on it, it is read once per turn and before a wait, and it may jump.
//! Attached threads only.

use std::sync::atomic::Ordering::Relaxed;

use pyrt::{Attached, Borrowed, Instance, Owned, PyResult};

use crate::event_loop::Loop;
use crate::module::Native;
use crate::schedule::deadline;
use crate::state::PyCore;

impl Native {
    /// Whether instances of a class, a `Loop`, have a `time` that is not ours.
    pub(crate) fn has_other_clock(&self, py: Attached<'_>, class: Borrowed<'_>) -> PyResult<bool> {
        let time = &self.names.time;
        let ours = self.event_loop.object().getattr(py, time)?;
        Ok(!class.getattr(py, time)?.is(&ours))
    }
}

impl Loop {
    #[inline]
    pub(crate) fn has_other_clock(&self) -> bool {
        self.other_clock.load(Relaxed)
    }

    /// `__setattr__`: notices when the clock changes. Timers keep the times they were given, which are on the new clock now.
    pub(crate) fn set_attribute(
        py: Attached<'_>,
        this: Instance<'_, Self>,
        name: Borrowed<'_>,
        value: Option<Borrowed<'_>>,
    ) -> PyResult<()> {
        this.object().setattr_plain(py, &name, value)?;
        if !name.equals(py, &this.native().names.time)? {
            return Ok(());
        }
        let other = value.is_some() || this.native().has_other_clock(py, this.object().class(py))?;
        this.other_clock.store(other, Relaxed);
        if other { Ok(()) } else { this.show_clock(py, None) }
    }

    /// `self.time()`, whoever defined it.
    pub(crate) fn clock(py: Attached<'_>, this: Instance<'_, Self>) -> PyResult<Owned> {
        this.object().call_method0(py, &this.native().names.time)
    }

    /// Reads the other clock for the turn that begins, or goes on after a wait.
    #[cold]
    pub(crate) fn read_clock(&self, py: Attached<'_>, this: Instance<'_, Self>) -> PyResult<()> {
        let time = Self::clock(py, this)?.to_f64(py)?;
        self.show_clock(py, Some(time))
    }

    fn show_clock(&self, py: Attached<'_>, time: Option<f64>) -> PyResult<()> {
        self.state.with(py, |state| {
            if let Some(PyCore(core)) = &mut state.core {
                core.set_clock(time.map(deadline));
            }
        })
    }
}
