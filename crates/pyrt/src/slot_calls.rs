//! The C functions behind [`TypeSlot`](super::TypeSlot), each compiled for one Rust function. The runtime calls these attached.

use core::ffi::{c_int, c_void};

use super::Compare;
use crate::layout::payload;
use crate::method::{Args, conjure};
use crate::runtime::Step;
use crate::{Attached, Borrowed, Class, Instance, Owned, PyResult, Return, ffi, guard};

pub(super) unsafe extern "C" fn unary<T, F, R>(this: *mut ffi::PyObject) -> *mut ffi::PyObject
where
    T: Class,
    F: for<'py> Fn(Attached<'py>, Instance<'py, T>) -> PyResult<R> + Copy + 'static,
    R: Return,
{
    // SAFETY: called attached through a slot of `T`'s type, on an instance of it.
    unsafe { guard(|py| Ok(conjure::<F>()(py, Instance::from_raw(this))?.into_object(py)?.into_ptr())) }
}

/// Makes an instance of `class`, a subclass of `T`'s type or that type itself, around a payload.
unsafe fn allocate<T: Class>(
    py: Attached<'_>,
    class: *mut ffi::PyTypeObject,
    value: T,
) -> PyResult<*mut ffi::PyObject> {
    // SAFETY: the class inherits its allocator, which gives zeroed memory, tracked where the class says so. No code runs
    // between that and the write, so nobody sees the instance without a payload.
    unsafe {
        let alloc = (*class).tp_alloc.unwrap_or(ffi::PyType_GenericAlloc);
        let object = Owned::from_ptr(py, alloc(class, 0))?;
        payload::<T>(object.as_ptr()).write(value);
        Ok(object.into_ptr())
    }
}

pub(super) unsafe extern "C" fn new<T, F>(
    class: *mut ffi::PyTypeObject,
    args: *mut ffi::PyObject,
    kwargs: *mut ffi::PyObject,
) -> *mut ffi::PyObject
where
    T: Class,
    F: for<'py> Fn(Attached<'py>, Borrowed<'py>, Args<'py>) -> PyResult<T> + Copy + 'static,
{
    // SAFETY: called attached; `class` is `T`'s type or a subclass (`__new__` checks), `args` a tuple, `kwargs` NULL or a dict.
    unsafe {
        guard(|py| {
            let value = conjure::<F>()(
                py,
                Borrowed::from_ptr_unchecked(py, class.cast()),
                Args::tuple(args, kwargs),
            )?;
            allocate(py, class, value)
        })
    }
}

pub(super) unsafe extern "C" fn new_vectorcall<T, F>(
    class: *mut ffi::PyObject,
    args: *const *mut ffi::PyObject,
    nargsf: usize,
    names: *mut ffi::PyObject,
) -> *mut ffi::PyObject
where
    T: Class,
    F: for<'py> Fn(Attached<'py>, Borrowed<'py>, Args<'py>) -> PyResult<T> + Copy + 'static,
{
    // SAFETY: called attached on `T`'s type itself, in whose `tp_vectorcall` it sits; arguments as PEP 590 lays them out.
    unsafe {
        guard(|py| {
            let args = Args::vectorcall(args, nargsf & !ffi::ARGUMENTS_OFFSET, names);
            let value = conjure::<F>()(py, Borrowed::from_ptr_unchecked(py, class), args)?;
            allocate(py, class.cast(), value)
        })
    }
}

pub(super) unsafe extern "C" fn init<T, F>(
    this: *mut ffi::PyObject,
    args: *mut ffi::PyObject,
    kwargs: *mut ffi::PyObject,
) -> c_int
where
    T: Class,
    F: for<'py> Fn(Attached<'py>, Instance<'py, T>, Args<'py>) -> PyResult<()> + Copy + 'static,
{
    // SAFETY: called attached through a slot of `T`'s type, with a tuple and NULL or a dict.
    unsafe {
        guard(|py| {
            conjure::<F>()(py, Instance::from_raw(this), Args::tuple(args, kwargs))?;
            Ok(0)
        })
    }
}

pub(super) unsafe extern "C" fn finalize<T, F>(this: *mut ffi::PyObject)
where
    T: Class,
    F: for<'py> Fn(Attached<'py>, Instance<'py, T>) -> PyResult<()> + Copy + 'static,
{
    // SAFETY: called attached on an instance of `T`'s type that is still whole. An exception that was set before is kept.
    unsafe {
        guard::contain(|| {
            let py = Attached::assume();
            let pending = (!ffi::PyErr_Occurred().is_null()).then(|| crate::Exception::fetch(py));
            let this = Instance::<T>::from_raw(this);
            if let Err(raised) = conjure::<F>()(py, this) {
                raised.write_unraisable(py, Some(&this.object()));
            }
            if let Some(pending) = pending {
                let _set_again = pending.raise(py);
            }
        });
    }
}

pub(super) unsafe extern "C" fn iternext<T, F>(this: *mut ffi::PyObject) -> *mut ffi::PyObject
where
    T: Class,
    F: for<'py> Fn(Attached<'py>, Instance<'py, T>) -> PyResult<Option<Owned>> + Copy + 'static,
{
    // SAFETY: called attached through a slot of `T`'s type. NULL without exception is the end.
    unsafe {
        guard(|py| {
            Ok(conjure::<F>()(py, Instance::from_raw(this))?.map_or(core::ptr::null_mut(), Owned::into_ptr))
        })
    }
}

pub(super) unsafe extern "C" fn am_send<T, F>(
    this: *mut ffi::PyObject,
    value: *mut ffi::PyObject,
    result: *mut *mut ffi::PyObject,
) -> c_int
where
    T: Class,
    F: for<'py> Fn(Attached<'py>, Instance<'py, T>, Borrowed<'py>) -> PyResult<Step> + Copy + 'static,
{
    // SAFETY: called attached through a slot of `T`'s type; `result` receives a new reference, or NULL on error, which
    // PYGEN_ERROR (-1) announces.
    unsafe {
        *result = core::ptr::null_mut();
        guard(|py| {
            let step = conjure::<F>()(py, Instance::from_raw(this), Borrowed::from_ptr_unchecked(py, value))?;
            let (code, object) = match step {
                Step::Returned(object) => (0, object),
                Step::Yielded(object) => (1, object),
            };
            *result = object.into_ptr();
            Ok(code)
        })
    }
}

pub(super) unsafe extern "C" fn setattr<T, F>(
    this: *mut ffi::PyObject,
    name: *mut ffi::PyObject,
    value: *mut ffi::PyObject,
) -> c_int
where
    T: Class,
    F: for<'py> Fn(Attached<'py>, Instance<'py, T>, Borrowed<'py>, Option<Borrowed<'py>>) -> PyResult<()>
        + Copy
        + 'static,
{
    // SAFETY: called attached through a slot of `T`'s type; a NULL value deletes.
    unsafe {
        guard(|py| {
            let value = (!value.is_null()).then(|| Borrowed::from_ptr_unchecked(py, value));
            conjure::<F>()(py, Instance::from_raw(this), Borrowed::from_ptr_unchecked(py, name), value)?;
            Ok(0)
        })
    }
}

pub(super) unsafe extern "C" fn hash<T, F>(this: *mut ffi::PyObject) -> ffi::Py_hash_t
where
    T: Class,
    F: for<'py> Fn(Attached<'py>, Instance<'py, T>) -> PyResult<isize> + Copy + 'static,
{
    // SAFETY: called attached through a slot of `T`'s type. -1 is the error mark, so that hash is -2, as everywhere.
    unsafe {
        guard(|py| {
            let hash = conjure::<F>()(py, Instance::from_raw(this))?;
            Ok(if hash == -1 { -2 } else { hash })
        })
    }
}

pub(super) unsafe extern "C" fn len<T, F>(this: *mut ffi::PyObject) -> isize
where
    T: Class,
    F: for<'py> Fn(Attached<'py>, Instance<'py, T>) -> PyResult<usize> + Copy + 'static,
{
    // SAFETY: called attached through a slot of `T`'s type.
    unsafe {
        guard(|py| {
            let size = conjure::<F>()(py, Instance::from_raw(this))?;
            isize::try_from(size).map_err(|error| crate::Fault::from(error).raise(py))
        })
    }
}

pub(super) unsafe extern "C" fn bool<T, F>(this: *mut ffi::PyObject) -> c_int
where
    T: Class,
    F: for<'py> Fn(Attached<'py>, Instance<'py, T>) -> PyResult<bool> + Copy + 'static,
{
    // SAFETY: called attached through a slot of `T`'s type.
    unsafe { guard(|py| Ok(c_int::from(conjure::<F>()(py, Instance::from_raw(this))?))) }
}

pub(super) unsafe extern "C" fn compare<T, F>(
    this: *mut ffi::PyObject,
    other: *mut ffi::PyObject,
    op: c_int,
) -> *mut ffi::PyObject
where
    T: Class,
    F: for<'py> Fn(Attached<'py>, Instance<'py, T>, Borrowed<'py>, Compare) -> PyResult<Owned>
        + Copy
        + 'static,
{
    // SAFETY: called attached through a slot of `T`'s type, whose instance is the first argument, also when reflected.
    unsafe {
        guard(|py| {
            let other = Borrowed::from_ptr_unchecked(py, other);
            Ok(conjure::<F>()(py, Instance::from_raw(this), other, Compare::from_raw(op))?.into_ptr())
        })
    }
}

pub(super) unsafe extern "C" fn buffer<T, F>(
    this: *mut ffi::PyObject,
    view: *mut ffi::Py_buffer,
    flags: c_int,
) -> c_int
where
    T: Class,
    F: for<'py> Fn(Attached<'py>, Instance<'py, T>) -> PyResult<&'py [u8]> + Copy + 'static,
{
    // SAFETY: called attached through a slot of `T`'s type; the runtime fills the view and has it keep the instance alive. On
    // failure the protocol wants `obj` to be NULL.
    unsafe {
        (*view).obj = core::ptr::null_mut();
        guard(|py| {
            let data = conjure::<F>()(py, Instance::from_raw(this))?;
            let start = data.as_ptr().cast_mut().cast::<c_void>();
            let status = ffi::PyBuffer_FillInfo(view, this, start, data.len() as isize, 1, flags);
            crate::Raised::check(py, status)?;
            Ok(0)
        })
    }
}

pub(super) unsafe extern "C" fn buffer_mut<T, F>(
    this: *mut ffi::PyObject,
    view: *mut ffi::Py_buffer,
    flags: c_int,
) -> c_int
where
    T: Class,
    F: for<'py> Fn(Attached<'py>, Instance<'py, T>) -> PyResult<(*mut u8, usize)> + Copy + 'static,
{
    // SAFETY: as for `buffer`, and the memory may be written to, as whoever made the slot has promised.
    unsafe {
        (*view).obj = core::ptr::null_mut();
        guard(|py| {
            let (start, size) = conjure::<F>()(py, Instance::from_raw(this))?;
            let status = ffi::PyBuffer_FillInfo(view, this, start.cast(), size as isize, 0, flags);
            crate::Raised::check(py, status)?;
            Ok(0)
        })
    }
}
