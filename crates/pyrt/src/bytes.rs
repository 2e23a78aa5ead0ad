//! `bytes`: made from slices, or allocated first and filled by a read. Attached threads only.

use core::mem::MaybeUninit;

use crate::{AsObj, Attached, Fault, Obj, Owned, PyResult, Raised, ffi};

impl Owned {
    /// A `bytes` with a copy of a slice.
    #[inline]
    pub fn bytes(py: Attached<'_>, data: &[u8]) -> PyResult<Self> {
        // SAFETY: attached; pointer and length of a live slice, which never exceeds `isize::MAX`.
        unsafe {
            Self::from_ptr(py, ffi::PyBytes_FromStringAndSize(data.as_ptr().cast(), data.len() as isize))
        }
    }

    /// A `memoryview` of an object that has a buffer.
    pub fn memoryview(py: Attached<'_>, object: &impl AsObj) -> PyResult<Self> {
        // SAFETY: attached, alive; a new reference or NULL with an exception.
        unsafe { Self::from_ptr(py, ffi::PyMemoryView_FromObject(object.as_obj().as_ptr())) }
    }
}

impl Obj {
    /// Whether it is a `bytes`.
    #[inline]
    pub fn is_bytes(&self) -> bool {
        // SAFETY: alive; a test of type flags.
        unsafe { ffi::PyBytes_Check(self.as_ptr()) != 0 }
    }

    /// Whether it is a `bytes` and nothing more, so that dropping it runs no Python code.
    #[inline]
    pub fn is_exact_bytes(&self) -> bool {
        // SAFETY: alive; looks at its type only.
        unsafe { ffi::PyBytes_CheckExact(self.as_ptr()) != 0 }
    }

    /// Whether it is a `bytearray`.
    #[inline]
    pub fn is_bytearray(&self) -> bool {
        // SAFETY: alive; looks at its type only.
        unsafe { ffi::PyByteArray_Check(self.as_ptr()) != 0 }
    }

    /// Whether it is a `memoryview`.
    #[inline]
    pub fn is_memoryview(&self) -> bool {
        // SAFETY: alive; looks at its type only.
        unsafe { ffi::PyMemoryView_Check(self.as_ptr()) != 0 }
    }

    /// The content of a `bytes`, which lives as long as the object. For anything else use [`Buffer`](crate::Buffer).
    #[inline]
    pub fn to_bytes(&self, py: Attached<'_>) -> PyResult<&[u8]> {
        if !self.is_bytes() {
            return Err(self.wrong_type(py, "bytes"));
        }
        // SAFETY: a bytes object; its content never changes or moves while it lives.
        unsafe {
            let data = ffi::PyBytes_AsString(self.as_ptr()).cast::<u8>();
            Ok(core::slice::from_raw_parts(data, ffi::PyBytes_Size(self.as_ptr()) as usize))
        }
    }
}

/// A `bytes` under construction: room first, content second. Nobody else has seen the object yet.
///
/// The room is plain memory, so a read into it may run detached; only allocating and finishing need the token.
pub struct Room {
    object: Owned,
    size: usize,
}

impl Room {
    /// Room for `size` bytes, not initialised.
    pub fn new(py: Attached<'_>, size: usize) -> PyResult<Self> {
        let Ok(wanted) = isize::try_from(size) else { return Err(Fault::Memory.raise(py)) };
        // SAFETY: attached; NULL for the content leaves it uninitialised.
        let object =
            unsafe { Owned::from_ptr(py, ffi::PyBytes_FromStringAndSize(core::ptr::null(), wanted))? };
        Ok(Self { object, size })
    }

    /// The room. Nothing in it may be taken for initialised.
    #[inline]
    pub fn space(&mut self) -> &mut [MaybeUninit<u8>] {
        if self.size == 0 {
            // The empty bytes is one shared object, and not ours to write to.
            return &mut [];
        }
        // SAFETY: the object was made here with this size, and `&mut self` makes this the only reference to its content.
        unsafe {
            let data = ffi::PyBytes_AsString(self.object.as_ptr()).cast::<MaybeUninit<u8>>();
            core::slice::from_raw_parts_mut(data, self.size)
        }
    }

    /// The finished `bytes`, cut to its first `filled` bytes.
    ///
    /// # Safety
    /// At least the first `filled` bytes were written.
    pub unsafe fn finish(self, py: Attached<'_>, filled: usize) -> PyResult<Owned> {
        if filled >= self.size {
            return Ok(self.object);
        }
        let mut pointer = self.object.into_ptr();
        // SAFETY: attached; the only reference to a bytes object. On failure the pointer is NULL, the object freed.
        unsafe {
            if ffi::_PyBytes_Resize(&mut pointer, filled as isize) < 0 {
                return Err(Raised::set(py));
            }
            Owned::from_ptr(py, pointer)
        }
    }
}
