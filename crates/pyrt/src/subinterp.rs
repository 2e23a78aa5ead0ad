//! Interpreters with a GIL of their own (PEP 684): made, and ended, by one thread. Python 3.12 and later.
//!
//! Which thread states there are decides how one ends: CPython gives up the whole process if it finds any but the last. So
//! [`Interpreter::end`] goes step by step: 1. nobody is admitted any more; 2. those who are attached leave; 3. the states that other
//! threads keep are deleted; 4. the threads of Python itself are waited for; 5. only then is it ended. If 2. or 4. take too long it
//! stays as it is, for good.

use core::ptr::NonNull;
use std::time::{Duration, Instant};

use crate::{Attached, Interpreter, ffi, thread};

/// How often is looked whether the others have gone.
const PAUSE: Duration = Duration::from_millis(1);
/// A thread that has given up its state still has a few instructions to go in which it looks at the interpreter.
const AFTER: Duration = Duration::from_millis(10);

impl Interpreter {
    /// A new one, made by a thread that is attached to the main one, and stays so. The error is the runtime's own text.
    ///
    /// It refuses extension modules that are not made for it, daemon threads, `fork` and `exec`.
    #[cfg(Py_3_12)]
    pub fn create(_py: Attached<'_>) -> Result<Self, String> {
        let config = ffi::PyInterpreterConfig {
            use_main_obmalloc: 0,
            allow_fork: 0,
            allow_exec: 0,
            allow_threads: 1,
            allow_daemon_threads: 0,
            check_multi_interp_extensions: 1,
            gil: ffi::PyInterpreterConfig_OWN_GIL,
        };
        let before = thread::current();
        let mut state = core::ptr::null_mut();
        // SAFETY: attached, by the token. The thread is attached to the new interpreter on success, and as before otherwise.
        unsafe {
            crate::embed::check(ffi::Py_NewInterpreterFromConfig(&mut state, &config))?;
            let made = Self::current(Attached::assume()).map_err(|raised| {
                let py = Attached::assume();
                raised.take(py).describe(py)
            });
            ffi::PyEval_SaveThread();
            ffi::PyEval_RestoreThread(before);
            let made = made?;
            match NonNull::new(state) {
                Some(state) if thread::adopt(&made.0, state) => Ok(made),
                _ => Err(String::from("the thread is ending")),
            }
        }
    }

    /// Python 3.11 has one GIL for all.
    #[cfg(not(Py_3_12))]
    pub fn create(_py: Attached<'_>) -> Result<Self, String> {
        Err(String::from("interpreters with a GIL of their own need Python 3.12 or later"))
    }

    /// Ends an interpreter that this thread has made, and is not attached to. `last` runs when nobody else can attach.
    ///
    /// False if threads of others, or of Python, did not leave in time: it is left alone then, and nobody attaches to it again.
    pub fn end(&self, patience: Duration, last: impl FnOnce(Attached<'_>)) -> bool {
        let Some(state) = thread::find(&self.0).filter(|_| self.id() != 0 && !self.is_current()) else {
            return false;
        };
        let deadline = Instant::now() + patience;
        self.0.close();
        while self.0.is_used() {
            if Instant::now() > deadline {
                return false;
            }
            std::thread::sleep(PAUSE);
        }
        let before = thread::current();
        // SAFETY: the state is this thread's own and not current. The states of others are not touched by them any more, for
        // nobody is admitted. The interpreter is ended with its last state, which is current and runs nothing.
        unsafe {
            if !before.is_null() {
                ffi::PyEval_SaveThread();
            }
            ffi::PyEval_RestoreThread(state.as_ptr());
            for other in self.0.take_states() {
                if other != state {
                    ffi::PyThreadState_Clear(other.as_ptr());
                    ffi::PyThreadState_Delete(other.as_ptr());
                }
            }
            let alone = self.wait_alone(state, deadline);
            if alone {
                let py = Attached::assume();
                self.drain(py);
                last(py);
                self.forget_memory();
                ffi::Py_EndInterpreter(state.as_ptr());
                self.0.set_ended();
            } else {
                ffi::PyEval_SaveThread();
            }
            if !before.is_null() {
                ffi::PyEval_RestoreThread(before);
            }
            alone
        }
    }

    /// Waits, attached with `state`, until there is no other.
    ///
    /// # Safety
    /// `state` is current on this thread and of this interpreter.
    unsafe fn wait_alone(&self, state: NonNull<ffi::PyThreadState>, deadline: Instant) -> bool {
        let mut pause = None;
        loop {
            // SAFETY: attached to the interpreter, so its list of states holds still: with its own GIL they come and go attached.
            let alone = unsafe {
                let head = ffi::PyInterpreterState_ThreadHead(self.0.raw());
                head == state.as_ptr() && ffi::PyThreadState_Next(head).is_null()
            };
            match pause {
                None | Some(AFTER) if alone => return true,
                _ if Instant::now() > deadline => return false,
                _ => {}
            }
            let rest = if alone { AFTER } else { PAUSE };
            pause = Some(rest);
            // SAFETY: attached, by contract, and again afterwards.
            unsafe {
                ffi::PyEval_SaveThread();
                std::thread::sleep(rest);
                ffi::PyEval_RestoreThread(state.as_ptr());
            }
        }
    }
}
