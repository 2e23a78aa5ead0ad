//! Integers, floats and file descriptors: between Rust and Python. Attached threads only.

use core::ffi::c_int;

use crate::{Attached, Fault, Kind, Obj, Owned, PyResult, Raised, ffi};

impl Owned {
    /// An `int`.
    #[inline]
    pub fn int(py: Attached<'_>, value: i64) -> PyResult<Self> {
        // SAFETY: attached; a new reference or NULL with an exception.
        unsafe { Self::from_ptr(py, ffi::PyLong_FromLongLong(value)) }
    }

    /// An `int` from an unsigned value.
    #[inline]
    pub fn uint(py: Attached<'_>, value: u64) -> PyResult<Self> {
        // SAFETY: attached; a new reference or NULL with an exception.
        unsafe { Self::from_ptr(py, ffi::PyLong_FromUnsignedLongLong(value)) }
    }

    /// A `float`.
    #[inline]
    pub fn float(py: Attached<'_>, value: f64) -> PyResult<Self> {
        // SAFETY: attached; a new reference or NULL with an exception.
        unsafe { Self::from_ptr(py, ffi::PyFloat_FromDouble(value)) }
    }
}

impl Obj {
    /// Whether it is an `int` (a `bool` is one).
    #[inline]
    pub fn is_int(&self) -> bool {
        // SAFETY: alive; a test of type flags.
        unsafe { ffi::PyLong_Check(self.as_ptr()) != 0 }
    }

    /// Whether it is a `float`.
    #[inline]
    pub fn is_float(&self) -> bool {
        // SAFETY: alive; a test of its type.
        unsafe { ffi::PyFloat_Check(self.as_ptr()) != 0 }
    }

    /// The value of an `int`, or of anything with `__index__`.
    #[inline]
    pub fn to_i64(&self, py: Attached<'_>) -> PyResult<i64> {
        // SAFETY: attached, alive.
        let value = unsafe { ffi::PyLong_AsLongLong(self.as_ptr()) };
        if value == -1 {
            Raised::check_occurred(py)?;
        }
        Ok(value)
    }

    /// [`to_i64`](Self::to_i64) within the bounds of `i32`.
    #[inline]
    pub fn to_i32(&self, py: Attached<'_>) -> PyResult<i32> {
        let value = self.to_i64(py)?;
        i32::try_from(value).map_err(|_| {
            let side = if value < 0 { "less than minimum" } else { "greater than maximum" };
            Kind::OverflowError.raise(py, &format!("signed integer is {side}"))
        })
    }

    /// The value of a non-negative `int`, or of anything with `__index__`.
    pub fn to_u64(&self, py: Attached<'_>) -> PyResult<u64> {
        let index;
        let int = if self.is_int() {
            self
        } else {
            // SAFETY: attached, alive; a new reference or NULL with an exception.
            index = unsafe { Owned::from_ptr(py, ffi::PyNumber_Index(self.as_ptr()))? };
            &index
        };
        // SAFETY: attached, an int.
        let value = unsafe { ffi::PyLong_AsUnsignedLongLong(int.as_ptr()) };
        if value == u64::MAX {
            Raised::check_occurred(py)?;
        }
        Ok(value)
    }

    /// [`to_u64`](Self::to_u64) as a size.
    pub fn to_usize(&self, py: Attached<'_>) -> PyResult<usize> {
        let value = self.to_u64(py)?;
        usize::try_from(value).map_err(|error| Fault::from(error).raise(py))
    }

    /// The value of a `float`, an `int`, or anything with `__float__` or `__index__`.
    #[inline]
    pub fn to_f64(&self, py: Attached<'_>) -> PyResult<f64> {
        // SAFETY: attached, alive.
        let value = unsafe { ffi::PyFloat_AsDouble(self.as_ptr()) };
        if value == -1.0 {
            Raised::check_occurred(py)?;
        }
        Ok(value)
    }

    /// A file descriptor: an `int`, or an object with `fileno()`. Negative ones are a `ValueError`.
    pub fn to_fd(&self, py: Attached<'_>) -> PyResult<c_int> {
        // SAFETY: attached, alive.
        let fd = unsafe { ffi::PyObject_AsFileDescriptor(self.as_ptr()) };
        Raised::check(py, fd)?;
        Ok(fd)
    }
}
