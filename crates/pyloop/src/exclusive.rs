//! `Exclusive`: says that a callback runs, so that another thread which cancels it waits for its end.
//!
//! Since Python 3.14 that is what handles of `call_soon_threadsafe` are like: once `cancel()` has returned, the callback runs
//! no more. A lock per handle would do it, as in the stdlib; here a word in the handle says whose thread runs it, and only
//! who must wait comes to the one place where everybody waits.

use std::num::NonZeroUsize;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use pyrt::{Attached, HAS_GIL, PyResult, check_signals};

/// Nobody ever waits for it.
const OFF: usize = 1;
/// It does not run. Otherwise the word has the name of a thread, which is even, and perhaps this:
const FREE: usize = 0;
const AWAITED: usize = 1;

/// Who waits sleeps here, detached; the word is all that counts.
static WAITING: Mutex<()> = Mutex::new(());
static ENDED: Condvar = Condvar::new();

/// How often one that waits looks for signals.
const LOOK: Duration = Duration::from_millis(50);

thread_local! {
    /// Its address is the name of the thread.
    static HERE: u16 = const { 0 };
}

/// The name of a thread.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Here(NonZeroUsize);

impl Here {
    /// Of this one.
    #[inline]
    pub(crate) fn now() -> Self {
        Self(HERE.with(|here| NonNull::from(here).addr()))
    }

    /// Whether a word says that this one runs it.
    #[inline(always)]
    fn has(self, word: usize) -> bool {
        word & !AWAITED == self.0.get()
    }
}

/// Which thread runs a callback.
pub(crate) struct Exclusive(AtomicUsize);

impl Exclusive {
    /// For a callback that is waited for by whoever cancels it, or for one of those that are not.
    #[inline(always)]
    pub(crate) const fn new(on: bool) -> Self {
        Self(AtomicUsize::new(if on { FREE } else { OFF }))
    }

    #[inline(always)]
    pub(crate) fn is_on(&self) -> bool {
        self.0.load(Ordering::Relaxed) != OFF
    }

    /// Whether another thread runs it.
    pub(crate) fn is_elsewhere(&self) -> bool {
        let word = self.0.load(Ordering::Acquire);
        word != FREE && word != OFF && !Here::now().has(word)
    }

    /// Waits until no other thread runs it. Signal handlers run meanwhile, and may end that by an exception.
    pub(crate) fn wait(&self, py: Attached<'_>) -> PyResult<()> {
        while self.is_elsewhere() {
            let word = self.0.load(Ordering::Acquire);
            let awaited = word | AWAITED;
            // Whoever ends after this sees that somebody waits.
            if word != FREE && self.replace(word, awaited).is_ok() {
                py.detach(|| self.sleep(awaited));
            }
            check_signals(py)?;
        }
        Ok(())
    }

    fn sleep(&self, awaited: usize) {
        let guard = WAITING.lock().unwrap_or_else(PoisonError::into_inner);
        // Whoever has ended before this has freed the word before; who ends later needs the lock, which is given up by sleeping only.
        if self.0.load(Ordering::Acquire) == awaited {
            drop(ENDED.wait_timeout(guard, LOOK));
        }
    }

    /// Puts the name of a thread, or nobody's, in place of what was there.
    #[inline(always)]
    fn replace(&self, before: usize, after: usize) -> Result<usize, usize> {
        if !HAS_GIL {
            return self.0.compare_exchange(before, after, Ordering::AcqRel, Ordering::Acquire);
        }
        // Attached threads alone write to it, so that nobody comes in between.
        match self.0.load(Ordering::Relaxed) {
            word if word == before => {
                self.0.store(after, Ordering::Relaxed);
                Ok(word)
            }
            word => Err(word),
        }
    }

    /// From here until the drop of what is returned it runs on this thread.
    #[inline]
    pub(crate) fn enter(&self, py: Attached<'_>, here: Here) -> PyResult<Running<'_>> {
        loop {
            match self.replace(FREE, here.0.get()) {
                Ok(_) => return Ok(Running(Some(self))),
                // It runs itself once more: the outer run ends it.
                Err(word) if here.has(word) => return Ok(Running(None)),
                Err(_) => self.wait(py)?,
            }
        }
    }
}

/// A callback that runs.
pub(crate) struct Running<'a>(Option<&'a Exclusive>);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let Some(exclusive) = self.0 else { return };
        let before = if !HAS_GIL {
            exclusive.0.swap(FREE, Ordering::AcqRel)
        } else {
            // Attached threads alone write to it, so that nobody comes in between.
            let before = exclusive.0.load(Ordering::Relaxed);
            exclusive.0.store(FREE, Ordering::Relaxed);
            before
        };
        if before & AWAITED != 0 {
            drop(WAITING.lock().unwrap_or_else(PoisonError::into_inner));
            ENDED.notify_all();
        }
    }
}
