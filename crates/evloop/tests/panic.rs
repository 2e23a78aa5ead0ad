//! Panics: contained where they happen, counted, reported; the loop lives.
#![allow(clippy::unwrap_used)]

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::{on_loop, started};
use evloop::{Interest, JoinError, Local};
use futures_lite::future::block_on;

#[test]
fn a_panic_in_a_posted_closure_is_contained_and_counted() {
    let events = started();
    events.post(|| panic!("on purpose")).unwrap();
    assert_eq!(on_loop(&events, || 7), 7);
    assert_eq!(events.stats().panics, 1);
    let report = events.stop().report().unwrap();
    assert_eq!((report.panics, report.accepted, report.executed), (1, 2, 2));
}

#[test]
fn a_panic_in_a_timer_a_future_or_a_readiness_callback_is_contained() {
    let events = started();
    events.call_later(Duration::ZERO, || panic!("on purpose: timer")).unwrap();
    let task = events.spawn(async { panic!("on purpose: {}", "future") }).unwrap();
    assert_eq!(block_on(task), Err::<(), _>(JoinError::Panicked("on purpose: future".into())));
    let made = events.spawn_with(|| -> std::future::Ready<()> { panic!("on purpose: made") }).unwrap();
    assert_eq!(block_on(made), Err(JoinError::Panicked("on purpose: made".into())));
    let (read, write) = rustix::pipe::pipe().unwrap();
    rustix::io::write(&write, b"x").unwrap();
    events
        .post(move || {
            let local = Local::current().unwrap();
            let token = Arc::new(std::sync::OnceLock::new());
            let inside = token.clone();
            let again = local.clone();
            let source = local
                .register(read, Interest::READ, move |_| {
                    again.deregister(*inside.get().unwrap()).unwrap();
                    panic!("on purpose: readiness");
                })
                .unwrap();
            token.set(source).unwrap();
        })
        .unwrap();
    common::eventually("four panics are counted", || events.stats().panics == 4);
    assert_eq!(on_loop(&events, || 7), 7);
}

#[test]
fn a_panic_in_a_destructor_is_contained() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            if !std::thread::panicking() {
                panic!("on purpose: destructor");
            }
        }
    }
    let events = started();
    let (timer, task, cancelled) = (Bomb, Bomb, Bomb);
    events.call_later(Duration::from_secs(3600), move || drop(timer)).unwrap();
    let handle = events.call_later(Duration::from_secs(3600), move || drop(cancelled)).unwrap();
    drop(
        events
            .spawn(async move {
                let _task = task;
                std::future::pending::<()>().await;
            })
            .unwrap(),
    );
    on_loop(&events, || ());
    assert!(handle.cancel());
    common::eventually("the cancelled timer's panic is counted", || {
        on_loop(&events, || ());
        events.stats().panics == 1
    });
    let report = events.stop().report().unwrap();
    assert_eq!((report.panics, report.dropped_timers, report.dropped_tasks), (3, 1, 1));
}

#[test]
fn a_payload_that_panics_when_dropped_is_contained() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("on purpose: payload");
        }
    }
    let events = started();
    events.post(|| std::panic::panic_any(Bomb)).unwrap();
    assert_eq!(on_loop(&events, || 7), 7);
    assert_eq!(events.stop().report().unwrap().panics, 1);
}
