//! `contextvars`: contexts, and running things in them. Attached threads only.

use crate::{
    AsObj, Attached, Confined, HAS_GIL, Obj, ObjCell, Owned, PyResult, Raised, Traverse, Visit, Visited, ffi,
};

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
    let entered = Entered::new(py, context.as_obj())?;
    let result = f();
    entered.leave();
    result
}

/// [`run_in`] a context without variables: the one in `spare`, or a new one. It goes back there, unless `f` has left variables in it or
/// somebody has got hold of it; then it is handed out.
#[inline(always)]
pub fn run_bare<R>(
    py: Attached<'_>,
    spare: &ObjCell,
    f: impl FnOnce() -> PyResult<R>,
) -> PyResult<(PyResult<R>, Option<Owned>)> {
    let context = match spare.take(py) {
        Some(context) => context,
        None => Context::empty(py)?.into_object(),
    };
    let entered = Entered::new(py, &context)?;
    let result = f();
    if entered.leave() && HAS_GIL && context.refcount(py) == 1 && is_empty(&context) {
        spare.set(py, context);
        return Ok((result, None));
    }
    Ok((result, Some(context)))
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
        // SAFETY: attached, alive; the runtime refuses what is no context.
        Raised::check(py, unsafe { ffi::PyContext_Enter(context.as_ptr()) })?;
        Ok(Self(context))
    }

    /// Whether it was left as it should be. Else contexts were left in another order, which is reported to nobody, as an exception of
    /// what has run in it may be set.
    #[inline]
    fn leave(self) -> bool {
        core::mem::ManuallyDrop::new(self).exit()
    }

    #[inline]
    fn exit(&self) -> bool {
        // SAFETY: attached, and the context was entered by this thread.
        unsafe {
            let left = ffi::PyContext_Exit(self.0.as_ptr()) == 0;
            if !left {
                ffi::PyErr_WriteUnraisable(self.0.as_ptr());
            }
            left
        }
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        self.exit();
    }
}

// SAFETY: a reference.
unsafe impl Confined for Context {}

impl Traverse for Context {
    fn traverse(&self, visit: &mut Visit<'_>) -> Visited {
        visit.object(&self.0)
    }
}
