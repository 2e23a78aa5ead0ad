//! Own-GIL sub-interpreters: one pinned thread each, thread states of our own, references that stay at home.
#![cfg(Py_3_12)]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests count as tests"
)]

mod common;

use common::{attached, eval, python};
use pyo3_ffi as ffi;
use pyrt::*;

/// Makes an own-GIL interpreter. It is never ended: below 3.14 that is not safe.
fn isolated() -> Interpreter {
    attached(|_| {
        let config = ffi::PyInterpreterConfig {
            use_main_obmalloc: 0,
            allow_fork: 0,
            allow_exec: 0,
            allow_threads: 1,
            allow_daemon_threads: 0,
            check_multi_interp_extensions: 1,
            gil: ffi::PyInterpreterConfig_OWN_GIL,
        };
        let mut new = std::ptr::null_mut();
        // SAFETY: attached; making an interpreter switches this thread to it, and the last line switches back.
        unsafe {
            let before = ffi::PyThreadState_Get();
            let status = ffi::Py_NewInterpreterFromConfig(&mut new, &config);
            assert_eq!(ffi::PyStatus_Exception(status), 0);
            let made = Interpreter::current(Attached::assume()).unwrap();
            ffi::PyThreadState_Swap(before);
            made
        }
    })
}

#[test]
fn threads_attach_to_an_interpreter_of_their_own() {
    let (one, two) = (isolated(), isolated());
    assert_ne!(one.id(), two.id());
    let work = |interpreter: Interpreter| {
        std::thread::spawn(move || {
            for _ in 0..50 {
                let id = interpreter
                    .attach(|py| {
                        assert_eq!(eval(py, "sum(range(1000))").to_i64(py).unwrap(), 499_500);
                        py.interpreter_id()
                    })
                    .unwrap();
                assert_eq!(id, interpreter.id());
            }
        })
    };
    for thread in [work(one.clone()), work(two.clone()), work(one), work(two)] {
        thread.join().unwrap();
    }
}

#[test]
fn attach_steps_out_of_another_interpreter_and_back() {
    let other = isolated();
    attached(|py| {
        let here = eval(py, "[1, 2]");
        let id = other.attach(|py| {
            assert_eq!(python().attach(|py| py.interpreter_id()).unwrap(), 0);
            eval(py, "1");
            py.interpreter_id()
        });
        assert_eq!(id.unwrap(), other.id());
        assert_eq!(py.interpreter_id(), 0);
        assert_eq!(here.len(py).unwrap(), 2);
    });
}

#[test]
fn remote_stays_out_of_foreign_interpreters() {
    let other = isolated();
    let remote = other.attach(|py| Remote::new(py, eval(py, "[1]"), &other).unwrap()).unwrap();
    let remote = attached(|py| {
        assert!(remote.get(py).is_none());
        assert!(Remote::new(py, eval(py, "[2]"), &other).is_err());
        remote.into_owned(py).unwrap_err()
    });
    attached(|_| drop(remote)); // queued, not touched
    other.attach(|py| eval(py, "1").to_i64(py).unwrap()).unwrap();
}
