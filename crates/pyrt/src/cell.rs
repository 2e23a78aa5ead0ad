//! `Fixed` and `ObjCell`: a reference inside a payload that never changes, and one that attached threads change through `&self`.
//!
//! With a GIL the latter is a plain cell, eight bytes: none of its operations runs Python code, so none can be interrupted. Without one, a
//! one-byte `PyMutex` guards the few instructions of each operation.

use core::cell::UnsafeCell;

use crate::{Attached, Confined, Obj, Owned, Traverse, Visit, Visited};

/// The lock of an [`ObjCell`]: nothing where the GIL does the work.
#[cfg(not(Py_GIL_DISABLED))]
struct Latch;

#[cfg(not(Py_GIL_DISABLED))]
impl Latch {
    const fn new() -> Self {
        Self
    }

    #[inline(always)]
    fn hold<R>(&self, f: impl FnOnce() -> R) -> R {
        f()
    }
}

/// The lock of an [`ObjCell`].
#[cfg(Py_GIL_DISABLED)]
struct Latch(UnsafeCell<crate::ffi::PyMutex>);

#[cfg(Py_GIL_DISABLED)]
impl Latch {
    const fn new() -> Self {
        Self(UnsafeCell::new(crate::ffi::PyMutex::new()))
    }

    /// `f` neither panics nor runs Python code.
    #[inline]
    fn hold<R>(&self, f: impl FnOnce() -> R) -> R {
        // SAFETY: the mutex lives as long as the cell and is made for being shared; it is unlocked by the thread that locked it.
        unsafe {
            crate::ffi::PyMutex_Lock(self.0.get());
            let result = f();
            crate::ffi::PyMutex_Unlock(self.0.get());
            result
        }
    }
}

/// A reference that never changes once made, for payloads and module state. Eight bytes; derefs to the object.
#[derive(Debug)]
pub struct Fixed(Owned);

// SAFETY: nobody changes it, and what is done with the object needs a token of its interpreter.
unsafe impl Sync for Fixed {}
// SAFETY: a reference, used and dropped attached.
unsafe impl Confined for Fixed {}

impl From<Owned> for Fixed {
    #[inline]
    fn from(value: Owned) -> Self {
        Self(value)
    }
}

impl core::ops::Deref for Fixed {
    type Target = Obj;
    #[inline]
    fn deref(&self) -> &Obj {
        &self.0
    }
}

impl crate::AsObj for Fixed {
    #[inline(always)]
    fn as_obj(&self) -> &Obj {
        &self.0
    }
}

impl Traverse for Fixed {
    #[inline]
    fn traverse(&self, visit: &mut Visit<'_>) -> Visited {
        visit.object(&self.0)
    }
}

/// A place for one reference, or none.
pub struct ObjCell {
    latch: Latch,
    value: UnsafeCell<Option<Owned>>,
}

// SAFETY: every access needs a token of the interpreter the payload belongs to, so with a GIL they follow one another;
// without one the latch makes them.
unsafe impl Sync for ObjCell {}
// SAFETY: a reference, used and dropped attached.
unsafe impl Confined for ObjCell {}

impl ObjCell {
    /// An empty place.
    pub const fn empty() -> Self {
        Self { latch: Latch::new(), value: UnsafeCell::new(None) }
    }

    /// A place with a reference in it.
    pub const fn new(value: Owned) -> Self {
        Self { latch: Latch::new(), value: UnsafeCell::new(Some(value)) }
    }

    /// A new reference to what is in it.
    #[inline]
    pub fn get(&self, py: Attached<'_>) -> Option<Owned> {
        // SAFETY: nobody else is at the value now (see `Sync`), and counting up runs no code.
        self.latch.hold(|| unsafe { (*self.value.get()).as_ref().map(|value| value.clone_ref(py)) })
    }

    /// Puts something in, or empties the place, and gives back what was there. The caller drops it when it is safe to run
    /// Python code.
    #[inline]
    pub fn replace(&self, _py: Attached<'_>, value: Option<Owned>) -> Option<Owned> {
        // SAFETY: as above; a swap runs no code.
        self.latch.hold(|| unsafe { core::mem::replace(&mut *self.value.get(), value) })
    }

    /// Empties the place.
    #[inline]
    pub fn take(&self, py: Attached<'_>) -> Option<Owned> {
        self.replace(py, None)
    }

    /// Puts something in; what was there is dropped afterwards.
    #[inline]
    pub fn set(&self, py: Attached<'_>, value: Owned) {
        drop(self.replace(py, Some(value)));
    }

    /// Whether there is something in it.
    #[inline]
    pub fn is_set(&self, _py: Attached<'_>) -> bool {
        // SAFETY: as above.
        self.latch.hold(|| unsafe { (*self.value.get()).is_some() })
    }

    /// Whether it holds this very object.
    #[inline]
    pub fn holds(&self, _py: Attached<'_>, object: &Obj) -> bool {
        // SAFETY: as above.
        self.latch.hold(|| unsafe { (*self.value.get()).as_ref().is_some_and(|value| value.is(object)) })
    }
}

impl Default for ObjCell {
    fn default() -> Self {
        Self::empty()
    }
}

impl From<Owned> for ObjCell {
    fn from(value: Owned) -> Self {
        Self::new(value)
    }
}

impl Traverse for ObjCell {
    #[inline]
    fn traverse(&self, visit: &mut Visit<'_>) -> Visited {
        // SAFETY: the collector runs with the GIL, or with all other threads stopped at a point where they are attached to
        // nothing, so none is inside `hold`. The reference is only read.
        match unsafe { &*self.value.get() } {
            Some(value) => visit.object(value),
            None => Ok(()),
        }
    }

    fn clear(&self, py: Attached<'_>) {
        drop(self.take(py));
    }
}

#[cfg(not(Py_GIL_DISABLED))]
const _: () = assert!(size_of::<ObjCell>() == size_of::<usize>());
