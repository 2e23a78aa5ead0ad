//! Thread states: which one this OS thread is attached with, and those kept alive for its next attach.
//!
//! Creating and deleting a thread state per attach costs 1–2 µs with a GIL and 190 µs without; a kept one 0.05–0.2 µs.
//! So each OS thread keeps one per interpreter it has ever attached to, in a thread-local, until the thread ends.

use core::cell::{Cell, RefCell};
use core::ptr::{self, NonNull};
use std::sync::Arc;

use crate::ffi;
use crate::interp::Shared;

thread_local! {
    static KEPT: RefCell<Vec<Kept>> = const { RefCell::new(Vec::new()) };
    /// The kept state this thread is attached with, as far as this module did it.
    static CURRENT: Cell<*mut ffi::PyThreadState> = const { Cell::new(ptr::null_mut()) };
}

/// The state this thread is attached with, or NULL.
///
/// `PyGILState_Check` knows the main interpreter only. From 3.12 on the current state is thread-local and can be asked for.
/// 3.11 keeps one for the whole process, that of the thread holding the GIL, so there it counts only if it is known to be
/// this thread's: made by us, or by `threading` for the interpreter of the `PyGILState` API. (A 3.11 sub-interpreter entered by
/// somebody else on this thread is therefore not recognised.)
#[inline]
pub(crate) fn current() -> *mut ffi::PyThreadState {
    #[cfg(Py_3_13)]
    // SAFETY: may be called by any thread; reads a thread-local.
    unsafe {
        ffi::PyThreadState_GetUnchecked()
    }
    #[cfg(all(Py_3_12, not(Py_3_13)))]
    // SAFETY: may be called by any thread; reads a thread-local.
    unsafe {
        ffi::compat::PyThreadState_GetUnchecked()
    }
    #[cfg(not(Py_3_12))]
    {
        // SAFETY: may be called by any thread; reads an atomic pointer, which is only compared here.
        let holder = unsafe { ffi::compat::PyThreadState_GetUnchecked() };
        if holder.is_null() {
            return holder;
        }
        // SAFETY: may be called by any thread; reads thread-specific storage.
        let mine = unsafe { ffi::PyGILState_GetThisThreadState() };
        if holder == mine || holder == CURRENT.get() { holder } else { ptr::null_mut() }
    }
}

/// The interpreter this thread is attached to, or NULL.
#[inline]
pub(crate) fn current_interpreter() -> *mut ffi::PyInterpreterState {
    let state = current();
    if state.is_null() {
        return ptr::null_mut();
    }
    // SAFETY: the state is current on this thread, so it is alive.
    unsafe { ffi::PyThreadState_GetInterpreter(state) }
}

/// A thread state of one interpreter, kept by one OS thread and deleted when that ends.
struct Kept {
    interpreter: Arc<Shared>,
    state: NonNull<ffi::PyThreadState>,
}

impl Drop for Kept {
    fn drop(&mut self) {
        // A state of an interpreter that has ended was freed with it; one that is ending must be left to it.
        // SAFETY: may be called by any thread.
        if unsafe { ffi::Py_IsFinalizing() } != 0 || !self.interpreter.admit() {
            return;
        }
        self.interpreter.unregister(self.state);
        let state = self.state.as_ptr();
        // SAFETY: the state was made by this thread, is not current (attachments end before the thread does), and its
        // interpreter is alive, as this thread was admitted; a state is cleared attached, and `DeleteCurrent` detaches.
        unsafe {
            ffi::PyEval_RestoreThread(state);
            CURRENT.set(state);
            ffi::PyThreadState_Clear(state);
            CURRENT.set(ptr::null_mut());
            ffi::PyThreadState_DeleteCurrent();
        }
        self.interpreter.depart();
    }
}

/// Finds or makes this thread's state for an interpreter; NULL when memory is out or the thread is ending.
fn kept(interpreter: &Arc<Shared>) -> *mut ffi::PyThreadState {
    KEPT.try_with(|list| {
        let Ok(mut list) = list.try_borrow_mut() else { return ptr::null_mut() };
        list.retain(|kept| kept.interpreter.is_alive());
        if let Some(kept) = list.iter().find(|kept| Arc::ptr_eq(&kept.interpreter, interpreter)) {
            return kept.state.as_ptr();
        }
        // SAFETY: `PyThreadState_New` needs no attachment; the interpreter is alive, as this thread was admitted.
        let state = unsafe { ffi::PyThreadState_New(interpreter.raw()) };
        if let Some(state) = NonNull::new(state) {
            interpreter.register(state);
            list.push(Kept { interpreter: interpreter.clone(), state });
        }
        state
    })
    .unwrap_or(ptr::null_mut())
}

/// Has this thread keep a state that it made in another way. False if it cannot.
#[cfg(Py_3_12)]
pub(crate) fn adopt(interpreter: &Arc<Shared>, state: NonNull<ffi::PyThreadState>) -> bool {
    let kept = KEPT.try_with(|list| {
        list.try_borrow_mut().map(|mut list| list.push(Kept { interpreter: interpreter.clone(), state }))
    });
    let kept = matches!(kept, Ok(Ok(())));
    if kept {
        interpreter.register(state);
    }
    kept
}

/// The state this thread keeps for an interpreter, if it does.
pub(crate) fn find(interpreter: &Arc<Shared>) -> Option<NonNull<ffi::PyThreadState>> {
    let found = KEPT.try_with(|list| {
        let list = list.try_borrow().ok()?;
        list.iter().find(|kept| Arc::ptr_eq(&kept.interpreter, interpreter)).map(|kept| kept.state)
    });
    found.ok().flatten()
}

/// Attachment of this thread by a kept state; dropping it detaches and gives an earlier attachment back.
pub(crate) struct Attachment {
    before: *mut ffi::PyThreadState,
    marked: *mut ffi::PyThreadState,
}

impl Attachment {
    /// Attaches this thread to `interpreter`, stepping out of another interpreter if need be.
    pub(crate) fn enter(interpreter: &Arc<Shared>) -> Option<Self> {
        let state = kept(interpreter);
        if state.is_null() {
            return None;
        }
        let before = current();
        if !before.is_null() {
            // SAFETY: this thread is attached with `before`.
            unsafe { ffi::PyEval_SaveThread() };
        }
        // SAFETY: the state belongs to this thread and is not current: `enter` is reached only when the thread is not
        // attached to this interpreter.
        unsafe { ffi::PyEval_RestoreThread(state) };
        Some(Self { before, marked: CURRENT.replace(state) })
    }
}

impl Drop for Attachment {
    fn drop(&mut self) {
        CURRENT.set(self.marked);
        // SAFETY: this thread is attached with the kept state: attachments nest.
        unsafe { ffi::PyEval_SaveThread() };
        if !self.before.is_null() {
            // SAFETY: saved by `enter` on this very thread.
            unsafe { ffi::PyEval_RestoreThread(self.before) };
        }
    }
}
