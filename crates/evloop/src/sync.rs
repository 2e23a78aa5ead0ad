//! The one switch between std's primitives and loom's: what the models in `tests/loom_*.rs` check is what runs.

#[cfg(not(loom))]
mod imp {
    pub(crate) use std::hint::spin_loop;
    pub(crate) use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicU64, Ordering};
    pub(crate) use std::sync::{Arc, Condvar, Mutex, MutexGuard};
    pub(crate) use std::thread::yield_now;

    /// std's cell with loom's access-by-closure shape.
    #[derive(Debug)]
    pub(crate) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

    impl<T> UnsafeCell<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(std::cell::UnsafeCell::new(value))
        }

        #[inline]
        pub(crate) fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
            f(self.0.get())
        }
    }
}

#[cfg(loom)]
mod imp {
    pub(crate) use loom::cell::UnsafeCell;
    pub(crate) use loom::hint::spin_loop;
    pub(crate) use loom::sync::atomic::{AtomicPtr, AtomicU8, AtomicU64, Ordering};
    pub(crate) use loom::sync::{Arc, Condvar, Mutex, MutexGuard};
    pub(crate) use loom::thread::yield_now;
}

pub(crate) use imp::*;

/// Locks through poison: a panic in a callback is contained, and every critical section here leaves its data whole.
#[inline]
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Waits a little for another thread that is between two instructions: spins first, then gives up the core, because on
/// a machine with few cores the other thread may need this very one.
#[derive(Debug, Default)]
pub(crate) struct Backoff(u32);

impl Backoff {
    pub(crate) fn pause(&mut self) {
        if self.0 < 6 && !cfg!(loom) {
            for _ in 0..1u32 << self.0 {
                spin_loop();
            }
            self.0 += 1;
        } else {
            yield_now();
        }
    }
}
