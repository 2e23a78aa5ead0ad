//! The raw CPython API: `pyo3-ffi`'s declarations, and the few it lacks or keeps private.
//!
//! Everything here needs an attached thread unless a caller says otherwise.

#[cfg(Py_3_14)]
use core::ffi::c_void;
use core::ffi::{c_char, c_int};

pub(crate) use pyo3_ffi::compat::{PyDict_GetItemRef, PyObject_GetOptionalAttr, PyWeakref_GetRef};
pub(crate) use pyo3_ffi::*;

/// `PY_VECTORCALL_ARGUMENTS_OFFSET` (PEP 590): the slot before the first argument may be overwritten by the callee.
pub(crate) const ARGUMENTS_OFFSET: usize = 1 << (usize::BITS - 1);

unsafe extern "C" {
    /// Resizes an unshared `bytes` in place; on failure `*bytes` is NULL and the old object is gone.
    pub(crate) fn _PyBytes_Resize(bytes: *mut *mut PyObject, size: Py_ssize_t) -> c_int;

    /// Raises an auditing event (PEP 578); the format is that of `Py_BuildValue`.
    pub(crate) fn PySys_Audit(event: *const c_char, format: *const c_char, ...) -> c_int;

    /// Issues a `ResourceWarning` about `source`; the format is that of `PyUnicode_FromFormat`.
    pub(crate) fn PyErr_ResourceWarning(
        source: *mut PyObject,
        level: Py_ssize_t,
        format: *const c_char,
        ...
    ) -> c_int;

    /// `Py_IsFinalizing` under its name before 3.13. Callable from any thread.
    #[cfg(not(Py_3_13))]
    #[link_name = "_Py_IsFinalizing"]
    pub(crate) fn Py_IsFinalizing() -> c_int;

    /// `Py_AddPendingCall` for any thread of an interpreter. Private, but exported; the public one is for the main thread only.
    #[cfg(Py_3_14)]
    pub(crate) fn _PyEval_AddPendingCall(
        interpreter: *mut PyInterpreterState,
        function: unsafe extern "C" fn(*mut c_void) -> c_int,
        argument: *mut c_void,
        flags: c_int,
    ) -> c_int;
}
