//! Starting and stopping: who waits for what, and what is left at the end.
#![allow(clippy::unwrap_used)]

mod common;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier, mpsc};
use std::time::Duration;

use common::{on_loop, started};
use evloop::{Config, Error, EventLoop, JoinError, State, StopOutcome, sleep};
use futures_lite::future::block_on;

#[test]
fn start_and_stop_a_thousand_times() {
    for _ in 0..1000 {
        let events = started();
        assert_eq!(events.state(), State::Running);
        assert!(matches!(events.stop(), StopOutcome::Finished(_)));
        assert_eq!(events.state(), State::Stopped);
    }
}

#[test]
fn start_is_idempotent_and_refuses_another_configuration() {
    let events = started();
    events.start(Config::default()).unwrap();
    assert_eq!(events.start(Config::named("other")), Err(Error::AlreadyStarted));
    assert_eq!(events.drive(Config::named("other")).unwrap_err(), Error::AlreadyStarted);
    assert_eq!(events.drive(Config::default()).unwrap_err(), Error::AlreadyStarted, "there is one driver");
    on_loop(&events, || ());
    let _ = events.stop();
    assert_eq!(events.start(Config::default()), Err(Error::Stopped));
}

#[test]
fn racing_starts_make_one_loop() {
    for _ in 0..100 {
        let events = EventLoop::new();
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let events = events.clone();
                std::thread::spawn(move || events.start(Config::default()).unwrap())
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        on_loop(&events, || ());
    }
}

#[test]
fn a_loop_that_never_started_stops_at_once() {
    let events = EventLoop::new();
    assert_eq!(events.stop().report().unwrap(), Default::default());
    assert_eq!(events.start(Config::default()), Err(Error::Stopped));
}

#[test]
fn stop_drains_what_was_accepted() {
    let events = started();
    let (gate_tx, gate_rx) = mpsc::channel::<()>();
    events.post(move || gate_rx.recv().unwrap()).unwrap();
    let ran = Arc::new(AtomicU64::new(0));
    for _ in 0..1000 {
        let ran = ran.clone();
        let job = move || {
            ran.fetch_add(1, Ordering::Relaxed);
        };
        events.post(job).unwrap();
    }
    assert_eq!(events.stop_timeout(Duration::from_millis(20)), StopOutcome::Draining);
    assert_eq!(events.state(), State::Stopping);
    assert!(events.post(|| ()).is_err(), "refused as soon as the stop has begun");
    assert_eq!(ran.load(Ordering::Relaxed), 0);
    gate_tx.send(()).unwrap();
    let report = events.stop().report().unwrap();
    assert_eq!((report.accepted, report.executed), (1001, 1001));
    assert_eq!(ran.load(Ordering::Relaxed), 1000);
}

#[test]
fn two_concurrent_stops_both_return_after_the_end() {
    for _ in 0..200 {
        let events = started();
        let done = Arc::new(AtomicU64::new(0));
        let (slow, gate) = (done.clone(), Arc::new(Barrier::new(3)));
        let opened = gate.clone();
        let job = move || {
            opened.wait();
            std::thread::yield_now();
            slow.store(1, Ordering::SeqCst);
        };
        events.post(job).unwrap();
        let stoppers: Vec<_> = (0..2)
            .map(|_| {
                let (events, gate, done) = (events.clone(), gate.clone(), done.clone());
                std::thread::spawn(move || {
                    gate.wait();
                    let report = events.stop().report().unwrap();
                    assert_eq!(done.load(Ordering::SeqCst), 1, "returned before the end");
                    assert_eq!(events.state(), State::Stopped);
                    report
                })
            })
            .collect();
        let reports: Vec<_> = stoppers.into_iter().map(|stopper| stopper.join().unwrap()).collect();
        assert_eq!(reports[0], reports[1]);
    }
}

#[test]
fn stop_from_a_callback_returns_at_once_and_the_rest_drains_after_it() {
    let events = started();
    let (tx, rx) = mpsc::channel();
    let (inside, stopped) = (events.clone(), tx.clone());
    let job = move || {
        for i in 0..100 {
            let tx = stopped.clone();
            inside.post(move || tx.send(i).unwrap()).unwrap();
        }
        assert_eq!(inside.stop(), StopOutcome::Draining);
        assert!(inside.post(|| panic!("never runs")).is_err());
        stopped.send(-1).unwrap();
    };
    events.post(job).unwrap();
    drop(tx);
    let expected: Vec<i32> = std::iter::once(-1).chain(0..100).collect();
    assert_eq!(rx.iter().collect::<Vec<_>>(), expected);
    let report = events.stop().report().unwrap();
    assert_eq!((report.accepted, report.executed), (101, 101));
    assert_eq!(report.panics, 0);
}

#[test]
fn pending_timers_and_futures_are_dropped_at_stop_on_the_loop_thread() {
    struct Tells(mpsc::Sender<(&'static str, bool)>, &'static str, evloop::WeakLoop);
    impl Drop for Tells {
        fn drop(&mut self) {
            let on_loop = self.2.upgrade().is_some_and(|events| events.is_loop_thread());
            self.0.send((self.1, on_loop)).unwrap();
        }
    }
    let events = started();
    let (tx, rx) = mpsc::channel();
    let tells = |name| Tells(tx.clone(), name, events.downgrade());
    let (late, early, task) = (tells("late timer"), tells("early timer"), tells("future"));
    events.call_later(Duration::from_secs(7200), move || drop(late)).unwrap();
    events.call_later(Duration::from_secs(3600), move || drop(early)).unwrap();
    let waiting = events
        .spawn(async move {
            let _task = task;
            sleep(Duration::from_secs(3600)).await
        })
        .unwrap();
    // The second time is in a later turn than the one in which the task was polled, and so sleeps.
    on_loop(&events, || ());
    on_loop(&events, || ());
    let report = events.stop().report().unwrap();
    drop(tx);
    let dropped: Vec<_> = rx.iter().collect();
    assert_eq!(dropped, [("future", true), ("early timer", true), ("late timer", true)]);
    // The sleep's own timer went with its future.
    assert_eq!((report.dropped_tasks, report.dropped_timers), (1, 2));
    assert_eq!(block_on(waiting), Err(JoinError::Cancelled));
}

#[test]
fn a_destructor_at_stop_may_use_the_loop_and_is_refused() {
    struct Posts(EventLoop, mpsc::Sender<bool>);
    impl Drop for Posts {
        fn drop(&mut self) {
            let refused = self.0.post(|| ()).is_err()
                && self.0.call_later(Duration::ZERO, || ()).is_err()
                && self.0.spawn(async {}).is_err()
                && evloop::Local::current().is_ok_and(|local| {
                    local.call_later(Duration::ZERO, || ()).is_err() && local.spawn(async {}).is_err()
                });
            self.1.send(refused).unwrap();
        }
    }
    let events = started();
    let (tx, rx) = mpsc::channel();
    let object = Posts(events.clone(), tx);
    events.call_later(Duration::from_secs(3600), move || drop(object)).unwrap();
    on_loop(&events, || ());
    let report = events.stop().report().unwrap();
    assert!(rx.recv().unwrap());
    assert_eq!((report.dropped_timers, report.panics), (1, 0));
}

#[test]
fn dropping_the_last_handle_elsewhere_stops_and_joins() {
    let (tx, rx) = mpsc::channel();
    let events = started();
    for i in 0..100 {
        let tx = tx.clone();
        events.post(move || tx.send(i).unwrap()).unwrap();
    }
    drop(tx);
    let clone = events.clone();
    drop(events);
    assert_eq!(clone.state(), State::Running);
    let weak = clone.downgrade();
    drop(clone);
    assert!(weak.upgrade().is_none());
    assert!(rx.try_iter().eq(0..100), "everything ran before the drop returned");
}

#[test]
fn the_last_handle_is_really_the_one_inside() {
    let events = started();
    let (gate_tx, gate_rx) = mpsc::channel::<()>();
    let (tx, rx) = mpsc::channel();
    let last = events.clone();
    let weak = events.downgrade();
    events
        .post(move || {
            gate_rx.recv().unwrap();
            drop(last);
            tx.send(weak.upgrade().is_none()).unwrap();
        })
        .unwrap();
    drop(events);
    gate_tx.send(()).unwrap();
    assert!(rx.recv().unwrap());
    assert!(rx.recv().is_err(), "the loop ended and dropped the sender");
}
