//! `TypeSlot`: the special methods of a class, as entries of a constant table. The runtime calls these attached.

use core::ffi::{c_int, c_void};
use core::marker::PhantomData;

use crate::method::{Args, forget};
use crate::runtime::Step;
use crate::{Attached, Borrowed, Class, Instance, Owned, PyResult, Return, ffi};

#[path = "slot_calls.rs"]
mod call;

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
    pub(crate) fn from_raw(op: c_int) -> Self {
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
            Self::entry(ffi::$id, call::unary::<T, F, R> as *mut c_void)
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
        let mut slot = Self::entry(ffi::Py_tp_new, call::new::<T, F> as *mut c_void);
        slot.vectorcall = Some(call::new_vectorcall::<T, F>);
        slot
    }

    /// `__init__`.
    pub const fn init<F>(f: F) -> Self
    where
        F: for<'py> Fn(Attached<'py>, Instance<'py, T>, Args<'py>) -> PyResult<()> + Copy + 'static,
    {
        forget(f);
        Self::entry(ffi::Py_tp_init, call::init::<T, F> as *mut c_void)
    }

    /// `__del__`: runs once, before the instance goes, and may bring it back. Errors are reported as unraisable.
    pub const fn finalize<F>(f: F) -> Self
    where
        F: for<'py> Fn(Attached<'py>, Instance<'py, T>) -> PyResult<()> + Copy + 'static,
    {
        forget(f);
        Self::entry(ffi::Py_tp_finalize, call::finalize::<T, F> as *mut c_void)
    }

    /// `__next__`: `None` ends the iteration.
    pub const fn iternext<F>(f: F) -> Self
    where
        F: for<'py> Fn(Attached<'py>, Instance<'py, T>) -> PyResult<Option<Owned>> + Copy + 'static,
    {
        forget(f);
        Self::entry(ffi::Py_tp_iternext, call::iternext::<T, F> as *mut c_void)
    }

    /// `send` as the runtime does it in `await` and `yield from`: no exception is made for a returned value.
    pub const fn am_send<F>(f: F) -> Self
    where
        F: for<'py> Fn(Attached<'py>, Instance<'py, T>, Borrowed<'py>) -> PyResult<Step> + Copy + 'static,
    {
        forget(f);
        Self::entry(ffi::Py_am_send, call::am_send::<T, F> as *mut c_void)
    }

    /// `__setattr__`, and `__delattr__` where there is no value. [`Obj::setattr_plain`](crate::Obj::setattr_plain) is what
    /// classes without it do.
    pub const fn setattr<F>(f: F) -> Self
    where
        F: for<'py> Fn(Attached<'py>, Instance<'py, T>, Borrowed<'py>, Option<Borrowed<'py>>) -> PyResult<()>
            + Copy
            + 'static,
    {
        forget(f);
        Self::entry(ffi::Py_tp_setattro, call::setattr::<T, F> as *mut c_void)
    }

    /// `__hash__`.
    pub const fn hash<F>(f: F) -> Self
    where
        F: for<'py> Fn(Attached<'py>, Instance<'py, T>) -> PyResult<isize> + Copy + 'static,
    {
        forget(f);
        Self::entry(ffi::Py_tp_hash, call::hash::<T, F> as *mut c_void)
    }

    /// `__len__`.
    pub const fn len<F>(f: F) -> Self
    where
        F: for<'py> Fn(Attached<'py>, Instance<'py, T>) -> PyResult<usize> + Copy + 'static,
    {
        forget(f);
        Self::entry(ffi::Py_sq_length, call::len::<T, F> as *mut c_void)
    }

    /// `__bool__`.
    pub const fn bool<F>(f: F) -> Self
    where
        F: for<'py> Fn(Attached<'py>, Instance<'py, T>) -> PyResult<bool> + Copy + 'static,
    {
        forget(f);
        Self::entry(ffi::Py_nb_bool, call::bool::<T, F> as *mut c_void)
    }

    /// `<`, `==` and the rest; answer [`Owned::not_implemented`] for what it does not know.
    pub const fn compare<F>(f: F) -> Self
    where
        F: for<'py> Fn(Attached<'py>, Instance<'py, T>, Borrowed<'py>, Compare) -> PyResult<Owned>
            + Copy
            + 'static,
    {
        forget(f);
        Self::entry(ffi::Py_tp_richcompare, call::compare::<T, F> as *mut c_void)
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
        Self::entry(ffi::Py_bf_getbuffer, call::buffer::<T, F> as *mut c_void)
    }

    /// The buffer protocol, for reading and writing: where the memory is, and how much of it is shown now.
    ///
    /// # Safety
    /// The memory `f` names stays in place until the instance is destroyed, and no Rust reference to it is alive while Python
    /// code may write to it.
    pub const unsafe fn buffer_mut<F>(f: F) -> Self
    where
        F: for<'py> Fn(Attached<'py>, Instance<'py, T>) -> PyResult<(*mut u8, usize)> + Copy + 'static,
    {
        forget(f);
        Self::entry(ffi::Py_bf_getbuffer, call::buffer_mut::<T, F> as *mut c_void)
    }
}
