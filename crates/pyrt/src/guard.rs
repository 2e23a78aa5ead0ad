//! The guard every `extern "C"` body passes: it gives the token, contains panics, and speaks the runtime's error convention.
//!
//! Called by the runtime, so the thread is attached; nothing unwinds through it.

use core::any::Any;
use core::ffi::c_int;
use std::borrow::Cow;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::{Attached, Exception, Fault, Owned, PyResult, Raised, ffi};

/// A return type of the C API and its mark for "an exception is set".
pub trait Failed {
    /// The mark: NULL or -1.
    const FAILED: Self;
}

impl Failed for *mut ffi::PyObject {
    const FAILED: Self = core::ptr::null_mut();
}

impl Failed for c_int {
    const FAILED: Self = -1;
}

impl Failed for isize {
    const FAILED: Self = -1;
}

impl Failed for () {
    const FAILED: Self = ();
}

/// Runs the body of a function called by Python.
///
/// # Safety
/// The thread is attached, and stays so until the body returns, except inside `detach`.
#[inline(always)]
pub unsafe fn guard<C: Failed>(body: impl for<'py> FnOnce(Attached<'py>) -> PyResult<C>) -> C {
    // SAFETY: by contract.
    let py = unsafe { Attached::assume() };
    match catch_unwind(AssertUnwindSafe(|| body(py))) {
        Ok(Ok(value)) => value,
        Ok(Err(_raised)) => C::FAILED,
        Err(panic) => {
            let _raised = raise_panic(py, panic);
            C::FAILED
        }
    }
}

/// For bodies that must neither raise nor be seen to fail, destructors above all: a panic is reported as unraisable.
///
/// # Safety
/// The thread is attached.
#[inline(always)]
pub(crate) unsafe fn contain(body: impl FnOnce()) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(body)) {
        // SAFETY: by contract.
        let py = unsafe { Attached::assume() };
        // SAFETY: attached.
        let pending = unsafe { !ffi::PyErr_Occurred().is_null() }.then(|| Exception::fetch(py));
        raise_panic(py, panic).write_unraisable(py, None);
        if let Some(pending) = pending {
            let _set_again = pending.raise(py);
        }
    }
}

/// Turns the payload of a caught panic into a `SystemError`; an exception that was set becomes its context.
#[cold]
pub fn raise_panic(py: Attached<'_>, panic: Box<dyn Any + Send>) -> Raised {
    let text: Cow<'static, str> = if let Some(text) = panic.downcast_ref::<&'static str>() {
        Cow::Borrowed(text)
    } else if let Some(text) = panic.downcast_ref::<String>() {
        Cow::Owned(text.clone())
    } else {
        Cow::Borrowed("no message")
    };
    // Its destructor is foreign code and may panic again: leaked rather than run.
    core::mem::forget(panic);
    // SAFETY: attached.
    if unsafe { ffi::PyErr_Occurred() }.is_null() {
        return Fault::Panic(text).raise(py);
    }
    let context = Exception::fetch(py);
    let exception = Fault::Panic(text).raise(py).take(py);
    exception.set_context(py, context);
    exception.raise(py)
}

/// What a native method may return.
pub trait Return {
    /// The object given to Python.
    fn into_object(self, py: Attached<'_>) -> PyResult<Owned>;
}

impl Return for Owned {
    #[inline]
    fn into_object(self, _py: Attached<'_>) -> PyResult<Owned> {
        Ok(self)
    }
}

impl Return for () {
    #[inline]
    fn into_object(self, py: Attached<'_>) -> PyResult<Owned> {
        Ok(Owned::none(py))
    }
}

impl Return for bool {
    #[inline]
    fn into_object(self, py: Attached<'_>) -> PyResult<Owned> {
        Ok(Owned::bool(py, self))
    }
}

impl Return for i64 {
    #[inline]
    fn into_object(self, py: Attached<'_>) -> PyResult<Owned> {
        Owned::int(py, self)
    }
}

impl Return for usize {
    #[inline]
    fn into_object(self, py: Attached<'_>) -> PyResult<Owned> {
        Owned::uint(py, self as u64)
    }
}

impl Return for f64 {
    #[inline]
    fn into_object(self, py: Attached<'_>) -> PyResult<Owned> {
        Owned::float(py, self)
    }
}

impl Return for &str {
    #[inline]
    fn into_object(self, py: Attached<'_>) -> PyResult<Owned> {
        Owned::str(py, self)
    }
}

impl Return for String {
    #[inline]
    fn into_object(self, py: Attached<'_>) -> PyResult<Owned> {
        Owned::str(py, &self)
    }
}

/// `None` in Rust is `None` in Python.
impl<T: Return> Return for Option<T> {
    #[inline]
    fn into_object(self, py: Attached<'_>) -> PyResult<Owned> {
        match self {
            Some(value) => value.into_object(py),
            None => Ok(Owned::none(py)),
        }
    }
}
