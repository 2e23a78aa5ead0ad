//! Where the payload sits in an object, and the special fields a payload may have.
//!
//! An object is the header, then the slots of a Python base class if there is one, then the payload. All offsets are compile-time
//! constants; the type builder checks them against the base class when the type is made.

use core::cell::UnsafeCell;
use core::marker::PhantomData;
use core::sync::atomic::{AtomicPtr, Ordering::Acquire};

use crate::method::Args;
use crate::{Attached, Class, Confined, Instance, Owned, PyResult, ffi};

/// The alignment the runtime's allocator guarantees.
const ALIGNMENT: usize = 2 * size_of::<usize>();

const fn round_up(size: usize, align: usize) -> usize {
    size.div_ceil(align) * align
}

/// Size of everything before the payload's own alignment: header and inherited slots.
pub(crate) const fn base_size<T: Class>() -> usize {
    size_of::<ffi::PyObject>() + T::BASE_SLOTS * size_of::<usize>()
}

/// Distance from the start of the object to the payload.
pub(crate) const fn payload_offset<T: Class>() -> usize {
    const { assert!(align_of::<T>() <= ALIGNMENT, "the allocator cannot align this payload") };
    round_up(base_size::<T>(), align_of::<T>())
}

/// `tp_basicsize`.
pub(crate) const fn object_size<T: Class>() -> usize {
    round_up(payload_offset::<T>() + size_of::<T>(), align_of::<usize>())
}

/// The payload of an object.
///
/// # Safety
/// `object` is an instance of the type made for `T`, or of a subclass.
#[inline(always)]
pub(crate) unsafe fn payload<T: Class>(object: *mut ffi::PyObject) -> *mut T {
    // SAFETY: the object is at least `object_size` long.
    unsafe { object.byte_add(payload_offset::<T>()).cast() }
}

/// The offset of a field of type `F` in a payload `T`; made by [`offset!`](crate::offset).
pub struct Offset<T, F> {
    offset: usize,
    types: PhantomData<fn(&T) -> &F>,
}

impl<T, F> Clone for Offset<T, F> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T, F> Copy for Offset<T, F> {}

impl<T, F> Offset<T, F> {
    /// # Safety
    /// `offset` is that of the field which `_field` returns.
    #[doc(hidden)]
    pub const unsafe fn new(offset: usize, _field: fn(&T) -> &F) -> Self {
        Self { offset, types: PhantomData }
    }

    pub(crate) const fn get(self) -> usize {
        self.offset
    }
}

/// The [`Offset`] of a named field: `offset!(Counter, dict)`.
#[macro_export]
macro_rules! offset {
    ($class:ty, $field:ident) => {
        // SAFETY: offset and accessor name the same field.
        unsafe { $crate::Offset::new(core::mem::offset_of!($class, $field), |value: &$class| &value.$field) }
    };
}

/// A pointer the runtime itself reads and writes under its own locks.
#[repr(transparent)]
#[derive(Default)]
pub(crate) struct RawSlot(UnsafeCell<Option<core::ptr::NonNull<ffi::PyObject>>>);

impl RawSlot {
    const fn empty() -> Self {
        Self(UnsafeCell::new(None))
    }
}

// SAFETY: only the runtime touches it, and this crate while no other thread can (traversal, destruction).
unsafe impl Sync for RawSlot {}
// SAFETY: a reference, used and dropped attached.
unsafe impl Confined for RawSlot {}

/// Room for `__dict__`. Name it in [`Class::DICT`]; then the instance takes any attribute.
///
/// A field at a known offset works alike on every version; the runtime's "managed" dict differs in 3.11, 3.12 and 3.13.
#[repr(transparent)]
#[derive(Default)]
pub struct DictSlot(RawSlot);

impl DictSlot {
    /// No dict yet: the runtime makes it at the first attribute.
    pub const fn new() -> Self {
        Self(RawSlot::empty())
    }

    /// Whether there is no dict yet, so that no attribute can hide one of the class.
    #[inline]
    pub fn is_unused(&self, _py: Attached<'_>) -> bool {
        // SAFETY: the address of a pointer that the runtime sets once, whole, and here only looked at; read as an atomic, as without
        // a GIL another thread may be at it.
        unsafe { (*self.0.0.get().cast::<AtomicPtr<ffi::PyObject>>()).load(Acquire).is_null() }
    }
}

// SAFETY: a reference, used and dropped attached.
unsafe impl Confined for DictSlot {}

/// Room for the list of weak references. Name it in [`Class::WEAKREFS`].
#[repr(transparent)]
#[derive(Default)]
pub struct WeakSlot(RawSlot);

impl WeakSlot {
    /// No weak references yet.
    pub const fn new() -> Self {
        Self(RawSlot::empty())
    }
}

impl WeakSlot {
    /// Whether there is no weak reference.
    ///
    /// # Safety
    /// There is a GIL, and the last reference to the instance is gone: no other thread makes or ends one now.
    #[inline]
    pub(crate) unsafe fn is_empty(&self) -> bool {
        // SAFETY: by contract nobody writes to it now.
        unsafe { (*self.0.0.get()).is_none() }
    }
}

// SAFETY: the list belongs to the runtime, which empties it before the payload is dropped.
unsafe impl Confined for WeakSlot {}

/// What makes an instance callable by vectorcall. Name it in [`Class::VECTORCALL`].
#[repr(transparent)]
pub struct CallSlot<T>(ffi::vectorcallfunc, PhantomData<fn(&T)>);

impl<T: Class> CallSlot<T> {
    /// Calls of the instance go to `f`, a function item (not a closure that captures).
    pub const fn new<F, R>(f: F) -> Self
    where
        F: for<'py> Fn(Attached<'py>, Instance<'py, T>, Args<'py>) -> PyResult<R> + Copy + 'static,
        R: crate::Return,
    {
        crate::method::forget(f);
        Self(call::<T, F, R>, PhantomData)
    }
}

// SAFETY: a function pointer.
unsafe impl<T> Confined for CallSlot<T> {}

unsafe extern "C" fn call<T, F, R>(
    this: *mut ffi::PyObject,
    args: *const *mut ffi::PyObject,
    nargsf: usize,
    names: *mut ffi::PyObject,
) -> *mut ffi::PyObject
where
    T: Class,
    F: for<'py> Fn(Attached<'py>, Instance<'py, T>, Args<'py>) -> PyResult<R> + Copy + 'static,
    R: crate::Return,
{
    // SAFETY: called by the runtime, attached, on the instance whose slot holds this function; the arguments are as PEP 590
    // lays them out and live until the call returns.
    unsafe {
        crate::guard(|py| {
            let args = Args::vectorcall(args, nargsf & !ffi::ARGUMENTS_OFFSET, names);
            let result = crate::method::conjure::<F>()(py, Instance::from_raw(this), args)?;
            Ok(result.into_object(py)?.into_ptr())
        })
    }
}

/// The dict of an instance as the runtime left it, or NULL.
///
/// # Safety
/// `payload` is live, and no other thread can reach the slot now.
pub(crate) unsafe fn dict_of<T: Class>(payload: *mut T) -> *mut *mut ffi::PyObject {
    match T::DICT {
        // SAFETY: an offset of a field of that type, which is a transparent nullable pointer.
        Some(offset) => unsafe { payload.byte_add(offset.get()).cast() },
        None => core::ptr::null_mut(),
    }
}

/// Gives up the dict of an instance.
///
/// # Safety
/// As for [`dict_of`], attached.
pub(crate) unsafe fn drop_dict<T: Class>(py: Attached<'_>, payload: *mut T) {
    // SAFETY: by contract; the slot owns one reference, taken out before it is dropped.
    unsafe {
        let slot = dict_of::<T>(payload);
        if !slot.is_null() {
            drop(Owned::from_ptr_or_none(py, core::ptr::replace(slot, core::ptr::null_mut())));
        }
    }
}
