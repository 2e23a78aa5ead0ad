//! `Type<T>`, `Typed<T>` and `Instance<'a, T>`: a heap type of ours, a strong and a borrowed reference to an instance.
//!
//! A `T` is reached only through these, and they are made only after a type check, so a payload is never taken for another.
//! Attached threads only; the payload itself is `Sync`.

use core::fmt;
use core::marker::PhantomData;
use core::ops::Deref;
use core::ptr::NonNull;

use crate::layout::{base_size, payload};
use crate::{
    AsObj, Attached, Borrowed, Class, Confined, Kind, Obj, Owned, Pool, PyResult, Raised, Return, Traverse,
    Visit, Visited, ffi,
};

/// A borrowed instance of the heap type of `T`. `Copy`, one pointer wide; derefs to the payload.
#[repr(transparent)]
pub struct Instance<'a, T>(NonNull<ffi::PyObject>, PhantomData<(&'a T, *mut ())>);

impl<T> Clone for Instance<'_, T> {
    #[inline]
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Instance<'_, T> {}

impl<'a, T: Class> Instance<'a, T> {
    /// # Safety
    /// `object` is an instance of the type made for `T` and lives as long as `'a`.
    #[inline(always)]
    pub(crate) unsafe fn from_raw(object: *mut ffi::PyObject) -> Self {
        // SAFETY: by contract, so not NULL.
        Self(unsafe { NonNull::new_unchecked(object) }, PhantomData)
    }

    /// Takes it for granted that an object is an instance of `T`'s type, for a hot path that has put it there itself.
    ///
    /// # Safety
    /// It is one: it came from a `Typed<T>` or an `Instance<T>`.
    #[inline]
    pub unsafe fn assume(object: Borrowed<'a>) -> Self {
        // SAFETY: by contract.
        unsafe { Self::from_raw(object.as_ptr()) }
    }

    /// The payload.
    #[inline]
    pub fn payload(self) -> &'a T {
        // SAFETY: an instance of `T`'s type has an initialised payload there from before it is seen until it is destroyed.
        unsafe { &*payload::<T>(self.0.as_ptr()) }
    }

    /// The object.
    #[inline]
    pub fn object(self) -> Borrowed<'a> {
        // SAFETY: alive for `'a`, which an attached scope bounds.
        unsafe { Borrowed::from_ptr_unchecked(Attached::assume(), self.0.as_ptr()) }
    }

    /// A strong reference.
    #[inline]
    pub fn clone_ref(self, py: Attached<'_>) -> Typed<T> {
        Typed(self.object().clone_ref(py), PhantomData)
    }
}

impl<T: Class> Deref for Instance<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        (*self).payload()
    }
}

/// A strong reference to an instance of the heap type of `T`. One pointer wide; derefs to the payload.
#[repr(transparent)]
pub struct Typed<T>(Owned, PhantomData<fn() -> T>);

impl<T: Class> Typed<T> {
    /// The instance, borrowed.
    #[inline]
    pub fn instance(&self) -> Instance<'_, T> {
        // SAFETY: an instance of `T`'s type, kept alive by `self`.
        unsafe { Instance::from_raw(self.0.as_ptr()) }
    }

    /// The payload.
    #[inline]
    pub fn payload(&self) -> &T {
        self.instance().payload()
    }

    /// The object.
    #[inline]
    pub fn object(&self) -> &Owned {
        &self.0
    }

    /// The object, for good.
    #[inline]
    pub fn into_object(self) -> Owned {
        self.0
    }

    /// Another strong reference.
    #[inline]
    pub fn clone_ref(&self, py: Attached<'_>) -> Self {
        Self(self.0.clone_ref(py), PhantomData)
    }
}

impl<T: Class> Deref for Typed<T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        self.payload()
    }
}

impl<T> AsObj for Typed<T> {
    #[inline(always)]
    fn as_obj(&self) -> &Obj {
        &self.0
    }
}

impl<T> AsObj for Type<T> {
    #[inline(always)]
    fn as_obj(&self) -> &Obj {
        &self.0
    }
}

// SAFETY: a reference.
unsafe impl<T> Confined for Typed<T> {}
// SAFETY: shared, it gives a payload that is `Sync`, and an object that nothing is done with without a token.
unsafe impl<T: Class> Sync for Typed<T> {}

impl<T> Traverse for Typed<T> {
    #[inline]
    fn traverse(&self, visit: &mut Visit<'_>) -> Visited {
        visit.object(&self.0)
    }
}

impl<T> Return for Typed<T> {
    #[inline]
    fn into_object(self, _py: Attached<'_>) -> PyResult<Owned> {
        Ok(self.0)
    }
}

impl<T> fmt::Debug for Typed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Typed<{}>({:p})", core::any::type_name::<T>(), self.0.as_ptr())
    }
}

/// The heap type of `T` in one interpreter; kept in the module state.
pub struct Type<T>(Owned, Pool, PhantomData<fn() -> T>);

impl<T: Class> Type<T> {
    /// # Safety
    /// `object` is the type made by the builder for `T`.
    pub(crate) unsafe fn from_object(object: Owned) -> Self {
        Self(object, Pool::default(), PhantomData)
    }

    /// The class object.
    #[inline]
    pub fn object(&self) -> &Owned {
        &self.0
    }

    #[inline]
    fn raw(&self) -> *mut ffi::PyTypeObject {
        self.0.as_ptr().cast()
    }

    /// A new instance, made without going through Python's `__new__`.
    #[inline]
    pub fn create(&self, py: Attached<'_>, value: T) -> PyResult<Typed<T>> {
        // SAFETY: the type belongs to `T` and says whether its instances are tracked; memory for one object comes back
        // initialised up to the header, or NULL with an exception.
        unsafe {
            let object = if T::GC {
                ffi::PyObject_GC_New::<ffi::PyObject>(self.raw())
            } else {
                match T::POOLED.then(|| self.1.take(py)).flatten() {
                    // Room for just such an instance.
                    Some(block) => ffi::PyObject_Init(block.as_ptr(), self.raw()),
                    None => ffi::PyObject_New::<ffi::PyObject>(self.raw()),
                }
            };
            let object = Owned::from_ptr(py, object)?;
            let pointer = object.as_ptr();
            if T::BASE_SLOTS > 0 {
                let slots = pointer.cast::<u8>().add(size_of::<ffi::PyObject>());
                core::ptr::write_bytes(slots, 0, base_size::<T>() - size_of::<ffi::PyObject>());
            }
            payload::<T>(pointer).write(value);
            if T::GC {
                ffi::PyObject_GC_Track(pointer.cast());
            }
            Ok(Typed(object, PhantomData))
        }
    }

    /// The memory of instances that have ended.
    #[inline(always)]
    pub(crate) fn pool(&self) -> &Pool {
        &self.1
    }

    /// Whether `object` is an instance of this type or of a subclass. An exact match is one comparison.
    #[inline]
    pub fn is_instance(&self, object: &impl AsObj) -> bool {
        // SAFETY: alive; looks at types only.
        unsafe { ffi::PyObject_TypeCheck(object.as_obj().as_ptr(), self.raw()) != 0 }
    }

    /// Whether `object` is an instance of this very type.
    #[inline]
    pub fn is_exact(&self, object: &impl AsObj) -> bool {
        // SAFETY: alive; looks at its type only.
        unsafe { ffi::Py_TYPE(object.as_obj().as_ptr()) == self.raw() }
    }

    /// The instance, if it is one.
    #[inline]
    pub fn downcast<'a>(&self, object: Borrowed<'a>) -> Option<Instance<'a, T>> {
        // SAFETY: just checked.
        self.is_instance(&object).then(|| unsafe { Instance::from_raw(object.as_ptr()) })
    }

    /// The instance, or a `TypeError`.
    #[inline]
    pub fn expect<'a>(&self, py: Attached<'_>, object: Borrowed<'a>) -> PyResult<Instance<'a, T>> {
        self.downcast(object).ok_or_else(|| wrong_type::<T>(py, &object))
    }

    /// The instance for good, or the object back.
    #[inline]
    pub fn downcast_owned(&self, object: Owned) -> Result<Typed<T>, Owned> {
        if self.is_instance(&object) { Ok(Typed(object, PhantomData)) } else { Err(object) }
    }

    /// Sets a class attribute, of an immutable type too. For the time before the type is seen by anybody.
    pub fn set_attr(&self, py: Attached<'_>, name: &core::ffi::CStr, value: &impl AsObj) -> PyResult<()> {
        // SAFETY: attached; a ready heap type has a dict, and its method cache is invalidated afterwards.
        unsafe {
            let dict = (*self.raw()).tp_dict;
            Raised::check(py, ffi::PyDict_SetItemString(dict, name.as_ptr(), value.as_obj().as_ptr()))?;
            ffi::PyType_Modified(self.raw());
        }
        Ok(())
    }

    /// Another reference to the same type.
    pub fn clone_ref(&self, py: Attached<'_>) -> Self {
        Self(self.0.clone_ref(py), Pool::default(), PhantomData)
    }
}

#[cold]
fn wrong_type<T: Class>(py: Attached<'_>, object: &Obj) -> Raised {
    let wanted = crate::class::short_name(T::NAME);
    Kind::TypeError.raise(py, &format!("expected {wanted}, got {}", object.class_name(py)))
}

// SAFETY: a reference.
unsafe impl<T> Confined for Type<T> {}
// SAFETY: a reference that is only read; using it needs a token of its interpreter.
unsafe impl<T> Sync for Type<T> {}

impl<T> Traverse for Type<T> {
    fn traverse(&self, visit: &mut Visit<'_>) -> Visited {
        visit.object(&self.0)
    }
}

impl<T> fmt::Debug for Type<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Type<{}>({:p})", core::any::type_name::<T>(), self.0.as_ptr())
    }
}
