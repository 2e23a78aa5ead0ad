//! `Attached`: the proof that this thread is attached to an interpreter, and the way to step out of it.
//!
//! Being attached means having a current thread state; with a GIL it also means holding it. The token is zero-sized,
//! `Copy`, and bound to its thread: it is neither `Send` nor `Sync`.

use core::marker::PhantomData;

use crate::ffi;

/// Whether being attached keeps other threads from being so, to the same interpreter.
pub const HAS_GIL: bool = cfg!(not(Py_GIL_DISABLED));

/// Proof that the current thread is attached. Every call that may touch an object asks for one.
///
/// `'py` lasts as long as the scope that gave the token: the body of a native method, or the closure of
/// [`Interpreter::attach`](crate::Interpreter::attach).
///
/// A token does not name its interpreter. References cannot reach another one, as they are not `Send`; a payload borrowed across
/// `detach` into `attach` of another interpreter could, and must not.
#[derive(Clone, Copy)]
pub struct Attached<'py>(PhantomData<(&'py (), *mut ())>);

impl<'py> Attached<'py> {
    /// Takes it for granted that this thread is attached for all of `'py`.
    ///
    /// # Safety
    /// The thread has a current thread state and keeps it, detaching only through this token, for as long as `'py`.
    #[inline]
    pub const unsafe fn assume() -> Self {
        Self(PhantomData)
    }

    /// Runs `f` detached, so that other threads may run Python, and attaches again, also when `f` panics.
    ///
    /// `Send` is the rule that keeps Python out of `f`: the token and every reference (`Owned`, `Borrowed`, `Instance`)
    /// are not `Send`, so `f` cannot capture one. References to things which are `Sync`, payloads included, may enter;
    /// they give nothing away without a token.
    ///
    /// ```compile_fail
    /// fn wait(py: pyrt::Attached<'_>, object: pyrt::Owned) {
    ///     py.detach(|| drop(object));
    /// }
    /// ```
    ///
    /// ```compile_fail
    /// fn wait(py: pyrt::Attached<'_>) {
    ///     py.detach(|| pyrt::Owned::none(py));
    /// }
    /// ```
    #[inline]
    pub fn detach<R>(self, f: impl FnOnce() -> R + Send) -> R {
        // SAFETY: a closure that is `Send` holds no token and no reference to an object, so it cannot reach Python.
        unsafe { self.detach_unchecked(f) }
    }

    /// [`detach`](Self::detach) for a closure over things which are not `Send`, such as a poller owned by one thread.
    ///
    /// # Safety
    /// `f` neither touches an object nor drops a reference, and uses no token.
    #[inline]
    pub unsafe fn detach_unchecked<R>(self, f: impl FnOnce() -> R) -> R {
        struct Restore(*mut ffi::PyThreadState);
        impl Drop for Restore {
            #[inline]
            fn drop(&mut self) {
                // SAFETY: the state was saved by this very thread, which has not attached since.
                unsafe { ffi::PyEval_RestoreThread(self.0) }
            }
        }
        // SAFETY: the token proves that the thread is attached.
        let _restore = Restore(unsafe { ffi::PyEval_SaveThread() });
        f()
    }

    /// The id of the interpreter this thread is attached to: 0 is the main one. Ids are never reused.
    pub fn interpreter_id(self) -> i64 {
        // SAFETY: attached, so there is a current interpreter.
        unsafe { ffi::PyInterpreterState_GetID(ffi::PyInterpreterState_Get()) }
    }
}
