//! Posting: accepted means run, rejected means given back.
#![allow(clippy::unwrap_used)]

mod common;

use std::cell::Cell;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier, mpsc};

use common::{on_loop, started};
use evloop::{Config, EventLoop, Local, State};

#[test]
fn post_before_start_gives_the_closure_back_and_never_runs_it() {
    let events = EventLoop::new();
    let ran = Arc::new(AtomicBool::new(false));
    let flag = ran.clone();
    let rejected = events.post(move || flag.store(true, Ordering::SeqCst)).unwrap_err();
    assert_eq!(rejected.state(), State::Idle);
    assert!(rejected.to_string().contains("call start first"), "{rejected}");
    events.start(Config::default()).unwrap();
    on_loop(&events, || ());
    assert!(!ran.load(Ordering::SeqCst));
    rejected.into_inner()();
    assert!(ran.load(Ordering::SeqCst));
}

#[test]
fn post_after_stop_gives_the_closure_back_and_never_runs_it() {
    let events = started();
    let report = events.stop().report().unwrap();
    let payload = String::from("mine");
    let rejected = events.post(move || drop(payload)).unwrap_err();
    assert_eq!(rejected.state(), State::Stopped);
    assert!(rejected.to_string().contains("make a new EventLoop"), "{rejected}");
    assert_eq!(report.accepted, 0);
    assert_eq!(events.stats().accepted, 0);
    assert!(events.call_later(std::time::Duration::ZERO, || ()).is_err());
    assert!(events.spawn(async {}).is_err());
}

#[test]
fn posts_of_one_thread_run_in_order() {
    let events = started();
    let (tx, rx) = mpsc::channel();
    for i in 0..10_000 {
        let tx = tx.clone();
        events.post(move || tx.send(i).unwrap()).unwrap();
    }
    drop(tx);
    assert!(rx.iter().eq(0..10_000));
}

#[test]
fn eight_posters_racing_a_stop_a_thousand_times_lose_nothing() {
    for round in 0..1000 {
        let events = started();
        let (accepted, executed) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let barrier = Arc::new(Barrier::new(9));
        let posters: Vec<_> = (0..8)
            .map(|_| {
                let (events, barrier) = (events.clone(), barrier.clone());
                let (accepted, executed) = (accepted.clone(), executed.clone());
                std::thread::spawn(move || {
                    barrier.wait();
                    let mut mine = 0;
                    // Enough to be under way when the stop comes, and few enough to drain soon.
                    for _ in 0..400 {
                        let executed = executed.clone();
                        let job = move || {
                            executed.fetch_add(1, Ordering::Relaxed);
                        };
                        if events.post(job).is_err() {
                            break;
                        }
                        mine += 1;
                    }
                    accepted.fetch_add(mine, Ordering::Relaxed);
                })
            })
            .collect();
        barrier.wait();
        // Some rounds stop at once, some only when posts have been seen to run.
        while executed.load(Ordering::Relaxed) < round % 50 {
            std::hint::spin_loop();
        }
        let report = events.stop().report().unwrap();
        for poster in posters {
            poster.join().unwrap();
        }
        let (accepted, executed) = (accepted.load(Ordering::Relaxed), executed.load(Ordering::Relaxed));
        assert_eq!(accepted, executed, "round {round}");
        assert_eq!((report.accepted, report.executed), (accepted, executed), "round {round}");
    }
}

#[test]
fn nested_posts_to_a_depth_of_100_000_do_not_recurse() {
    fn next(events: &EventLoop, left: u32, done: mpsc::Sender<()>) {
        if left == 0 {
            done.send(()).unwrap();
            return;
        }
        let again = events.clone();
        events.post(move || next(&again, left - 1, done)).unwrap();
    }
    let events = started();
    let (tx, rx) = mpsc::channel();
    next(&events, 100_000, tx);
    rx.recv().unwrap();
    assert_eq!(events.stop().report().unwrap().executed, 100_000);
}

#[test]
fn a_post_from_the_destructor_of_a_posted_object_runs() {
    struct PostsWhenDropped(EventLoop, mpsc::Sender<&'static str>);
    impl Drop for PostsWhenDropped {
        fn drop(&mut self) {
            let tx = self.1.clone();
            self.0.post(move || tx.send("from the destructor").unwrap()).unwrap();
        }
    }
    let events = started();
    let (tx, rx) = mpsc::channel();
    let object = PostsWhenDropped(events.clone(), tx);
    events.post(move || drop(object)).unwrap();
    assert_eq!(rx.recv().unwrap(), "from the destructor");
}

#[test]
fn a_storm_from_sixteen_threads_runs_whole() {
    const EACH: u64 = 20_000;
    let events = started();
    let sum = Arc::new(AtomicU64::new(0));
    let posters: Vec<_> = (0..16)
        .map(|_| {
            let (events, sum) = (events.clone(), sum.clone());
            std::thread::spawn(move || {
                for i in 0..EACH {
                    let sum = sum.clone();
                    let add = move || {
                        sum.fetch_add(i, Ordering::Relaxed);
                    };
                    events.post(add).unwrap();
                }
            })
        })
        .collect();
    for poster in posters {
        poster.join().unwrap();
    }
    let report = events.stop().report().unwrap();
    assert_eq!((report.accepted, report.executed), (16 * EACH, 16 * EACH));
    assert_eq!(sum.load(Ordering::Relaxed), 16 * (EACH * (EACH - 1) / 2));
}

#[test]
fn a_busy_poster_does_not_starve_timers() {
    let events = started();
    let (tx, rx) = mpsc::channel();
    events.call_later(std::time::Duration::from_millis(5), move || tx.send(()).unwrap()).unwrap();
    fn for_ever(events: &EventLoop, on: Arc<AtomicBool>) {
        if on.load(Ordering::Relaxed) {
            let again = events.clone();
            let _ = events.post(move || for_ever(&again, on));
        }
    }
    let on = Arc::new(AtomicBool::new(true));
    for_ever(&events, on.clone());
    rx.recv().unwrap();
    on.store(false, Ordering::Relaxed);
}

#[test]
fn the_loop_knows_its_own_thread() {
    let events = started();
    assert!(!events.is_loop_thread());
    let inside = events.clone();
    assert!(on_loop(&events, move || inside.is_loop_thread()));
    let other = started();
    let inside = events.clone();
    assert!(!on_loop(&other, move || inside.is_loop_thread()));
    assert_eq!(Local::current().unwrap_err(), evloop::Error::NotOnLoop);
}

#[test]
fn what_stays_on_the_loop_need_not_be_send() {
    let events = started();
    let (tx, rx) = mpsc::channel();
    events
        .post(move || {
            let shared = Rc::new(Cell::new(1));
            let inner = shared.clone();
            let local = Local::current().unwrap();
            local.call_later(std::time::Duration::ZERO, move || tx.send(inner.get()).unwrap()).unwrap();
            shared.set(2);
        })
        .unwrap();
    assert_eq!(rx.recv().unwrap(), 2);
}
