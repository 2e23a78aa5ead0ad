//! `str`: between Rust and Python. Attached threads only.

use core::ffi::CStr;
use std::borrow::Cow;

use crate::{Attached, Kind, Obj, Owned, PyResult, Raised, ffi};

impl Owned {
    /// A `str`.
    #[inline]
    pub fn str(py: Attached<'_>, text: &str) -> PyResult<Self> {
        // SAFETY: attached; pointer and length of a live UTF-8 string. A Rust allocation never exceeds `isize::MAX`.
        unsafe {
            Self::from_ptr(py, ffi::PyUnicode_FromStringAndSize(text.as_ptr().cast(), text.len() as isize))
        }
    }

    /// An interned `str`: one object per interpreter and text, so that names compare by identity.
    pub fn interned(py: Attached<'_>, text: &CStr) -> PyResult<Self> {
        // SAFETY: attached; NUL-terminated. The runtime refuses what is not UTF-8.
        unsafe { Self::from_ptr(py, ffi::PyUnicode_InternFromString(text.as_ptr())) }
    }

    /// A `str` from bytes in the encoding of the file system, with surrogates for what does not decode.
    pub fn fs_str(py: Attached<'_>, bytes: &[u8]) -> PyResult<Self> {
        let size = bytes.len() as isize;
        // SAFETY: attached; pointer and length of a live slice.
        unsafe { Self::from_ptr(py, ffi::PyUnicode_DecodeFSDefaultAndSize(bytes.as_ptr().cast(), size)) }
    }
}

impl Obj {
    /// Whether it is a `str`.
    #[inline]
    pub fn is_str(&self) -> bool {
        // SAFETY: alive; a test of type flags.
        unsafe { ffi::PyUnicode_Check(self.as_ptr()) != 0 }
    }

    /// Its text, which lives as long as the object. A lone surrogate is a `UnicodeEncodeError`.
    #[inline]
    pub fn to_str(&self, py: Attached<'_>) -> PyResult<&str> {
        if !self.is_str() {
            return Err(self.wrong_type(py, "str"));
        }
        let mut size = 0;
        // SAFETY: attached, a str; the result is NULL with an exception or a buffer cached in the object.
        let data = unsafe { ffi::PyUnicode_AsUTF8AndSize(self.as_ptr(), &mut size) };
        if data.is_null() {
            return Err(Raised::set(py));
        }
        // SAFETY: the runtime gives valid UTF-8 of that length, unchanged while the object lives.
        Ok(unsafe { core::str::from_utf8_unchecked(core::slice::from_raw_parts(data.cast(), size as usize)) })
    }

    /// Its text with `?` in place of lone surrogates: always works for a `str`.
    pub fn to_string_lossy(&self, py: Attached<'_>) -> PyResult<String> {
        match self.to_str(py) {
            Ok(text) => return Ok(text.to_owned()),
            Err(raised) if self.is_str() => raised.clear(py),
            Err(raised) => return Err(raised),
        }
        // SAFETY: attached, a str; NUL-terminated names. A new reference or NULL with an exception.
        let bytes = unsafe {
            let encoded =
                ffi::PyUnicode_AsEncodedString(self.as_ptr(), c"utf-8".as_ptr(), c"replace".as_ptr());
            Owned::from_ptr(py, encoded)?
        };
        Ok(match String::from_utf8_lossy(bytes.to_bytes(py)?) {
            Cow::Borrowed(text) => text.to_owned(),
            Cow::Owned(text) => text,
        })
    }

    /// Whether this `str` has exactly the text of an interned name; identity is tried first.
    #[inline]
    pub(crate) fn is_text(&self, py: Attached<'_>, text: &str) -> bool {
        match self.to_str(py) {
            Ok(own) => own == text,
            Err(raised) => {
                raised.clear(py);
                false
            }
        }
    }

    /// A `TypeError` that says what was expected.
    #[cold]
    pub fn wrong_type(&self, py: Attached<'_>, wanted: &str) -> Raised {
        Kind::TypeError.raise(py, &format!("expected {wanted}, got {}", self.class_name(py)))
    }
}
