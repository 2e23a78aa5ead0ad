//! `contextvars`: contexts, and running things in them. Attached threads only.

use crate::{AsObj, Attached, Confined, Obj, Owned, PyResult, Raised, Traverse, Visit, Visited, ffi};

/// A `contextvars.Context`.
pub struct Context(Owned);

impl Context {
    /// A copy of the current one; O(1).
    #[inline]
    pub fn copy_current(py: Attached<'_>) -> PyResult<Self> {
        // SAFETY: attached; a new reference or NULL with an exception.
        Ok(Self(unsafe { Owned::from_ptr(py, ffi::PyContext_CopyCurrent())? }))
    }

    /// One without variables.
    pub fn empty(py: Attached<'_>) -> PyResult<Self> {
        // SAFETY: attached; a new reference or NULL with an exception.
        Ok(Self(unsafe { Owned::from_ptr(py, ffi::PyContext_New())? }))
    }

    /// An object given by a user; a `TypeError` if it is no context.
    pub fn from_object(py: Attached<'_>, object: Owned) -> PyResult<Self> {
        // SAFETY: alive; looks at its type only.
        if unsafe { ffi::PyContext_CheckExact(object.as_ptr()) } == 0 {
            return Err(object.wrong_type(py, "contextvars.Context"));
        }
        Ok(Self(object))
    }

    /// The object.
    #[inline]
    pub fn object(&self) -> &Owned {
        &self.0
    }

    /// The object, for good.
    #[inline]
    pub fn into_object(self) -> Owned {
        self.0
    }

    /// Another reference to the same context.
    #[inline]
    pub fn clone_ref(&self, py: Attached<'_>) -> Self {
        Self(self.0.clone_ref(py))
    }

    /// Runs `f` in this context, as `Context.run` does. A `RuntimeError` if it is entered already.
    #[inline]
    pub fn run<R>(&self, py: Attached<'_>, f: impl FnOnce() -> PyResult<R>) -> PyResult<R> {
        run_in(py, &self.0, f)
    }
}

/// [`Context::run`] for a context kept as a plain object, checked before by [`Context::from_object`].
#[inline]
pub fn run_in<R>(py: Attached<'_>, context: &impl AsObj, f: impl FnOnce() -> PyResult<R>) -> PyResult<R> {
    let _entered = Entered::new(py, context.as_obj())?;
    f()
}

/// Has this thread run in a context, until [`exit`].
#[inline(always)]
pub(crate) fn enter(py: Attached<'_>, context: &Obj) -> PyResult<()> {
    // SAFETY: attached, alive; the runtime refuses what is no context.
    Raised::check(py, unsafe { ffi::PyContext_Enter(context.as_ptr()) })
}

/// Leaves a context that this thread has entered. Whether that was its turn; else contexts were left in another order, which is reported to
/// nobody, as an exception of what has run in it may be set.
#[inline(always)]
pub(crate) fn exit(context: &Obj) -> bool {
    // SAFETY: attached, as whoever has a reference is, and alive.
    unsafe {
        let left = ffi::PyContext_Exit(context.as_ptr()) == 0;
        if !left {
            ffi::PyErr_WriteUnraisable(context.as_ptr());
        }
        left
    }
}

/// Whether a context has no variables.
#[inline]
pub(crate) fn is_empty(context: &Obj) -> bool {
    // SAFETY: attached, as whoever has a reference is; a context, which knows its length and does not raise.
    unsafe { ffi::PyObject_Size(context.as_ptr()) == 0 }
}

/// A context that this thread runs in, and leaves also if there is a panic.
struct Entered<'a>(&'a Obj);

impl<'a> Entered<'a> {
    #[inline]
    fn new(py: Attached<'_>, context: &'a Obj) -> PyResult<Self> {
        enter(py, context)?;
        Ok(Self(context))
    }
}

impl Drop for Entered<'_> {
    #[inline]
    fn drop(&mut self) {
        exit(self.0);
    }
}

// SAFETY: a reference.
unsafe impl Confined for Context {}

impl Traverse for Context {
    fn traverse(&self, visit: &mut Visit<'_>) -> Visited {
        visit.object(&self.0)
    }
}
