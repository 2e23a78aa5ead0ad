//! `Remote`: a strong reference that may travel to other threads and be dropped on any of them.

use core::fmt;
use core::mem::ManuallyDrop;
use core::ptr::NonNull;

use crate::{Attached, Borrowed, Interpreter, Owned, ffi};

/// A strong reference together with its interpreter.
///
/// Dropped on a thread attached to that interpreter it is given back at once, anywhere else it is queued there and given
/// back at the next [`Interpreter::drain`]. It never attaches by itself: a drop must not wait for a GIL.
pub struct Remote {
    pointer: NonNull<ffi::PyObject>,
    home: Interpreter,
}

// SAFETY: the object is reached only through a token of its own interpreter, which `get` and `into_owned` check; the drop
// touches it only when attached there.
unsafe impl Send for Remote {}
// SAFETY: as above; a shared `Remote` gives nothing but borrowed references to attached threads.
unsafe impl Sync for Remote {}

impl Remote {
    /// Makes a reference able to travel. `home` is the interpreter this thread is attached to; another one is refused.
    pub fn new(_py: Attached<'_>, object: Owned, home: &Interpreter) -> Result<Self, Owned> {
        if !home.is_current() {
            return Err(object);
        }
        match NonNull::new(object.as_ptr()) {
            Some(pointer) => {
                core::mem::forget(object);
                Ok(Self { pointer, home: home.clone() })
            }
            None => Err(object),
        }
    }

    /// The interpreter the object belongs to.
    pub fn home(&self) -> &Interpreter {
        &self.home
    }

    /// The object, if this thread is attached to its interpreter.
    #[inline]
    pub fn get(&self, py: Attached<'_>) -> Option<Borrowed<'_>> {
        if self.home.is_current() {
            // SAFETY: one reference is owned for as long as `self` lives.
            unsafe { Borrowed::from_ptr(py, self.pointer.as_ptr()) }
        } else {
            None
        }
    }

    /// Turns it back, if this thread is attached to its interpreter.
    #[inline]
    pub fn into_owned(self, py: Attached<'_>) -> Result<Owned, Self> {
        if !self.home.is_current() {
            return Err(self);
        }
        let this = ManuallyDrop::new(self);
        // SAFETY: `this` is never dropped, so its handle can be moved out.
        drop(unsafe { core::ptr::read(&raw const this.home) });
        // SAFETY: the reference owned by `this` is given to the result; the pointer is not NULL.
        match unsafe { Owned::from_ptr_or_none(py, this.pointer.as_ptr()) } {
            Some(owned) => Ok(owned),
            None => Ok(Owned::none(py)),
        }
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        if self.home.is_current() {
            // SAFETY: one reference is owned, and the thread is attached to the interpreter of the object.
            unsafe { ffi::Py_DECREF(self.pointer.as_ptr()) }
        } else {
            self.home.defer(self.pointer);
        }
    }
}

impl fmt::Debug for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Remote").field("pointer", &self.pointer).field("home", &self.home).finish()
    }
}
