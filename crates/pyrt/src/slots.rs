//! `TypeSlot`: the special methods of a class, as entries of a constant table. The runtime calls these attached.

use core::ffi::{c_int, c_void};
use core::marker::PhantomData;

use crate::layout::payload;
use crate::method::{Args, conjure, forget};
use crate::runtime::Step;
use crate::{Attached, Borrowed, Class, Instance, Owned, PyResult, Return, ffi, guard};

/// A special method of the class of `T`.
pub struct TypeSlot<T> {
    pub(crate) id: c_int,
    pub(crate) function: *mut c_void,
    /// For `__new__`: the same by vectorcall.
    pub(crate) vectorcall: Option<ffi::vectorcallfunc>,
    class: PhantomData<fn(&T)>,
}

/// The operator of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compare {
    /// `<`
    Lt,
    /// `<=`
    Le,
    /// `==`
    Eq,
    /// `!=`
    Ne,
    /// `>`
    Gt,
    /// `>=`
    Ge,
}

impl Compare {
    fn from_raw(op: c_int) -> Self {
        match op {
            ffi::Py_LT => Self::Lt,
            ffi::Py_LE => Self::Le,
            ffi::Py_EQ => Self::Eq,
            ffi::Py_NE => Self::Ne,
            ffi::Py_GT => Self::Gt,
            _ => Self::Ge,
        }
    }

    /// Whether an ordering satisfies the operator.
    pub fn holds(self, ordering: core::cmp::Ordering) -> bool {
        match self {
            Self::Lt => ordering.is_lt(),
            Self::Le => ordering.is_le(),
            Self::Eq => ordering.is_eq(),
            Self::Ne => ordering.is_ne(),
            Self::Gt => ordering.is_gt(),
            Self::Ge => ordering.is_ge(),
        }
    }
}

/// Slots that take nothing but the instance and return an object.
macro_rules! unary {
    ($($(#[$doc:meta])* $name:ident = $id:ident),* $(,)?) => {$(
        $(#[$doc])*
        pub const fn $name<F, R>(f: F) -> Self
        where
            F: for<'py> Fn(Attached<'py>, Instance<'py, T>) -> PyResult<R> + Copy + 'static,
            R: Return,
        {
            forget(f);
            Self::entry(ffi::$id, unary::<T, F, R> as *mut c_void)
        }
    )*};
}

impl<T: Class> TypeSlot<T> {
    const fn entry(id: c_int, function: *mut c_void) -> Self {
        Self { id, function, vectorcall: None, class: PhantomData }
    }

    unary! {
        /// `__repr__`.
        repr = Py_tp_repr,
        /// `__str__`.
        str = Py_tp_str,
        /// `__iter__`.
        iter = Py_tp_iter,
        /// `__await__`.
        am_await = Py_am_await,
        /// `__aiter__`.
        am_aiter = Py_am_aiter,
        /// `__anext__`.
        am_anext = Py_am_anext,
    }

    /// `__new__`: computes the payload; the object around it is made afterwards. Its first object is the class, perhaps a
    /// subclass. Calls of the class itself pass no tuple or dict.
    pub const fn new<F>(f: F) -> Self
    where
        F: for<'py> Fn(Attached<'py>, Borrowed<'py>, Args<'py>) -> PyResult<T> + Copy + 'static,
    {
        forget(f);
        let mut slot = Self::entry(ffi::Py_tp_new, new::<T, F> as *mut c_void);
        slot.vectorcall = Some(new_vectorcall::<T, F>);
        slot
    }

    /// `__init__`.
    pub const fn init<F>(f: F) -> Self
    where
        F: for<'py> Fn(Attached<'py>, Instance<'py, T>, Args<'py>) -> PyResult<()> + Copy + 'static,
    {
        forget(f);
        Self::entry(ffi::Py_tp_init, init::<T, F> as *mut c_void)
    }

    /// `__del__`: runs once, before the instance goes, and may bring it back. Errors are reported as unraisable.
    pub const fn finalize<F>(f: F) -> Self
    where
        F: for<'py> Fn(Attached<'py>, Instance<'py, T>) -> PyResult<()> + Copy + 'static,
    {
        forget(f);
        Self::entry(ffi::Py_tp_finalize, finalize::<T, F> as *mut c_void)
    }

    /// `__next__`: `None` ends the iteration.
    pub const fn iternext<F>(f: F) -> Self
    where
        F: for<'py> Fn(Attached<'py>, Instance<'py, T>) -> PyResult<Option<Owned>> + Copy + 'static,
    {
        forget(f);
        Self::entry(ffi::Py_tp_iternext, iternext::<T, F> as *mut c_void)
    }

    /// `send` as the runtime does it in `await` and `yield from`: no exception is made for a returned value.
    pub const fn am_send<F>(f: F) -> Self
    where
        F: for<'py> Fn(Attached<'py>, Instance<'py, T>, Borrowed<'py>) -> PyResult<Step> + Copy + 'static,
    {
        forget(f);
        Self::entry(ffi::Py_am_send, am_send::<T, F> as *mut c_void)
    }

    /// `__hash__`.
    pub const fn hash<F>(f: F) -> Self
    where
        F: for<'py> Fn(Attached<'py>, Instance<'py, T>) -> PyResult<isize> + Copy + 'static,
    {
        forget(f);
        Self::entry(ffi::Py_tp_hash, hash::<T, F> as *mut c_void)
    }

    /// `__len__`.
    pub const fn len<F>(f: F) -> Self
    where
        F: for<'py> Fn(Attached<'py>, Instance<'py, T>) -> PyResult<usize> + Copy + 'static,
    {
        forget(f);
        Self::entry(ffi::Py_sq_length, len::<T, F> as *mut c_void)
    }

    /// `__bool__`.
    pub const fn bool<F>(f: F) -> Self
    where
        F: for<'py> Fn(Attached<'py>, Instance<'py, T>) -> PyResult<bool> + Copy + 'static,
    {
        forget(f);
        Self::entry(ffi::Py_nb_bool, bool::<T, F> as *mut c_void)
    }

    /// `<`, `==` and the rest; answer [`Owned::not_implemented`] for what it does not know.
    pub const fn compare<F>(f: F) -> Self
    where
        F: for<'py> Fn(Attached<'py>, Instance<'py, T>, Borrowed<'py>, Compare) -> PyResult<Owned>
            + Copy
            + 'static,
    {
        forget(f);
        Self::entry(ffi::Py_tp_richcompare, compare::<T, F> as *mut c_void)
    }

    /// The buffer protocol, for reading.
    ///
    /// # Safety
    /// The slice `f` returns stays in place and unchanged until the instance is destroyed, not just during the call.
    pub const unsafe fn buffer<F>(f: F) -> Self
    where
        F: for<'py> Fn(Attached<'py>, Instance<'py, T>) -> PyResult<&'py [u8]> + Copy + 'static,
    {
        forget(f);
        Self::entry(ffi::Py_bf_getbuffer, buffer::<T, F> as *mut c_void)
    }
}

unsafe extern "C" fn unary<T, F, R>(this: *mut ffi::PyObject) -> *mut ffi::PyObject
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

unsafe extern "C" fn new<T, F>(
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

unsafe extern "C" fn new_vectorcall<T, F>(
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

unsafe extern "C" fn init<T, F>(
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

unsafe extern "C" fn finalize<T, F>(this: *mut ffi::PyObject)
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

unsafe extern "C" fn iternext<T, F>(this: *mut ffi::PyObject) -> *mut ffi::PyObject
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

unsafe extern "C" fn am_send<T, F>(
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

unsafe extern "C" fn hash<T, F>(this: *mut ffi::PyObject) -> ffi::Py_hash_t
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

unsafe extern "C" fn len<T, F>(this: *mut ffi::PyObject) -> isize
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

unsafe extern "C" fn bool<T, F>(this: *mut ffi::PyObject) -> c_int
where
    T: Class,
    F: for<'py> Fn(Attached<'py>, Instance<'py, T>) -> PyResult<bool> + Copy + 'static,
{
    // SAFETY: called attached through a slot of `T`'s type.
    unsafe { guard(|py| Ok(c_int::from(conjure::<F>()(py, Instance::from_raw(this))?))) }
}

unsafe extern "C" fn compare<T, F>(
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

unsafe extern "C" fn buffer<T, F>(this: *mut ffi::PyObject, view: *mut ffi::Py_buffer, flags: c_int) -> c_int
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
