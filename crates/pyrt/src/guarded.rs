//! `Guarded`: state inside a payload that attached threads change, one at a time.
//!
//! With a GIL it is a borrow flag: the GIL keeps other threads out, the flag catches a call that comes back through Python.
//! Without one it is a `PyMutex` and the name of its holder: other threads wait (detached, as the mutex sees to), and a call
//! that comes back on the same thread is caught as well. So the rule is the same in both: **inside `with` run no Python code and
//! do not detach**; take out what you need and act on it afterwards. Breaking it is a `RuntimeError`, never a deadlock.

use core::cell::UnsafeCell;

use crate::{Attached, Confined, Fault, PyResult, Traverse, Visit, Visited};

#[cfg(not(Py_GIL_DISABLED))]
struct Gate(core::cell::Cell<bool>);

#[cfg(not(Py_GIL_DISABLED))]
impl Gate {
    const fn new() -> Self {
        Self(core::cell::Cell::new(false))
    }

    #[inline]
    fn enter(&self) -> bool {
        !self.0.replace(true)
    }

    #[inline]
    fn leave(&self) {
        self.0.set(false);
    }

    #[inline]
    fn is_held(&self) -> bool {
        self.0.get()
    }
}

#[cfg(Py_GIL_DISABLED)]
struct Gate {
    mutex: UnsafeCell<crate::ffi::PyMutex>,
    /// The thread state of the holder, 0 for none. Relaxed is enough: only the holder itself ever finds its own name.
    holder: core::sync::atomic::AtomicUsize,
}

#[cfg(Py_GIL_DISABLED)]
impl Gate {
    const fn new() -> Self {
        Self {
            mutex: UnsafeCell::new(crate::ffi::PyMutex::new()),
            holder: core::sync::atomic::AtomicUsize::new(0),
        }
    }

    #[inline]
    fn enter(&self) -> bool {
        use core::sync::atomic::Ordering::Relaxed;
        let me = crate::thread::current() as usize;
        if self.holder.load(Relaxed) == me {
            return false;
        }
        // SAFETY: the mutex lives as long as the gate and is made for being shared.
        unsafe { crate::ffi::PyMutex_Lock(self.mutex.get()) };
        self.holder.store(me, Relaxed);
        true
    }

    #[inline]
    fn leave(&self) {
        self.holder.store(0, core::sync::atomic::Ordering::Relaxed);
        // SAFETY: locked by this thread in `enter`.
        unsafe { crate::ffi::PyMutex_Unlock(self.mutex.get()) };
    }

    #[inline]
    fn is_held(&self) -> bool {
        self.holder.load(core::sync::atomic::Ordering::Relaxed) != 0
    }
}

/// State of a payload, reached by one attached thread at a time.
pub struct Guarded<T> {
    gate: Gate,
    value: UnsafeCell<T>,
}

// SAFETY: every access needs a token of the interpreter the payload belongs to and passes the gate, so accesses follow one
// another; the value may be used by any attached thread, as it is `Confined`.
unsafe impl<T: Confined> Sync for Guarded<T> {}
// SAFETY: owns its content and nothing else.
unsafe impl<T: Confined> Confined for Guarded<T> {}

/// Opens the gate again, also when the closure panics.
struct Leave<'a>(&'a Gate);

impl Drop for Leave<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.leave();
    }
}

impl<T> Guarded<T> {
    /// Puts a value under guard.
    pub const fn new(value: T) -> Self {
        Self { gate: Gate::new(), value: UnsafeCell::new(value) }
    }

    /// Runs `f` on the value. A `RuntimeError` if a caller further up this thread's stack is at it already.
    #[inline(always)]
    pub fn with<R>(&self, py: Attached<'_>, f: impl FnOnce(&mut T) -> R) -> PyResult<R> {
        match self.try_with(py, f) {
            Some(result) => Ok(result),
            None => Err(busy::<T>(py)),
        }
    }

    /// [`with`](Self::with) for places that cannot raise: `None` if the value is in use by this thread.
    #[inline(always)]
    pub fn try_with<R>(&self, _py: Attached<'_>, f: impl FnOnce(&mut T) -> R) -> Option<R> {
        if !self.gate.enter() {
            return None;
        }
        let _leave = Leave(&self.gate);
        // SAFETY: the gate lets one in at a time.
        Some(f(unsafe { &mut *self.value.get() }))
    }

    /// Copies the value out.
    #[inline]
    pub fn get(&self, py: Attached<'_>) -> PyResult<T>
    where
        T: Copy,
    {
        self.with(py, |value| *value)
    }

    /// The value, for its only owner.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }

    /// The value without its guard.
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

#[cold]
fn busy<T>(py: Attached<'_>) -> crate::Raised {
    Fault::Busy(core::any::type_name::<T>().into()).raise(py)
}

impl<T: Default> Default for Guarded<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

/// Clearing puts the default in place of the value.
impl<T: Traverse + Default> Traverse for Guarded<T> {
    fn traverse(&self, visit: &mut Visit<'_>) -> Visited {
        if self.gate.is_held() {
            // Somebody is changing it right now. What it refers to then looks referred to from outside, and stays.
            return Ok(());
        }
        // SAFETY: nobody is inside, and nobody gets in while the collector runs (see `ObjCell`).
        unsafe { (*self.value.get()).traverse(visit) }
    }

    fn clear(&self, py: Attached<'_>) {
        // The old value is dropped after the gate has been left: its destructor may come back.
        drop(self.try_with(py, core::mem::take));
    }
}
