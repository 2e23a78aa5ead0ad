//! Attaching, detaching, and references that travel.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests count as tests"
)]

mod common;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use common::{attached, eval, python, run};
use pyrt::*;

#[test]
fn attach_keeps_one_thread_state_per_thread() {
    let id = |py: Attached<'_>| eval(py, "__import__('threading').get_ident()").to_u64(py).unwrap();
    let local = "result = vars(__import__('builtins')).setdefault('_local', __import__('threading').local())";
    attached(|py| {
        let local = run(py, local).unwrap();
        local.setattr(py, &Owned::str(py, "mark").unwrap(), &Owned::int(py, 7).unwrap()).unwrap();
    });
    let (first, mark) = attached(|py| {
        let local = run(py, local).unwrap();
        (id(py), local.getattr_str(py, c"mark").unwrap().to_i64(py).unwrap())
    });
    assert_eq!(mark, 7, "thread-locals of Python survive detaching");
    let other = std::thread::spawn(move || attached(id)).join().unwrap();
    assert_ne!(first, other);
}

#[test]
fn attach_nests_on_an_attached_thread() {
    let sum = attached(|py| {
        let one = Owned::int(py, 1).unwrap();
        python().attach(|py| Owned::int(py, 2).unwrap().to_i64(py).unwrap()).unwrap()
            + one.to_i64(py).unwrap()
    });
    assert_eq!(sum, 3);
}

#[test]
fn detach_lets_another_thread_in() {
    attached(|py| {
        let (ask, asked) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            attached(|py| Owned::int(py, 1).unwrap().to_i64(py).unwrap());
            ask.send(()).unwrap();
        });
        let asked = std::sync::Mutex::new(asked);
        py.detach(|| asked.lock().unwrap().recv_timeout(Duration::from_secs(10))).unwrap();
        py.detach(|| thread.join()).unwrap();
    });
}

#[test]
fn detach_attaches_again_after_a_panic() {
    attached(|py| {
        let caught =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| py.detach(|| panic!("inside"))));
        assert!(caught.is_err());
        assert_eq!(eval(py, "1 + 1").to_i64(py).unwrap(), 2);
    });
}

#[test]
fn many_threads_attach_at_once() {
    let total = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..200 {
                    attached(|py| {
                        total.fetch_add(eval(py, "len('abc')").to_usize(py).unwrap(), Ordering::Relaxed);
                        py.detach(std::thread::yield_now);
                    });
                }
            });
        }
    });
    assert_eq!(total.into_inner(), 8 * 200 * 3);
}

/// An object that says when it is gone, and the weak reference that knows.
const MORTAL: &str = "
import weakref
class Mortal: pass
mortal = Mortal()
result = (mortal, weakref.ref(mortal))
";

fn mortal(py: Attached<'_>) -> (Owned, Owned) {
    let pair = run(py, MORTAL).unwrap();
    let [object, weak] = pair.as_tuple(py).unwrap() else { panic!("a pair") };
    (object.clone_ref(py), weak.clone_ref(py))
}

#[test]
fn remote_dropped_elsewhere_is_given_back_at_the_next_drain() {
    let (remote, weak) = attached(|py| {
        let (object, weak) = mortal(py);
        (Remote::new(py, object, python()).unwrap(), Remote::new(py, weak, python()).unwrap())
    });
    std::thread::spawn(move || drop(remote)).join().unwrap();
    attached(|py| {
        // attach has drained
        assert!(weak.get(py).unwrap().call0(py).unwrap().is_none());
    });
    drop(weak);
}

#[test]
fn remote_dropped_attached_is_given_back_at_once() {
    attached(|py| {
        let (object, weak) = mortal(py);
        let remote = Remote::new(py, object, python()).unwrap();
        assert!(!weak.call0(py).unwrap().is_none());
        drop(remote);
        assert!(weak.call0(py).unwrap().is_none());
    });
}

#[test]
fn remote_survives_a_journey() {
    let remote = attached(|py| Remote::new(py, Owned::str(py, "hello").unwrap(), python()).unwrap());
    let length =
        std::thread::spawn(move || attached(|py| remote.into_owned(py).unwrap().to_str(py).unwrap().len()));
    assert_eq!(length.join().unwrap(), 5);
}

#[test]
fn drain_happens_after_a_detach_through_the_interpreter() {
    let (remote, weak) = attached(|py| {
        let (object, weak) = mortal(py);
        (Remote::new(py, object, python()).unwrap(), Remote::new(py, weak, python()).unwrap())
    });
    attached(|py| {
        let done = AtomicBool::new(false);
        python().detach(py, || {
            drop(remote);
            done.store(true, Ordering::Relaxed);
        });
        assert!(done.into_inner());
        assert!(weak.get(py).unwrap().call0(py).unwrap().is_none());
    });
}

#[test]
fn interpreter_is_found_once() {
    attached(|py| {
        let again = Interpreter::current(py).unwrap();
        assert_eq!(&again, python());
        assert_eq!(again.id(), 0);
        assert!(again.is_current());
    });
    assert!(!python().is_current());
    assert!(python().is_alive());
}
