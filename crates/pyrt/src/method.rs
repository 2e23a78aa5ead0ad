//! Methods, properties and module functions: Rust function items made callable from Python, as entries of constant tables.
//!
//! A table entry holds a C function that was compiled for one Rust function. That function is a zero-sized value, so the C
//! function can conjure it up instead of storing it: the call is direct, and inlined. The runtime calls these attached.

use core::ffi::{CStr, c_int, c_void};
use core::marker::PhantomData;
use core::ptr::NonNull;

pub(crate) use crate::args::Args;
use crate::{Attached, Borrowed, Class, Instance, PyResult, Return, ffi, guard};

/// Uses up a function item at compile time, refusing closures that capture.
pub(crate) const fn forget<F>(f: F) {
    const { assert!(size_of::<F>() == 0, "only function items and closures without captures") };
    core::mem::forget(f);
}

/// The function item again.
///
/// # Safety
/// A value of `F` was passed to [`forget`], so it is zero-sized and has values.
#[inline(always)]
pub(crate) unsafe fn conjure<F: Copy>() -> F {
    // SAFETY: reading a zero-sized value touches no memory; `F` is `Copy` and a value of it existed.
    unsafe { NonNull::<F>::dangling().read() }
}

/// A method of the class of `T`.
///
/// The doc text may start with a signature, `name($self, a, /, b=None)\n--\n\n`, which becomes `__text_signature__`.
#[repr(transparent)]
pub struct Method<T>(ffi::PyMethodDef, PhantomData<fn(&T)>);

impl<T> Method<T> {
    /// The end of the table.
    pub const END: Self = Self(ffi::PyMethodDef::zeroed(), PhantomData);

    pub(crate) const fn is_terminated(table: &[Self]) -> bool {
        match table {
            [.., last] => last.0.ml_name.is_null(),
            [] => false,
        }
    }

    const fn entry(
        name: &'static CStr,
        ml_meth: ffi::PyMethodDefPointer,
        flags: c_int,
        doc: &'static CStr,
    ) -> Self {
        let def = ffi::PyMethodDef { ml_name: name.as_ptr(), ml_meth, ml_flags: flags, ml_doc: doc.as_ptr() };
        Self(def, PhantomData)
    }
}

impl<T: Class> Method<T> {
    /// A method without arguments.
    pub const fn noargs<F, R>(name: &'static CStr, f: F, doc: &'static CStr) -> Self
    where
        F: for<'py> Fn(Attached<'py>, Instance<'py, T>) -> PyResult<R> + Copy + 'static,
        R: Return,
    {
        forget(f);
        let function = ffi::PyMethodDefPointer { PyCFunction: noargs::<T, F, R> };
        Self::entry(name, function, ffi::METH_NOARGS, doc)
    }

    /// A method with exactly one positional argument.
    pub const fn one<F, R>(name: &'static CStr, f: F, doc: &'static CStr) -> Self
    where
        F: for<'py> Fn(Attached<'py>, Instance<'py, T>, Borrowed<'py>) -> PyResult<R> + Copy + 'static,
        R: Return,
    {
        forget(f);
        Self::entry(name, ffi::PyMethodDefPointer { PyCFunction: one::<T, F, R> }, ffi::METH_O, doc)
    }

    /// A method with positional and keyword arguments, passed without making a tuple or dict.
    pub const fn fast<F, R>(name: &'static CStr, f: F, doc: &'static CStr) -> Self
    where
        F: for<'py> Fn(Attached<'py>, Instance<'py, T>, Args<'py>) -> PyResult<R> + Copy + 'static,
        R: Return,
    {
        forget(f);
        let function = ffi::PyMethodDefPointer { PyCFunctionFastWithKeywords: fast::<T, F, R> };
        Self::entry(name, function, ffi::METH_FASTCALL | ffi::METH_KEYWORDS, doc)
    }

    /// A class method: its receiver is the class, perhaps a subclass.
    pub const fn class<F, R>(name: &'static CStr, f: F, doc: &'static CStr) -> Self
    where
        F: for<'py> Fn(Attached<'py>, Borrowed<'py>, Args<'py>) -> PyResult<R> + Copy + 'static,
        R: Return,
    {
        forget(f);
        let function = ffi::PyMethodDefPointer { PyCFunctionFastWithKeywords: object_fast::<F, R> };
        Self::entry(name, function, ffi::METH_CLASS | ffi::METH_FASTCALL | ffi::METH_KEYWORDS, doc)
    }
}

unsafe extern "C" fn noargs<T, F, R>(this: *mut ffi::PyObject, _: *mut ffi::PyObject) -> *mut ffi::PyObject
where
    T: Class,
    F: for<'py> Fn(Attached<'py>, Instance<'py, T>) -> PyResult<R> + Copy + 'static,
    R: Return,
{
    // SAFETY: called attached through a method descriptor, which has checked that `this` is an instance of `T`'s type.
    unsafe { guard(|py| Ok(conjure::<F>()(py, Instance::from_raw(this))?.into_object(py)?.into_ptr())) }
}

unsafe extern "C" fn one<T, F, R>(this: *mut ffi::PyObject, arg: *mut ffi::PyObject) -> *mut ffi::PyObject
where
    T: Class,
    F: for<'py> Fn(Attached<'py>, Instance<'py, T>, Borrowed<'py>) -> PyResult<R> + Copy + 'static,
    R: Return,
{
    // SAFETY: as above; the argument is alive during the call.
    unsafe {
        guard(|py| {
            let arg = Borrowed::from_ptr_unchecked(py, arg);
            Ok(conjure::<F>()(py, Instance::from_raw(this), arg)?.into_object(py)?.into_ptr())
        })
    }
}

unsafe extern "C" fn fast<T, F, R>(
    this: *mut ffi::PyObject,
    args: *const *mut ffi::PyObject,
    nargs: isize,
    names: *mut ffi::PyObject,
) -> *mut ffi::PyObject
where
    T: Class,
    F: for<'py> Fn(Attached<'py>, Instance<'py, T>, Args<'py>) -> PyResult<R> + Copy + 'static,
    R: Return,
{
    // SAFETY: as above; the arguments are as METH_FASTCALL|METH_KEYWORDS lays them out, and alive during the call.
    unsafe {
        guard(|py| {
            let args = Args::vectorcall(args, nargs as usize, names);
            Ok(conjure::<F>()(py, Instance::from_raw(this), args)?.into_object(py)?.into_ptr())
        })
    }
}

unsafe extern "C" fn object_fast<F, R>(
    this: *mut ffi::PyObject,
    args: *const *mut ffi::PyObject,
    nargs: isize,
    names: *mut ffi::PyObject,
) -> *mut ffi::PyObject
where
    F: for<'py> Fn(Attached<'py>, Borrowed<'py>, Args<'py>) -> PyResult<R> + Copy + 'static,
    R: Return,
{
    // SAFETY: called attached; receiver and arguments are alive during the call.
    unsafe {
        guard(|py| {
            let args = Args::vectorcall(args, nargs as usize, names);
            let this = Borrowed::from_ptr_unchecked(py, this);
            Ok(conjure::<F>()(py, this, args)?.into_object(py)?.into_ptr())
        })
    }
}

/// A function of the module whose state is `S`.
#[repr(transparent)]
pub struct Function<S>(ffi::PyMethodDef, PhantomData<fn(&S)>);

impl<S: crate::Module> Function<S> {
    /// The end of the table.
    pub const END: Self = Self(ffi::PyMethodDef::zeroed(), PhantomData);

    pub(crate) const fn is_terminated(table: &[Self]) -> bool {
        match table {
            [.., last] => last.0.ml_name.is_null(),
            [] => false,
        }
    }

    /// A function with positional and keyword arguments, and the state of its module.
    pub const fn fast<F, R>(name: &'static CStr, f: F, doc: &'static CStr) -> Self
    where
        F: for<'py> Fn(Attached<'py>, &'py S, Args<'py>) -> PyResult<R> + Copy + 'static,
        R: Return,
    {
        forget(f);
        let def = ffi::PyMethodDef {
            ml_name: name.as_ptr(),
            ml_meth: ffi::PyMethodDefPointer { PyCFunctionFastWithKeywords: module_fast::<S, F, R> },
            ml_flags: ffi::METH_FASTCALL | ffi::METH_KEYWORDS,
            ml_doc: doc.as_ptr(),
        };
        Self(def, PhantomData)
    }
}

unsafe extern "C" fn module_fast<S, F, R>(
    module: *mut ffi::PyObject,
    args: *const *mut ffi::PyObject,
    nargs: isize,
    names: *mut ffi::PyObject,
) -> *mut ffi::PyObject
where
    S: crate::Module,
    F: for<'py> Fn(Attached<'py>, &'py S, Args<'py>) -> PyResult<R> + Copy + 'static,
    R: Return,
{
    // SAFETY: called attached; the receiver of a module function is its module, made from the definition of `S`.
    unsafe {
        guard(|py| {
            let state = crate::module::state_of_module::<S>(py, module)?;
            let args = Args::vectorcall(args, nargs as usize, names);
            Ok(conjure::<F>()(py, state, args)?.into_object(py)?.into_ptr())
        })
    }
}

/// A property of the class of `T`.
#[repr(transparent)]
pub struct Property<T>(ffi::PyGetSetDef, PhantomData<fn(&T)>);

impl<T> Property<T> {
    /// The end of the table.
    pub const END: Self = Self(
        ffi::PyGetSetDef {
            name: core::ptr::null(),
            get: None,
            set: None,
            doc: core::ptr::null(),
            closure: core::ptr::null_mut(),
        },
        PhantomData,
    );

    pub(crate) const fn is_terminated(table: &[Self]) -> bool {
        match table {
            [.., last] => last.0.name.is_null(),
            [] => false,
        }
    }
}

impl<T: Class> Property<T> {
    /// `__dict__` itself as an attribute, for classes with [`Class::DICT`].
    pub const DICT: Self = Self(
        ffi::PyGetSetDef {
            name: c"__dict__".as_ptr(),
            get: Some(ffi::PyObject_GenericGetDict),
            set: Some(ffi::PyObject_GenericSetDict),
            doc: core::ptr::null(),
            closure: core::ptr::null_mut(),
        },
        PhantomData,
    );

    /// A property to read.
    pub const fn read<F, R>(name: &'static CStr, f: F, doc: &'static CStr) -> Self
    where
        F: for<'py> Fn(Attached<'py>, Instance<'py, T>) -> PyResult<R> + Copy + 'static,
        R: Return,
    {
        forget(f);
        let def = ffi::PyGetSetDef {
            name: name.as_ptr(),
            get: Some(get::<T, F, R>),
            set: None,
            doc: doc.as_ptr(),
            closure: core::ptr::null_mut(),
        };
        Self(def, PhantomData)
    }

    /// Lets this property be set too; `None` is passed for `del`.
    pub const fn write<F>(self, f: F) -> Self
    where
        F: for<'py> Fn(Attached<'py>, Instance<'py, T>, Option<Borrowed<'py>>) -> PyResult<()>
            + Copy
            + 'static,
    {
        forget(f);
        let def = ffi::PyGetSetDef {
            name: self.0.name,
            get: self.0.get,
            set: Some(set::<T, F>),
            doc: self.0.doc,
            closure: core::ptr::null_mut(),
        };
        Self(def, PhantomData)
    }
}

unsafe extern "C" fn get<T, F, R>(this: *mut ffi::PyObject, _: *mut c_void) -> *mut ffi::PyObject
where
    T: Class,
    F: for<'py> Fn(Attached<'py>, Instance<'py, T>) -> PyResult<R> + Copy + 'static,
    R: Return,
{
    // SAFETY: called attached through a descriptor, which has checked that `this` is an instance of `T`'s type.
    unsafe { guard(|py| Ok(conjure::<F>()(py, Instance::from_raw(this))?.into_object(py)?.into_ptr())) }
}

unsafe extern "C" fn set<T, F>(this: *mut ffi::PyObject, value: *mut ffi::PyObject, _: *mut c_void) -> c_int
where
    T: Class,
    F: for<'py> Fn(Attached<'py>, Instance<'py, T>, Option<Borrowed<'py>>) -> PyResult<()> + Copy + 'static,
{
    // SAFETY: as above; NULL means deletion.
    unsafe {
        guard(|py| {
            conjure::<F>()(py, Instance::from_raw(this), Borrowed::from_ptr(py, value))?;
            Ok(0)
        })
    }
}
