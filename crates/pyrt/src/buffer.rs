//! `Buffer`: the memory of an object that supports the buffer protocol, held for as long as this lives.
//!
//! Getting and releasing need an attached thread; the memory itself may be read detached, since the exporter is kept from
//! moving it.

use core::fmt;
use core::mem::MaybeUninit;

use crate::{AsObj, Attached, Confined, PyResult, Raised, ffi};

/// A C-contiguous buffer of an object.
///
/// The view may move: only simple buffers are asked for, whose description has no pointers into itself. Whether the bytes change under a reader is up to the program, as
/// in Python itself: a `bytearray` written to by another thread while detached is a race of that program.
pub struct Buffer {
    view: ffi::Py_buffer,
}

impl Buffer {
    /// The content of anything bytes-like, for reading.
    #[inline]
    pub fn read(py: Attached<'_>, object: &impl AsObj) -> PyResult<Self> {
        Self::get(py, object, ffi::PyBUF_SIMPLE)
    }

    /// The content of a writable exporter such as a `bytearray`; a `BufferError` for anything read-only.
    #[inline]
    pub fn write(py: Attached<'_>, object: &impl AsObj) -> PyResult<Self> {
        Self::get(py, object, ffi::PyBUF_WRITABLE)
    }

    fn get(py: Attached<'_>, object: &impl AsObj, flags: core::ffi::c_int) -> PyResult<Self> {
        let mut view = MaybeUninit::<ffi::Py_buffer>::zeroed();
        // SAFETY: attached, alive; the exporter fills the view on success.
        Raised::check(py, unsafe {
            ffi::PyObject_GetBuffer(object.as_obj().as_ptr(), view.as_mut_ptr(), flags)
        })?;
        // SAFETY: filled, as the call succeeded.
        Ok(Self { view: unsafe { view.assume_init() } })
    }

    /// Number of bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.view.len as usize
    }

    /// Whether there is nothing in it.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.view.len == 0
    }

    /// Whether writing is refused.
    #[inline]
    pub fn is_readonly(&self) -> bool {
        self.view.readonly != 0
    }

    /// The bytes.
    #[inline]
    pub fn as_slice(&self) -> &[u8] {
        if self.view.buf.is_null() || self.view.len <= 0 {
            return &[];
        }
        // SAFETY: a simple buffer is contiguous, `len` bytes long, and stays put while the view is held.
        unsafe { core::slice::from_raw_parts(self.view.buf.cast::<u8>(), self.view.len as usize) }
    }

    /// The bytes, to write to; empty for a read-only buffer.
    #[inline]
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        if self.view.buf.is_null() || self.view.len <= 0 || self.view.readonly != 0 {
            return &mut [];
        }
        // SAFETY: as above, and the exporter allows writing.
        unsafe { core::slice::from_raw_parts_mut(self.view.buf.cast::<u8>(), self.view.len as usize) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: the view was filled by the exporter and is released once. Like `Owned`, a `Buffer` cannot leave attached
        // threads: it holds raw pointers, so it is not `Send`.
        unsafe { ffi::PyBuffer_Release(&mut self.view) }
    }
}

// SAFETY: holds a reference to the exporter and plain memory; dropped attached wherever it is confined.
unsafe impl Confined for Buffer {}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Buffer").field("len", &self.len()).finish()
    }
}
