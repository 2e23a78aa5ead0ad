//! `Args`: the arguments of one call, as they came. Borrowed from the caller, attached threads only.

use core::marker::PhantomData;

use crate::{Attached, Borrowed, Obj, PyResult, ffi};

/// The arguments of a call, positional and named.
#[derive(Clone, Copy)]
pub struct Args<'py> {
    positional: *const *mut ffi::PyObject,
    count: usize,
    names: Names,
    scope: PhantomData<Borrowed<'py>>,
}

#[derive(Clone, Copy)]
enum Names {
    None,
    /// A tuple of names, whose values follow the positional arguments.
    Tuple(*mut ffi::PyObject),
    /// A dict.
    Dict(*mut ffi::PyObject),
}

impl<'py> Args<'py> {
    /// # Safety
    /// Arguments as PEP 590 lays them out, alive for `'py`; `names` is NULL or a tuple.
    #[inline(always)]
    pub(crate) unsafe fn vectorcall(
        args: *const *mut ffi::PyObject,
        count: usize,
        names: *mut ffi::PyObject,
    ) -> Self {
        let names = if names.is_null() { Names::None } else { Names::Tuple(names) };
        Self { positional: args, count, names, scope: PhantomData }
    }

    /// # Safety
    /// A tuple, and NULL or a dict, both alive for `'py`.
    #[inline(always)]
    pub(crate) unsafe fn tuple(args: *mut ffi::PyObject, kwargs: *mut ffi::PyObject) -> Self {
        // SAFETY: a tuple keeps its items in an array after its header.
        let (positional, count) = unsafe {
            let items = (&raw const (*args.cast::<ffi::PyTupleObject>()).ob_item).cast();
            (items, ffi::PyTuple_GET_SIZE(args) as usize)
        };
        let names = if kwargs.is_null() { Names::None } else { Names::Dict(kwargs) };
        Self { positional, count, names, scope: PhantomData }
    }

    /// The positional arguments.
    #[inline]
    pub fn positional(&self) -> &'py [Borrowed<'py>] {
        if self.count == 0 {
            return &[];
        }
        // SAFETY: that many live references, and `Borrowed` is a transparent pointer.
        unsafe { core::slice::from_raw_parts(self.positional.cast(), self.count) }
    }

    /// The number of named arguments.
    #[inline]
    pub fn named(&self) -> usize {
        // SAFETY: a live tuple or dict.
        unsafe {
            match self.names {
                Names::None => 0,
                Names::Tuple(names) => ffi::PyTuple_GET_SIZE(names) as usize,
                Names::Dict(dict) => ffi::PyDict_Size(dict) as usize,
            }
        }
    }

    /// The only named argument, if there is one and it has this name, a `str`: the same object, or the same text. (Those that
    /// asyncio's C code passes are not interned.)
    #[inline]
    pub fn only(&self, py: Attached<'_>, name: &Obj) -> Option<Borrowed<'py>> {
        let Names::Tuple(names) = self.names else { return None };
        // SAFETY: a live tuple; if it has one item, one value follows the positional ones, alive for `'py`.
        unsafe {
            if ffi::PyTuple_GET_SIZE(names) != 1 {
                return None;
            }
            let given = ffi::PyTuple_GET_ITEM(names, 0);
            if given != name.as_ptr() && !same_text(given, name.as_ptr()) {
                return None;
            }
            Some(Borrowed::from_ptr_unchecked(py, *self.positional.add(self.count)))
        }
    }

    /// Shows each named argument to `f`, in the order of the call. `f` must not run Python code.
    #[inline]
    pub fn each_named(
        &self,
        py: Attached<'_>,
        mut f: impl FnMut(Borrowed<'py>, Borrowed<'py>) -> PyResult<()>,
    ) -> PyResult<()> {
        match self.names {
            Names::None => Ok(()),
            Names::Tuple(names) => {
                for index in 0..self.named() {
                    // SAFETY: a tuple of that size, and as many values after the positional ones, all alive for `'py`.
                    let (name, value) = unsafe {
                        let name = ffi::PyTuple_GET_ITEM(names, index as isize);
                        let value = *self.positional.add(self.count + index);
                        (Borrowed::from_ptr_unchecked(py, name), Borrowed::from_ptr_unchecked(py, value))
                    };
                    f(name, value)?;
                }
                Ok(())
            }
            Names::Dict(dict) => {
                let mut position = 0;
                let (mut name, mut value) = (core::ptr::null_mut(), core::ptr::null_mut());
                // SAFETY: attached, a dict which does not change meanwhile; borrowed items that it keeps alive.
                while unsafe { ffi::PyDict_Next(dict, &mut position, &mut name, &mut value) } != 0 {
                    // SAFETY: not NULL when there was an item.
                    let (name, value) = unsafe {
                        (Borrowed::from_ptr_unchecked(py, name), Borrowed::from_ptr_unchecked(py, value))
                    };
                    f(name, value)?;
                }
                Ok(())
            }
        }
    }
}

/// # Safety
/// Attached; two live objects, the second a `str`.
unsafe fn same_text(given: *mut ffi::PyObject, name: *mut ffi::PyObject) -> bool {
    // SAFETY: by contract; two strings are compared without an exception, and without running Python code.
    unsafe { ffi::PyUnicode_Check(given) != 0 && ffi::PyUnicode_Compare(given, name) == 0 }
}
