//! `Raised`: a zero-sized error that says "the exception is in the thread's error indicator". Attached threads only.

use core::ffi::c_int;
use core::marker::PhantomData;

use crate::{Attached, Exception, Obj, ffi};

/// The result of everything that can raise.
pub type PyResult<T> = Result<T, Raised>;

/// The error indicator of this thread is set. Return it to Python, or [`take`](Raised::take) the exception.
#[must_use = "the exception stays set until it is returned to Python, taken or cleared"]
pub struct Raised(PhantomData<*mut ()>);

impl Raised {
    /// States that an exception is set, as after a call into the runtime that failed.
    ///
    /// Should none be set after all, the caller of the native function gets a `SystemError` from the runtime.
    #[inline]
    pub fn set(_py: Attached<'_>) -> Self {
        // SAFETY: attached.
        debug_assert!(!unsafe { ffi::PyErr_Occurred() }.is_null(), "no exception is set");
        Self(PhantomData)
    }

    /// The runtime's convention for integers: negative means raised.
    #[inline]
    pub fn check(py: Attached<'_>, status: c_int) -> PyResult<()> {
        if status < 0 { Err(Self::set(py)) } else { Ok(()) }
    }

    /// For values whose error mark is a legal value too: an error only if an exception is set.
    #[inline]
    pub fn check_occurred(_py: Attached<'_>) -> PyResult<()> {
        // SAFETY: attached.
        if unsafe { ffi::PyErr_Occurred() }.is_null() { Ok(()) } else { Err(Self(PhantomData)) }
    }

    /// Takes the exception out of the indicator.
    pub fn take(self, py: Attached<'_>) -> Exception {
        Exception::fetch(py)
    }

    /// Forgets the exception.
    pub fn clear(self, _py: Attached<'_>) {
        // SAFETY: attached.
        unsafe { ffi::PyErr_Clear() }
    }

    /// Whether the exception is an instance of `class`, which may be a tuple of classes.
    pub fn matches(&self, _py: Attached<'_>, class: &Obj) -> bool {
        // SAFETY: attached, an exception is set, `class` is alive.
        unsafe { ffi::PyErr_ExceptionMatches(class.as_ptr()) != 0 }
    }

    /// Reports the exception to `sys.unraisablehook`, for places that have nobody to raise it to.
    pub fn write_unraisable(self, _py: Attached<'_>, place: Option<&Obj>) {
        // SAFETY: attached; NULL is allowed for the place.
        unsafe { ffi::PyErr_WriteUnraisable(place.map_or(core::ptr::null_mut(), Obj::as_ptr)) }
    }
}

impl core::fmt::Debug for Raised {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Raised")
    }
}
