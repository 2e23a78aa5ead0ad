//! Attributes, identity, truth, text and type checks of an object. Attached threads only.

use core::ffi::CStr;

use crate::{AsObj, Attached, Borrowed, Obj, Owned, PyResult, Raised, ffi};

impl Obj {
    /// `self.name`, best with an interned name.
    #[inline]
    pub fn getattr(&self, py: Attached<'_>, name: &impl AsObj) -> PyResult<Owned> {
        // SAFETY: attached, both alive; the result is a new reference or NULL with an exception.
        unsafe { Owned::from_ptr(py, ffi::PyObject_GetAttr(self.as_ptr(), name.as_obj().as_ptr())) }
    }

    /// `self.name`, or `None` in Rust when there is no such attribute.
    #[inline]
    pub fn getattr_opt(&self, py: Attached<'_>, name: &impl AsObj) -> PyResult<Option<Owned>> {
        let mut found = core::ptr::null_mut();
        // SAFETY: attached, both alive; `found` receives a new reference or NULL.
        let status =
            unsafe { ffi::PyObject_GetOptionalAttr(self.as_ptr(), name.as_obj().as_ptr(), &mut found) };
        Raised::check(py, status)?;
        // SAFETY: as above.
        Ok(unsafe { Owned::from_ptr_or_none(py, found) })
    }

    /// What a plain module has in its namespace by this name: `self.name`, for all names that a module's class does not have itself,
    /// which begin with two underscores. `None` for what is not there, and for any other object.
    #[inline]
    pub fn module_get(&self, py: Attached<'_>, name: &impl AsObj) -> PyResult<Option<Owned>> {
        // SAFETY: attached, alive; a module of the very class keeps its dict for as long as it lives.
        let names = unsafe {
            if ffi::PyModule_CheckExact(self.as_ptr()) == 0 {
                return Ok(None);
            }
            Borrowed::from_ptr(py, ffi::PyModule_GetDict(self.as_ptr()))
        };
        names.map_or(Ok(None), |names| names.dict_get(py, name))
    }

    /// `self.name` for a name known at compile time; for rare paths, as it makes the string anew.
    pub fn getattr_str(&self, py: Attached<'_>, name: &CStr) -> PyResult<Owned> {
        // SAFETY: attached, alive, NUL-terminated.
        unsafe { Owned::from_ptr(py, ffi::PyObject_GetAttrString(self.as_ptr(), name.as_ptr())) }
    }

    /// `self.name = value`.
    #[inline]
    pub fn setattr(&self, py: Attached<'_>, name: &impl AsObj, value: &impl AsObj) -> PyResult<()> {
        // SAFETY: attached, all alive.
        Raised::check(py, unsafe {
            ffi::PyObject_SetAttr(self.as_ptr(), name.as_obj().as_ptr(), value.as_obj().as_ptr())
        })
    }

    /// `object.__setattr__(self, name, value)`, or without a value `__delattr__`: past a `__setattr__` of its class.
    pub fn setattr_plain(
        &self,
        py: Attached<'_>,
        name: &impl AsObj,
        value: Option<Borrowed<'_>>,
    ) -> PyResult<()> {
        let value = value.map_or(core::ptr::null_mut(), |value| value.as_ptr());
        // SAFETY: attached, all alive; NULL deletes.
        Raised::check(py, unsafe {
            ffi::PyObject_GenericSetAttr(self.as_ptr(), name.as_obj().as_ptr(), value)
        })
    }

    /// `bool(self)`.
    #[inline]
    pub fn is_true(&self, py: Attached<'_>) -> PyResult<bool> {
        // SAFETY: attached, alive.
        let status = unsafe { ffi::PyObject_IsTrue(self.as_ptr()) };
        Raised::check(py, status)?;
        Ok(status != 0)
    }

    /// `self is other`.
    #[inline]
    pub fn is(&self, other: &Obj) -> bool {
        self.as_ptr() == other.as_ptr()
    }

    /// `self is None`.
    #[inline]
    pub fn is_none(&self) -> bool {
        // SAFETY: the address of a static of the runtime.
        self.as_ptr() == unsafe { ffi::Py_None() }
    }

    /// `self == other` as Python sees it.
    pub fn equals(&self, py: Attached<'_>, other: &impl AsObj) -> PyResult<bool> {
        // SAFETY: attached, both alive.
        let status =
            unsafe { ffi::PyObject_RichCompareBool(self.as_ptr(), other.as_obj().as_ptr(), ffi::Py_EQ) };
        Raised::check(py, status)?;
        Ok(status != 0)
    }

    /// `str(self)`.
    pub fn str(&self, py: Attached<'_>) -> PyResult<Owned> {
        // SAFETY: attached, alive; the result is a new reference or NULL with an exception.
        unsafe { Owned::from_ptr(py, ffi::PyObject_Str(self.as_ptr())) }
    }

    /// `repr(self)`.
    pub fn repr(&self, py: Attached<'_>) -> PyResult<Owned> {
        // SAFETY: attached, alive; the result is a new reference or NULL with an exception.
        unsafe { Owned::from_ptr(py, ffi::PyObject_Repr(self.as_ptr())) }
    }

    /// `type(self)`, kept alive by the object.
    #[inline]
    pub fn class<'a>(&'a self, py: Attached<'a>) -> Borrowed<'a> {
        // SAFETY: every object has a type and keeps it alive.
        unsafe { Borrowed::from_ptr_unchecked(py, ffi::Py_TYPE(self.as_ptr()).cast()) }
    }

    /// The name of its type, `int` or `Handle`, for messages.
    pub fn class_name(&self, py: Attached<'_>) -> String {
        // SAFETY: attached; a type object. The result is a new reference or NULL.
        let name = unsafe { Owned::from_ptr(py, ffi::PyType_GetName(ffi::Py_TYPE(self.as_ptr()))) };
        name.and_then(|name| name.to_string_lossy(py)).unwrap_or_else(|raised| {
            raised.clear(py);
            String::from("?")
        })
    }

    /// `isinstance(self, class)`.
    pub fn is_instance(&self, py: Attached<'_>, class: &impl AsObj) -> PyResult<bool> {
        // SAFETY: attached, both alive.
        let status = unsafe { ffi::PyObject_IsInstance(self.as_ptr(), class.as_obj().as_ptr()) };
        Raised::check(py, status)?;
        Ok(status != 0)
    }

    /// `callable(self)`.
    #[inline]
    pub fn is_callable(&self) -> bool {
        // SAFETY: alive; only looks at its type.
        unsafe { ffi::PyCallable_Check(self.as_ptr()) != 0 }
    }

    /// `iter(self)`.
    pub fn iter(&self, py: Attached<'_>) -> PyResult<Owned> {
        // SAFETY: attached, alive; the result is a new reference or NULL with an exception.
        unsafe { Owned::from_ptr(py, ffi::PyObject_GetIter(self.as_ptr())) }
    }

    /// `len(self)`.
    pub fn len(&self, py: Attached<'_>) -> PyResult<usize> {
        // SAFETY: attached, alive.
        let size = unsafe { ffi::PyObject_Size(self.as_ptr()) };
        usize::try_from(size).map_err(|_| Raised::set(py))
    }

    /// `self[key]`.
    pub fn get_item(&self, py: Attached<'_>, key: &impl AsObj) -> PyResult<Owned> {
        // SAFETY: attached, both alive; the result is a new reference or NULL with an exception.
        unsafe { Owned::from_ptr(py, ffi::PyObject_GetItem(self.as_ptr(), key.as_obj().as_ptr())) }
    }

    /// `self[key] = value`.
    pub fn set_item(&self, py: Attached<'_>, key: &impl AsObj, value: &impl AsObj) -> PyResult<()> {
        // SAFETY: attached, all alive.
        Raised::check(py, unsafe {
            ffi::PyObject_SetItem(self.as_ptr(), key.as_obj().as_ptr(), value.as_obj().as_ptr())
        })
    }

    /// The number of references, for tests and leak hunts only.
    pub fn refcount(&self, _py: Attached<'_>) -> isize {
        // SAFETY: attached, alive.
        unsafe { ffi::Py_REFCNT(self.as_ptr()) }
    }
}
