//! Calling objects, always by vectorcall (PEP 590). Attached threads only.
//!
//! The array forms leave the slot before the first argument free, so that a bound method puts its `self` there instead of
//! copying the arguments.

use crate::{AsObj, Attached, Borrowed, Obj, Owned, PyResult, ffi};

/// Arguments with the spare slot in front of them.
#[repr(C)]
struct Frame<'a, const N: usize> {
    spare: *mut ffi::PyObject,
    args: [Borrowed<'a>; N],
}

/// A receiver, its arguments, and the spare slot in front of both.
#[repr(C)]
struct MethodFrame<'a, const N: usize> {
    spare: *mut ffi::PyObject,
    this: Borrowed<'a>,
    args: [Borrowed<'a>; N],
}

impl Obj {
    /// `self()`.
    #[inline]
    pub fn call0(&self, py: Attached<'_>) -> PyResult<Owned> {
        self.call(py, [])
    }

    /// `self(arg)`.
    #[inline]
    pub fn call1(&self, py: Attached<'_>, arg: &impl AsObj) -> PyResult<Owned> {
        self.call(py, [arg.as_obj().borrow()])
    }

    /// `self(*args)` for a number of arguments known at compile time.
    #[inline]
    pub fn call<const N: usize>(&self, py: Attached<'_>, args: [Borrowed<'_>; N]) -> PyResult<Owned> {
        let mut frame = Frame { spare: core::ptr::null_mut(), args };
        let first = (&raw mut frame).cast::<*mut ffi::PyObject>().wrapping_add(1);
        // SAFETY: `first` points to N live references in `frame`, preceded by a slot the callee may use: `Borrowed` is a
        // transparent pointer, so the frame is an array of N + 1 pointers.
        unsafe { self.vectorcall(py, first, N | ffi::ARGUMENTS_OFFSET, core::ptr::null_mut()) }
    }

    /// `self(*args)`. Prefer [`call`](Self::call) where the number is known.
    #[inline]
    pub fn call_slice(&self, py: Attached<'_>, args: &[Borrowed<'_>]) -> PyResult<Owned> {
        // SAFETY: the slice is an array of live references, and no spare slot is promised.
        unsafe { self.vectorcall(py, args.as_ptr().cast(), args.len(), core::ptr::null_mut()) }
    }

    /// `self(*positional, **named)`: `args` holds the positional values followed by those of `names`, a tuple of `str`.
    #[inline]
    pub fn call_names(&self, py: Attached<'_>, args: &[Borrowed<'_>], names: &impl AsObj) -> PyResult<Owned> {
        // SAFETY: a type test and, for a tuple, a read of its size.
        let named = unsafe {
            if ffi::PyTuple_Check(names.as_obj().as_ptr()) == 0 {
                0
            } else {
                ffi::PyTuple_GET_SIZE(names.as_obj().as_ptr()) as usize
            }
        };
        let Some(positional) = args.len().checked_sub(named) else {
            return Err(crate::Fault::type_error("more keyword names than arguments").raise(py));
        };
        // SAFETY: the slice is an array of live references, the last `named` of which belong to the names.
        unsafe {
            self.vectorcall(
                py,
                args.as_ptr().cast(),
                positional,
                if named == 0 { core::ptr::null_mut() } else { names.as_obj().as_ptr() },
            )
        }
    }

    /// `self(*args, **kwargs)` from a tuple and a dict.
    pub fn call_tuple(&self, py: Attached<'_>, args: &impl AsObj, kwargs: Option<&Obj>) -> PyResult<Owned> {
        let kwargs = kwargs.map_or(core::ptr::null_mut(), Obj::as_ptr);
        // SAFETY: attached, all alive; the runtime refuses what is no tuple or dict.
        unsafe { Owned::from_ptr(py, ffi::PyObject_Call(self.as_ptr(), args.as_obj().as_ptr(), kwargs)) }
    }

    /// `self.name()`.
    #[inline]
    pub fn call_method0(&self, py: Attached<'_>, name: &impl AsObj) -> PyResult<Owned> {
        self.call_method(py, name, [])
    }

    /// `self.name(arg)`.
    #[inline]
    pub fn call_method1(&self, py: Attached<'_>, name: &impl AsObj, arg: &impl AsObj) -> PyResult<Owned> {
        self.call_method(py, name, [arg.as_obj().borrow()])
    }

    /// `self.name(*args)` without making a bound method.
    #[inline]
    pub fn call_method<const N: usize>(
        &self,
        py: Attached<'_>,
        name: &impl AsObj,
        args: [Borrowed<'_>; N],
    ) -> PyResult<Owned> {
        let mut frame = MethodFrame { spare: core::ptr::null_mut(), this: self.borrow(), args };
        let first = (&raw mut frame).cast::<*mut ffi::PyObject>().wrapping_add(1);
        // SAFETY: as in `call`, with the receiver as the first of N + 1 arguments.
        unsafe {
            let flags = (N + 1) | ffi::ARGUMENTS_OFFSET;
            Owned::from_ptr(
                py,
                ffi::PyObject_VectorcallMethod(name.as_obj().as_ptr(), first, flags, core::ptr::null_mut()),
            )
        }
    }

    /// A vectorcall on arguments laid out by the caller, such as those inline in a handle.
    ///
    /// # Safety
    /// As for `PyObject_Vectorcall`: `args` points to the live references that `nargsf` and `names` announce, and with
    /// `PY_VECTORCALL_ARGUMENTS_OFFSET` the slot before them is writable.
    #[inline]
    pub unsafe fn vectorcall(
        &self,
        py: Attached<'_>,
        args: *const *mut ffi::PyObject,
        nargsf: usize,
        names: *mut ffi::PyObject,
    ) -> PyResult<Owned> {
        // SAFETY: attached, `self` alive; the rest by contract. The result is a new reference or NULL with an exception.
        unsafe { Owned::from_ptr(py, ffi::PyObject_Vectorcall(self.as_ptr(), args, nargsf, names)) }
    }
}

impl Obj {
    /// What a built-in function or method is bound to: `__self__`, without asking for it by name. Nothing for other callables.
    #[inline]
    pub fn builtin_self<'a>(&'a self, py: Attached<'a>) -> Option<Borrowed<'a>> {
        // SAFETY: attached, alive; a test of its type comes first. The function keeps alive what it is bound to.
        unsafe {
            if ffi::PyCFunction_Check(self.as_ptr()) == 0 {
                return None;
            }
            Borrowed::from_ptr(py, ffi::PyCFunction_GetSelf(self.as_ptr()))
        }
    }
}
