//! Showing the garbage collector what a payload refers to.
//!
//! The collector calls `traverse` on an attached thread, with all others stopped where there is no GIL. It counts references, so
//! nothing may be made, dropped, locked or called in there: `Visit` offers nothing of the kind. Leaving a reference out is
//! safe (a cycle through it leaks); showing one that is not owned is not possible.

use core::ffi::{c_int, c_void};
use core::marker::PhantomData;
use std::collections::VecDeque;

use crate::{Attached, Obj, Owned, ffi};

/// The collector wants no more objects of this payload.
#[derive(Debug)]
pub struct Stop(pub(crate) c_int);

/// The result of showing objects; pass `Stop` on with `?`.
pub type Visited = Result<(), Stop>;

/// The collector, as seen by a payload.
pub struct Visit<'a> {
    visit: ffi::visitproc,
    arg: *mut c_void,
    scope: PhantomData<&'a ()>,
}

impl Visit<'_> {
    /// # Safety
    /// Called from a `tp_traverse` or `m_traverse` with its arguments.
    pub(crate) unsafe fn new(visit: ffi::visitproc, arg: *mut c_void) -> Self {
        Self { visit, arg, scope: PhantomData }
    }

    /// Shows one object the payload has a strong reference to.
    #[inline]
    pub fn object(&mut self, object: &Obj) -> Visited {
        // SAFETY: the visitor came with its argument from the collector, and the object is alive.
        match unsafe { (self.visit)(object.as_ptr(), self.arg) } {
            0 => Ok(()),
            stop => Err(Stop(stop)),
        }
    }

    /// Shows a raw reference that may be NULL.
    ///
    /// # Safety
    /// `pointer` is NULL or a strong reference the payload owns.
    pub(crate) unsafe fn pointer(&mut self, pointer: *mut ffi::PyObject) -> Visited {
        if pointer.is_null() {
            return Ok(());
        }
        // SAFETY: as above.
        match unsafe { (self.visit)(pointer, self.arg) } {
            0 => Ok(()),
            stop => Err(Stop(stop)),
        }
    }
}

/// What the garbage collector needs of a payload or a module state.
pub trait Traverse {
    /// Shows every object this has a strong reference to.
    fn traverse(&self, visit: &mut Visit<'_>) -> Visited {
        let _ = visit;
        Ok(())
    }

    /// Gives up the references that can be part of a cycle, to break it. Take them out first and drop them last: dropping runs
    /// Python code, which may come back here.
    fn clear(&self, py: Attached<'_>) {
        let _ = py;
    }
}

impl Traverse for Owned {
    #[inline]
    fn traverse(&self, visit: &mut Visit<'_>) -> Visited {
        visit.object(self)
    }
}

impl Traverse for () {}

impl<T: Traverse> Traverse for Option<T> {
    #[inline]
    fn traverse(&self, visit: &mut Visit<'_>) -> Visited {
        self.as_ref().map_or(Ok(()), |value| value.traverse(visit))
    }

    fn clear(&self, py: Attached<'_>) {
        if let Some(value) = self {
            value.clear(py);
        }
    }
}

impl<T: Traverse + ?Sized> Traverse for Box<T> {
    fn traverse(&self, visit: &mut Visit<'_>) -> Visited {
        (**self).traverse(visit)
    }

    fn clear(&self, py: Attached<'_>) {
        (**self).clear(py);
    }
}

impl<T: Traverse> Traverse for Vec<T> {
    fn traverse(&self, visit: &mut Visit<'_>) -> Visited {
        self.iter().try_for_each(|value| value.traverse(visit))
    }

    fn clear(&self, py: Attached<'_>) {
        self.iter().for_each(|value| value.clear(py));
    }
}

impl<T: Traverse> Traverse for VecDeque<T> {
    fn traverse(&self, visit: &mut Visit<'_>) -> Visited {
        self.iter().try_for_each(|value| value.traverse(visit))
    }

    fn clear(&self, py: Attached<'_>) {
        self.iter().for_each(|value| value.clear(py));
    }
}
