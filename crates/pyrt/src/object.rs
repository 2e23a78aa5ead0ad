//! References: `Owned` (strong), `Borrowed` (someone else's), and `Obj`, what both deref to.
//!
//! All three are one pointer wide and stay on attached threads. What must travel is a [`Remote`](crate::Remote).

use core::fmt;
use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::ops::Deref;
use core::ptr::NonNull;

use crate::{Attached, PyResult, Raised, ffi, thread};

/// The method set of an object, reached through [`Owned`] and [`Borrowed`].
///
/// The methods are spread over the files of this crate by subject: `attr`, `call`, and the conversions.
#[repr(transparent)]
pub struct Obj(NonNull<ffi::PyObject>);

impl Obj {
    /// The raw pointer, for calls into the C API by this crate and by those who speak it too.
    #[inline]
    pub fn as_ptr(&self) -> *mut ffi::PyObject {
        self.0.as_ptr()
    }

    /// The same object as a value to copy around.
    #[inline]
    pub fn borrow(&self) -> Borrowed<'_> {
        Borrowed(self.0, PhantomData)
    }

    /// A new strong reference.
    #[inline]
    pub fn clone_ref(&self, _py: Attached<'_>) -> Owned {
        // SAFETY: the object is alive while `self` is borrowed, and the thread is attached.
        unsafe { ffi::Py_INCREF(self.0.as_ptr()) };
        Owned(Obj(self.0))
    }
}

/// Anything that is a reference to an object. What functions of this crate take, so that `&Owned::int(py, 1)?` is an argument.
pub trait AsObj {
    /// The object.
    fn as_obj(&self) -> &Obj;
}

impl AsObj for Obj {
    #[inline(always)]
    fn as_obj(&self) -> &Obj {
        self
    }
}

impl AsObj for Owned {
    #[inline(always)]
    fn as_obj(&self) -> &Obj {
        self
    }
}

impl AsObj for Borrowed<'_> {
    #[inline(always)]
    fn as_obj(&self) -> &Obj {
        self
    }
}

/// A strong reference to an object of the interpreter this thread is attached to. Eight bytes, never null.
///
/// Why it knows nothing of its interpreter: the hot path drops several per callback, and a second word, or a check of the
/// current thread state, would be paid on each. Instead it cannot leave: it is not `Send`, so it enters neither a detached
/// closure nor another thread, and no result of `attach` can carry it out. What has to travel, or may be dropped anywhere, is
/// turned into a [`Remote`](crate::Remote) (sixteen bytes), which defers its drop to its interpreter. What Rust cannot
/// see is a thread-local that outlives the attachment: keep none there. Debug builds check every drop and leak instead.
#[repr(transparent)]
pub struct Owned(Obj);

impl Owned {
    /// Takes over a new reference; NULL means that the error indicator is set.
    ///
    /// # Safety
    /// `pointer` is NULL with an exception set, or a strong reference the caller gives away.
    #[inline]
    pub unsafe fn from_ptr(py: Attached<'_>, pointer: *mut ffi::PyObject) -> PyResult<Self> {
        match NonNull::new(pointer) {
            Some(pointer) => Ok(Self(Obj(pointer))),
            None => Err(Raised::set(py)),
        }
    }

    /// Takes over a new reference, or nothing.
    ///
    /// # Safety
    /// `pointer` is NULL, or a strong reference the caller gives away.
    #[inline]
    pub unsafe fn from_ptr_or_none(_py: Attached<'_>, pointer: *mut ffi::PyObject) -> Option<Self> {
        NonNull::new(pointer).map(|pointer| Self(Obj(pointer)))
    }

    /// Gives the reference away as a raw pointer.
    #[inline]
    pub fn into_ptr(self) -> *mut ffi::PyObject {
        ManuallyDrop::new(self).0.as_ptr()
    }

    /// `None`.
    #[inline]
    pub fn none(py: Attached<'_>) -> Self {
        Borrowed::none(py).clone_ref(py)
    }

    /// `True` or `False`.
    #[inline]
    pub fn bool(py: Attached<'_>, value: bool) -> Self {
        // SAFETY: both are immortal or owned by the interpreter.
        let pointer = unsafe { if value { ffi::Py_True() } else { ffi::Py_False() } };
        // SAFETY: never NULL, alive as long as the interpreter.
        unsafe { Borrowed::from_ptr_unchecked(py, pointer) }.clone_ref(py)
    }

    /// `NotImplemented`, the answer of a comparison that does not know the other side.
    #[inline]
    pub fn not_implemented(py: Attached<'_>) -> Self {
        // SAFETY: never NULL, alive as long as the interpreter.
        unsafe { Borrowed::from_ptr_unchecked(py, ffi::Py_NotImplemented()) }.clone_ref(py)
    }
}

impl Deref for Owned {
    type Target = Obj;
    #[inline]
    fn deref(&self) -> &Obj {
        &self.0
    }
}

impl Drop for Owned {
    #[inline]
    fn drop(&mut self) {
        if cfg!(debug_assertions) && thread::current().is_null() {
            eprintln!("pyrt: a reference was dropped on a detached thread and is leaked");
            return;
        }
        // SAFETY: one reference is owned; the type cannot leave attached threads.
        unsafe { ffi::Py_DECREF(self.0.as_ptr()) }
    }
}

impl fmt::Debug for Owned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Owned({:p})", self.0.as_ptr())
    }
}

/// A reference that somebody else keeps alive for `'a`. `Copy`, one pointer wide.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct Borrowed<'a>(NonNull<ffi::PyObject>, PhantomData<&'a Obj>);

impl<'a> Borrowed<'a> {
    /// Wraps a pointer that is not NULL.
    ///
    /// # Safety
    /// `pointer` is not NULL and the object lives as long as `'a`.
    #[inline]
    pub unsafe fn from_ptr_unchecked(_py: Attached<'_>, pointer: *mut ffi::PyObject) -> Self {
        // SAFETY: not NULL by contract.
        Self(unsafe { NonNull::new_unchecked(pointer) }, PhantomData)
    }

    /// Wraps a pointer that may be NULL.
    ///
    /// # Safety
    /// `pointer` is NULL, or the object lives as long as `'a`.
    #[inline]
    pub unsafe fn from_ptr(_py: Attached<'_>, pointer: *mut ffi::PyObject) -> Option<Self> {
        NonNull::new(pointer).map(|pointer| Self(pointer, PhantomData))
    }

    /// The same references, seen as borrowed: what [`Obj::call_slice`] takes.
    #[inline]
    pub fn slice(owned: &'a [Owned]) -> &'a [Self] {
        // SAFETY: both are transparent wrappers of the same pointer type, and the owners outlive `'a`.
        unsafe { core::slice::from_raw_parts(owned.as_ptr().cast(), owned.len()) }
    }

    /// `None`.
    #[inline]
    pub fn none(py: Attached<'a>) -> Self {
        // SAFETY: never NULL, alive as long as the interpreter.
        unsafe { Self::from_ptr_unchecked(py, ffi::Py_None()) }
    }
}

impl Deref for Borrowed<'_> {
    type Target = Obj;
    #[inline]
    fn deref(&self) -> &Obj {
        // SAFETY: `Obj` is a transparent wrapper of the same pointer type, alive for `'a`.
        unsafe { &*(&raw const self.0).cast::<Obj>() }
    }
}

impl fmt::Debug for Borrowed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Borrowed({:p})", self.0.as_ptr())
    }
}

const _: () = assert!(size_of::<Option<Owned>>() == size_of::<usize>());
const _: () = assert!(size_of::<Option<Borrowed<'static>>>() == size_of::<usize>());
