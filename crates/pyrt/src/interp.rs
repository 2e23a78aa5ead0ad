//! `Interpreter`: a handle any thread may hold, to attach to an interpreter and to give references back to it.
//!
//! One record per interpreter, found through a capsule in the interpreter's own dict, so no process-wide table exists. It ends
//! with that dict: from then on nobody attaches any more, and references given back are leaked rather than touched.

use core::ffi::{CStr, c_void};
use core::fmt;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::thread::{Attachment, current_interpreter};
use crate::{Attached, Owned, PyResult, ffi};

const CAPSULE: &CStr = c"pyrt.interpreter";

/// What threads share about one interpreter.
pub(crate) struct Shared {
    id: i64,
    raw: NonNull<ffi::PyInterpreterState>,
    alive: AtomicBool,
    /// Whether its maker is ending it: from then on nobody else attaches.
    closing: AtomicBool,
    /// How many threads are attached by [`Interpreter::attach`], or about to be.
    users: AtomicUsize,
    /// The thread states that threads keep for it.
    states: Mutex<Vec<NonNull<ffi::PyThreadState>>>,
    pending: AtomicBool,
    deferred: Mutex<Vec<NonNull<ffi::PyObject>>>,
}

// SAFETY: `raw` is handed to functions that may be called by any thread; the pointers in `deferred` and `states` are only moved
// until a thread attached to the interpreter takes them.
unsafe impl Send for Shared {}
// SAFETY: as above; the list is behind a mutex.
unsafe impl Sync for Shared {}

impl Shared {
    pub(crate) fn is_alive(&self) -> bool {
        self.alive.load(Ordering::Acquire)
    }

    pub(crate) fn raw(&self) -> *mut ffi::PyInterpreterState {
        self.raw.as_ptr()
    }

    /// A thread is going to attach: false if it may not any more. [`depart`](Self::depart) takes it back.
    pub(crate) fn admit(&self) -> bool {
        // This and `close` are in one order: either the maker sees the user, or the user that it is closing.
        self.users.fetch_add(1, Ordering::SeqCst);
        let open = self.is_alive() && !self.closing.load(Ordering::SeqCst);
        if !open {
            self.depart();
        }
        open
    }

    pub(crate) fn depart(&self) {
        self.users.fetch_sub(1, Ordering::SeqCst);
    }

    /// Nobody is admitted from now on.
    pub(crate) fn close(&self) {
        self.closing.store(true, Ordering::SeqCst);
    }

    pub(crate) fn is_used(&self) -> bool {
        self.users.load(Ordering::SeqCst) > 0
    }

    /// A thread keeps a state for it.
    pub(crate) fn register(&self, state: NonNull<ffi::PyThreadState>) {
        self.states().push(state);
    }

    /// The thread that keeps a state gives it up, having been admitted.
    pub(crate) fn unregister(&self, state: NonNull<ffi::PyThreadState>) {
        self.states().retain(|other| *other != state);
    }

    /// All that are kept, for the maker who ends it.
    pub(crate) fn take_states(&self) -> Vec<NonNull<ffi::PyThreadState>> {
        core::mem::take(&mut *self.states())
    }

    fn states(&self) -> std::sync::MutexGuard<'_, Vec<NonNull<ffi::PyThreadState>>> {
        self.states.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set_ended(&self) {
        self.alive.store(false, Ordering::Release);
    }
}

/// The interpreter has ended, or this thread can make no thread state for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the interpreter has ended")]
pub struct Gone;

/// A handle to an interpreter. Cheap to clone; any thread may hold it.
#[derive(Clone)]
pub struct Interpreter(pub(crate) Arc<Shared>);

impl Interpreter {
    /// The interpreter this thread is attached to. A dict lookup: keep the result.
    pub fn current(py: Attached<'_>) -> PyResult<Self> {
        // Two libraries in one process each have this crate, perhaps in two versions: the address tells them apart.
        static MARK: u8 = 0;
        let key = Owned::str(py, &format!("pyrt.interpreter.{:p}", &raw const MARK))?;
        // SAFETY: attached; the dict is borrowed from the interpreter, which outlives this call.
        let (raw, dict) = unsafe {
            let raw = ffi::PyInterpreterState_Get();
            (raw, ffi::PyInterpreterState_GetDict(raw))
        };
        let (Some(raw), false) = (NonNull::new(raw), dict.is_null()) else {
            return Err(crate::Fault::runtime("the interpreter has no dict").raise(py));
        };
        let mut found = core::ptr::null_mut();
        // SAFETY: `dict` is a dict, `key` a str; `found` receives a new reference or NULL.
        let status = unsafe { ffi::PyDict_GetItemRef(dict, key.as_ptr(), &mut found) };
        if status < 0 {
            return Err(crate::Raised::set(py));
        }
        // SAFETY: `found` is a new reference, or NULL.
        if let Some(capsule) = unsafe { Owned::from_ptr_or_none(py, found) } {
            // SAFETY: only this function stores under the key, always a capsule over an `Arc<Shared>`.
            unsafe {
                let shared = ffi::PyCapsule_GetPointer(capsule.as_ptr(), CAPSULE.as_ptr()).cast::<Shared>();
                if shared.is_null() {
                    return Err(crate::Raised::set(py));
                }
                Arc::increment_strong_count(shared.cast_const());
                return Ok(Self(Arc::from_raw(shared)));
            }
        }
        let shared = Arc::new(Shared {
            id: py.interpreter_id(),
            raw,
            alive: AtomicBool::new(true),
            closing: AtomicBool::new(false),
            users: AtomicUsize::new(0),
            states: Mutex::new(Vec::new()),
            pending: AtomicBool::new(false),
            deferred: Mutex::new(Vec::new()),
        });
        let pointer = Arc::into_raw(shared.clone()).cast_mut().cast::<c_void>();
        // SAFETY: the capsule takes over the count made by `into_raw`; `ended` gives it back.
        unsafe {
            let capsule = ffi::PyCapsule_New(pointer, CAPSULE.as_ptr(), Some(ended));
            if capsule.is_null() {
                drop(Arc::from_raw(pointer.cast::<Shared>()));
            }
            let capsule = Owned::from_ptr(py, capsule)?;
            crate::Raised::check(py, ffi::PyDict_SetItem(dict, key.as_ptr(), capsule.as_ptr()))?;
        }
        Ok(Self(shared))
    }

    /// Its id, never reused in the process; 0 is the main interpreter.
    pub fn id(&self) -> i64 {
        self.0.id
    }

    /// Whether the interpreter has not ended yet.
    pub fn is_alive(&self) -> bool {
        self.0.is_alive()
    }

    /// Whether this thread is attached to this interpreter now.
    #[inline]
    pub fn is_current(&self) -> bool {
        current_interpreter() == self.0.raw.as_ptr() && self.0.is_alive()
    }

    /// Runs `f` attached to this interpreter, on any thread.
    ///
    /// A thread that is attached already goes straight on. Otherwise it waits for its turn, so hold no lock that an attached
    /// thread may want; the thread state is kept for the next time until the thread ends. The result is `Send`, so no
    /// reference gets out. Whoever ends an interpreter sees to it first that no thread still attaches to it.
    pub fn attach<R: Send>(&self, f: impl FnOnce(Attached<'_>) -> R) -> Result<R, Gone> {
        if self.is_current() {
            // SAFETY: just checked; `f` cannot keep the token.
            return Ok(f(unsafe { Attached::assume() }));
        }
        if !self.0.admit() {
            return Err(Gone);
        }
        let _user = User(&self.0);
        let _attachment = Attachment::enter(&self.0).ok_or(Gone)?;
        // SAFETY: attached by the line above until the end of this scope.
        let py = unsafe { Attached::assume() };
        self.drain(py);
        Ok(f(py))
    }

    /// [`Attached::detach`], and the deferred references are given back on return.
    #[inline]
    pub fn detach<R>(&self, py: Attached<'_>, f: impl FnOnce() -> R + Send) -> R {
        let result = py.detach(f);
        self.drain(py);
        result
    }

    /// Drops the references that threads elsewhere have given up. One relaxed load when there are none.
    #[inline]
    pub fn drain(&self, py: Attached<'_>) {
        if self.0.pending.load(Ordering::Relaxed) {
            self.drain_now(py);
        }
    }

    #[cold]
    fn drain_now(&self, py: Attached<'_>) {
        if !self.is_current() {
            return;
        }
        self.0.pending.store(false, Ordering::Relaxed);
        // The lock is released before any destructor runs: that may detach, or defer anew.
        let taken = core::mem::take(&mut *self.0.deferred.lock().unwrap_or_else(PoisonError::into_inner));
        for pointer in taken {
            // SAFETY: the list owned one reference, to an object of this interpreter.
            drop(unsafe { Owned::from_ptr_or_none(py, pointer.as_ptr()) });
        }
    }

    /// Hands one reference over, from a thread that is not attached here. Leaks it if the interpreter has ended.
    pub(crate) fn defer(&self, pointer: NonNull<ffi::PyObject>) {
        if self.0.is_alive() {
            let mut list = self.0.deferred.lock().unwrap_or_else(PoisonError::into_inner);
            list.push(pointer);
            self.0.pending.store(true, Ordering::Relaxed);
        }
    }
}

impl fmt::Debug for Interpreter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Interpreter").field("id", &self.0.id).field("alive", &self.is_alive()).finish()
    }
}

impl PartialEq for Interpreter {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Interpreter {}

/// Destructor of the capsule: the interpreter's dict is being cleared.
unsafe extern "C" fn ended(capsule: *mut ffi::PyObject) {
    // SAFETY: the capsule was made by `Interpreter::current` over one count of an `Arc<Shared>`, given back here.
    unsafe {
        let shared = ffi::PyCapsule_GetPointer(capsule, CAPSULE.as_ptr()).cast::<Shared>();
        if !shared.is_null() {
            let shared = Arc::from_raw(shared.cast_const());
            shared.set_ended();
        }
    }
}

/// Somebody who was admitted.
struct User<'a>(&'a Shared);

impl Drop for User<'_> {
    fn drop(&mut self) {
        self.0.depart();
    }
}
