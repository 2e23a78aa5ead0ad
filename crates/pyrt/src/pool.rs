//! `Pool`: the memory of instances that have ended, for the next ones of their class. Attached threads only.
//!
//! What is made and dropped by the million costs less that way than by the allocator of the runtime, which first has to find out which
//! thread and interpreter it is called for. Without a GIL a pool stays empty: threads would have to take turns at it.

use core::cell::UnsafeCell;
use core::ptr::NonNull;

use crate::{Attached, Confined, HAS_GIL, Owned, ffi};

/// How many blocks are kept, about half a megabyte: a turn of so many callbacks needs no others.
const MOST: usize = 4096;

/// Blocks of one size, each from the allocator of objects of one interpreter.
#[derive(Default)]
pub struct Pool(UnsafeCell<Vec<NonNull<ffi::PyObject>>>);

// SAFETY: used attached, and only where being attached keeps other threads out.
unsafe impl Sync for Pool {}
// SAFETY: as above; sent with the state of its module, and only memory.
unsafe impl Send for Pool {}
// SAFETY: no references, but memory without an object in it.
unsafe impl Confined for Pool {}

impl Pool {
    /// A block that was kept. What is in it is of no use.
    #[inline(always)]
    pub(crate) fn take(&self, _py: Attached<'_>) -> Option<NonNull<ffi::PyObject>> {
        if !HAS_GIL {
            return None;
        }
        // SAFETY: attached, so nobody else is at it, and nothing is called meanwhile.
        unsafe { (*self.0.get()).pop() }
    }

    /// Keeps a block, if there is room for it.
    #[inline(always)]
    pub(crate) fn keep(&self, _py: Attached<'_>, block: *mut ffi::PyObject) -> bool {
        if !HAS_GIL {
            return false;
        }
        // SAFETY: attached, so nobody else is at it, and nothing of Python is called meanwhile.
        let blocks = unsafe { &mut *self.0.get() };
        match NonNull::new(block) {
            Some(block) if blocks.len() < MOST => {
                blocks.push(block);
                true
            }
            _ => false,
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        for block in self.0.get_mut().drain(..) {
            // SAFETY: the end of a module's state, attached to its interpreter, whose allocator the block is from.
            unsafe { ffi::PyObject_Free(block.as_ptr().cast()) };
        }
    }
}

/// A pool, kept alive by a reference to whoever owns it.
pub struct PoolRef {
    pool: NonNull<Pool>,
    _owner: Owned,
}

impl PoolRef {
    /// # Safety
    /// The pool lives as long as the object.
    pub(crate) unsafe fn new(pool: &Pool, owner: Owned) -> Self {
        Self { pool: NonNull::from(pool), _owner: owner }
    }

    #[inline(always)]
    pub(crate) fn keep(&self, py: Attached<'_>, block: *mut ffi::PyObject) -> bool {
        // SAFETY: the owner is there.
        unsafe { self.pool.as_ref() }.keep(py, block)
    }
}
