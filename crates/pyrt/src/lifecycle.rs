//! The end of an instance, and the collector's way into it: `tp_dealloc`, `tp_traverse`, `tp_clear`.
//!
//! Called by the runtime on attached threads, `dealloc` with the last reference gone.

use core::cell::{Cell, RefCell};
use core::ffi::{c_int, c_void};
use core::ptr::NonNull;

use crate::layout::{WeakSlot, dict_of, drop_dict, payload};
use crate::{Attached, Class, HAS_GIL, Visit, Visited, ffi, guard};

/// Deeper than this, chained instances are destroyed after the ones that hold them, not inside.
const DEEPEST: u32 = 64;

thread_local! {
    static DEPTH: Cell<u32> = const { Cell::new(0) };
    static LATER: RefCell<Vec<(NonNull<ffi::PyObject>, ffi::destructor)>> = const { RefCell::new(Vec::new()) };
}

/// `tp_dealloc`.
pub(crate) unsafe extern "C" fn dealloc<T: Class>(object: *mut ffi::PyObject) {
    // From 3.14 on the runtime itself bounds the depth, for every type the collector knows.
    if !T::CHAINS || cfg!(Py_3_14) {
        // SAFETY: passed on.
        return unsafe { destroy::<T>(object) };
    }
    let depth = DEPTH.get();
    if depth >= DEEPEST {
        // SAFETY: an instance whose last reference is gone, put by until the chain above has been unwound. It must not be seen by
        // the collector meanwhile.
        unsafe {
            if T::GC {
                ffi::PyObject_GC_UnTrack(object.cast());
            }
            let put_by = LATER.try_with(|later| match (later.try_borrow_mut(), NonNull::new(object)) {
                (Ok(mut later), Some(object)) => {
                    later.push((object, dealloc::<T>));
                    true
                }
                _ => false,
            });
            if put_by != Ok(true) {
                destroy::<T>(object);
            }
        }
        return;
    }
    DEPTH.set(depth + 1);
    // SAFETY: passed on.
    unsafe { destroy::<T>(object) };
    DEPTH.set(depth);
    if depth == 0 {
        while let Some((next, dealloc)) =
            LATER.try_with(|later| later.try_borrow_mut().ok()?.pop()).ok().flatten()
        {
            // SAFETY: put by above, with its last reference gone, by the function that came with it. Not the `tp_dealloc` of its
            // class: a Python subclass has had its turn already.
            unsafe { dealloc(next.as_ptr()) };
        }
    }
}

/// Ends one instance: hides it from the collector, tells weak references, drops the payload, frees the memory.
unsafe fn destroy<T: Class>(object: *mut ffi::PyObject) {
    // SAFETY: called by the runtime, attached, for an instance of `T`'s type or a subclass whose last reference is gone. The
    // order is that of the runtime's own heap types: untrack before anything can run, weak references before the content goes,
    // the type, which the instance owned a reference to, after the memory.
    unsafe {
        let class = ffi::Py_TYPE(object);
        if T::GC {
            ffi::PyObject_GC_UnTrack(object.cast());
        }
        if (*class).tp_finalize.is_some() {
            if T::GC {
                // The finaliser may look at the object as usual, the collector included.
                ffi::PyObject_GC_Track(object.cast());
            }
            if ffi::PyObject_CallFinalizerFromDealloc(object) < 0 {
                return;
            }
            if T::GC {
                ffi::PyObject_GC_UnTrack(object.cast());
            }
        }
        let value = payload::<T>(object);
        let pool = if T::POOLED { (*value).pool(Attached::assume()) } else { None };
        if let Some(weak) = T::WEAKREFS {
            let slot = value.byte_add(weak.get()).cast::<WeakSlot>();
            // Most have none, and need no call to find out. Without a GIL one may be about to end on another thread.
            if !HAS_GIL || !(*slot).is_empty() {
                ffi::PyObject_ClearWeakRefs(object);
            }
        }
        guard::contain(|| {
            drop_dict::<T>(Attached::assume(), value);
            core::ptr::drop_in_place(value);
        });
        each_base_slot::<T>(object, |slot| ffi::Py_XDECREF(core::ptr::replace(slot, core::ptr::null_mut())));
        match (*class).tp_free {
            _ if pool.is_some_and(|pool| pool.keep(Attached::assume(), object)) => {}
            Some(free) => free(object.cast()),
            None if T::GC => ffi::PyObject_GC_Del(object.cast()),
            None => ffi::PyObject_Free(object.cast()),
        }
        ffi::Py_DECREF(class.cast());
    }
}

/// Visits the `__slots__` inherited from a Python base class: nobody else looks after them in instances of ours.
///
/// # Safety
/// `object` is an instance of `T`'s type.
unsafe fn each_base_slot<T: Class>(object: *mut ffi::PyObject, mut f: impl FnMut(*mut *mut ffi::PyObject)) {
    for index in 0..T::BASE_SLOTS {
        // SAFETY: checked when the type was made: that many pointers follow the header.
        f(unsafe { object.byte_add(size_of::<ffi::PyObject>()).cast::<*mut ffi::PyObject>().add(index) });
    }
}

/// `tp_traverse`.
pub(crate) unsafe extern "C" fn traverse<T: Class>(
    object: *mut ffi::PyObject,
    visit: ffi::visitproc,
    arg: *mut c_void,
) -> c_int {
    let shown = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| -> Visited {
        // SAFETY: called by the collector with a tracked instance, so its payload is initialised. The type is one of the references
        // an instance of a heap type owns.
        unsafe {
            let mut visit = Visit::new(visit, arg);
            visit.pointer(ffi::Py_TYPE(object).cast())?;
            let value = payload::<T>(object);
            let dict = dict_of::<T>(value);
            if !dict.is_null() {
                visit.pointer(*dict)?;
            }
            let mut slots = Ok(());
            each_base_slot::<T>(object, |slot| {
                if slots.is_ok() {
                    slots = visit.pointer(*slot);
                }
            });
            slots?;
            (*value).traverse(&mut visit)
        }
    }));
    match shown {
        Ok(Ok(())) => 0,
        Ok(Err(stop)) => stop.0,
        // Nothing may be raised here. What was not shown counts as referred to from outside, and stays alive.
        Err(panic) => {
            core::mem::forget(panic);
            0
        }
    }
}

/// `tp_clear`.
pub(crate) unsafe extern "C" fn clear<T: Class>(object: *mut ffi::PyObject) -> c_int {
    // SAFETY: called by the collector, attached, with an instance whose payload is initialised and stays so.
    unsafe {
        guard::contain(|| {
            let value = payload::<T>(object);
            let py = Attached::assume();
            (*value).clear(py);
            drop_dict::<T>(py, value);
            each_base_slot::<T>(object, |slot| {
                ffi::Py_XDECREF(core::ptr::replace(slot, core::ptr::null_mut()))
            });
        });
    }
    0
}
