//! How an interrupt gets to the thread of a request: set under the lock of its stack by `Runner::interrupt`, and taken back by the thread
//! itself. Attached threads only.
//!
//! Up to Python 3.13 it is an exception set for that thread. From 3.14 on that might strike between an `__enter__` and its block, and leave
//! a lock locked for ever (`pyrt/src/passing.rs`): there the thread raises it itself, at the next place that is none of those.

use std::sync::Arc;

use pyrt::{Attached, Obj};

use crate::runner::Runner;

#[cfg(Py_3_14)]
pub(crate) use way::Aim;

impl Runner {
    /// An interrupt is to strike the thread.
    pub(crate) fn strike(self: &Arc<Self>, py: Attached<'_>, class: &Obj) {
        way::strike(py, self, class);
    }

    /// Whether one has yet to strike, and is called for once more. The first thread that passes by may have been another one, or the
    /// right one at the wrong place.
    pub(crate) fn strike_again(self: &Arc<Self>, py: Attached<'_>) -> bool {
        way::strike_again(py, self)
    }

    /// One that has not struck yet does not.
    pub(crate) fn take_back(&self, py: Attached<'_>) {
        way::take_back(py, self);
    }
}

#[cfg(not(Py_3_14))]
mod way {
    use std::sync::Arc;

    use pyrt::{Attached, Obj, raise_in_thread};

    use crate::runner::Runner;

    pub(super) fn strike(py: Attached<'_>, runner: &Arc<Runner>, class: &Obj) {
        raise_in_thread(py, runner.ident, Some(class));
    }

    pub(super) fn strike_again(_py: Attached<'_>, _runner: &Arc<Runner>) -> bool {
        false
    }

    pub(super) fn take_back(py: Attached<'_>, runner: &Runner) {
        raise_in_thread(py, runner.ident, None);
    }
}

#[cfg(Py_3_14)]
mod way {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::{Arc, Mutex};
    use std::time::{Duration, Instant};

    use pyrt::{
        Attached, Exception, InPassing, Obj, Place, PyResult, Raised, in_passing, place, thread_ident,
    };

    use crate::inbox::lock;
    use crate::runner::Runner;

    /// For how long code is spared that runs an `__enter__` or `__exit__` written in Python, which may never end.
    const SPARING: Duration = Duration::from_secs(10);

    /// Whether an interrupt is to strike, since when, and whether that is called for.
    #[derive(Default)]
    pub(crate) struct Aim {
        due: AtomicBool,
        called: AtomicBool,
        since: Mutex<Option<Instant>>,
    }

    pub(super) fn strike(py: Attached<'_>, runner: &Arc<Runner>, _class: &Obj) {
        lock(&runner.aim.since).get_or_insert_with(Instant::now);
        runner.aim.due.store(true, Ordering::Release);
        call(py, runner);
    }

    pub(super) fn strike_again(py: Attached<'_>, runner: &Arc<Runner>) -> bool {
        let due = runner.aim.due.load(Ordering::Acquire);
        if due {
            call(py, runner);
        }
        due
    }

    /// One call is enough, as long as nobody has made it.
    fn call(py: Attached<'_>, runner: &Arc<Runner>) {
        if !runner.aim.called.swap(true, Ordering::AcqRel) && !in_passing(py, runner.clone()) {
            runner.aim.called.store(false, Ordering::Release);
        }
    }

    pub(super) fn take_back(_py: Attached<'_>, runner: &Runner) {
        runner.aim.due.store(false, Ordering::Release);
        *lock(&runner.aim.since) = None;
    }

    impl InPassing for Runner {
        fn pass(self: Arc<Self>, py: Attached<'_>) -> PyResult<()> {
            self.aim.called.store(false, Ordering::Release);
            if !self.aim.due.load(Ordering::Acquire) || self.ident != thread_ident() {
                return Ok(());
            }
            if self.is_to_be_spared(py) {
                // At the next place, which is not far.
                call(py, &self);
                return Ok(());
            }
            let Some(realm) = self.realm() else { return Ok(()) };
            // This thread is attached there already: what is raised within stays so.
            let raised = realm.attach(|py, bridge| {
                let class = bridge.interrupted.get(py);
                match class.and_then(|class| Exception::new(py, &class, [])) {
                    Ok(exception) => {
                        self.take_back(py);
                        let _set = exception.raise(py);
                    }
                    Err(_set) => {}
                }
            });
            raised.map_or(Ok(()), |()| Err(Raised::set(py)))
        }
    }

    impl Runner {
        /// Whether an interrupt would strike between what an `__enter__` does and what an `__exit__` undoes.
        fn is_to_be_spared(&self, py: Attached<'_>) -> bool {
            match place(py) {
                Ok(Place::Elsewhere) => false,
                Ok(Place::Between) => true,
                Ok(Place::Within) => lock(&self.aim.since).is_some_and(|since| since.elapsed() < SPARING),
                Err(raised) => {
                    raised.clear(py);
                    false
                }
            }
        }
    }
}
