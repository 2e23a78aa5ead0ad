//! Driving a loop from outside: turns on the caller's thread, and parking so that somebody else waits.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod common;

use std::cell::Cell;
use std::os::fd::BorrowedFd;
use std::rc::Rc;
use std::sync::mpsc;
use std::time::Duration;

use evloop::{Config, Error, EventLoop, Local, State, StopOutcome, Turn, Wait};
use rustix::event::{PollFd, PollFlags, poll};

/// Whether `fd` becomes readable within `millis`, the way somebody else would find out.
fn readable(fd: BorrowedFd<'_>, millis: i64) -> bool {
    let timeout = rustix::event::Timespec { tv_sec: millis / 1000, tv_nsec: millis % 1000 * 1_000_000 };
    poll(&mut [PollFd::from_borrowed_fd(fd, PollFlags::IN)], Some(&timeout)).unwrap() == 1
}

#[test]
fn turns_run_what_was_posted_on_the_drivers_thread() {
    let events = EventLoop::new();
    let driver = events.drive(Config::default()).unwrap();
    assert!(events.is_loop_thread());
    let (tx, rx) = mpsc::channel();
    let here = std::thread::current().id();
    events.post(move || tx.send(std::thread::current().id()).unwrap()).unwrap();
    assert!(rx.try_recv().is_err(), "nothing runs by itself");
    assert_eq!(driver.turn(Wait::No), Ok(Turn::Running));
    assert_eq!(rx.try_recv().unwrap(), here);
}

#[test]
fn a_parked_loop_is_readable_for_a_post_a_timer_and_a_wake_and_silent_otherwise() {
    let events = EventLoop::new();
    let driver = events.drive(Config::default()).unwrap();
    assert!(driver.park().unwrap());
    assert!(!readable(driver.poll_fd(), 20));
    let poster = events.clone();
    std::thread::spawn(move || poster.post(|| ()).unwrap()).join().unwrap();
    assert!(readable(driver.poll_fd(), 60_000));
    assert_eq!(driver.turn(Wait::No), Ok(Turn::Running));
    assert_eq!(events.stats().executed, 1);
    assert!(driver.park().unwrap());
    assert!(!readable(driver.poll_fd(), 0), "dealt with");
    assert_eq!(driver.turn(Wait::No), Ok(Turn::Running));

    let fired = Rc::new(Cell::new(false));
    let flag = fired.clone();
    driver.local().call_later(Duration::from_millis(5), move || flag.set(true)).unwrap();
    assert!(driver.park().unwrap());
    assert!(readable(driver.poll_fd(), 60_000));
    assert_eq!(driver.turn(Wait::No), Ok(Turn::Running));
    assert!(fired.get(), "not readable before it was due");
    assert!(driver.park().unwrap());
    assert!(!readable(driver.poll_fd(), 20), "the deadline does not stay armed");
}

#[test]
fn a_cancelled_timer_leaves_no_deadline_behind() {
    let events = EventLoop::new();
    let driver = events.drive(Config::default()).unwrap();
    let timer = driver.local().call_later(Duration::from_millis(5), || ()).unwrap();
    assert!(driver.park().unwrap(), "armed");
    assert_eq!(driver.turn(Wait::No), Ok(Turn::Running));
    assert_eq!(driver.local().cancel(timer), Ok(true));
    assert!(driver.park().unwrap());
    assert!(!readable(driver.poll_fd(), 50), "disarmed");
}

#[test]
fn parking_is_refused_while_there_is_work() {
    let events = EventLoop::new();
    let driver = events.drive(Config::default()).unwrap();
    events.post(|| ()).unwrap();
    assert!(!driver.park().unwrap(), "a post");
    assert_eq!(driver.turn(Wait::No), Ok(Turn::Running));
    driver.local().call_at(0, || ()).unwrap();
    assert!(!driver.park().unwrap(), "a timer that is due");
    assert_eq!(driver.turn(Wait::No), Ok(Turn::Running));
    let task = driver.local().spawn(async {}).unwrap();
    assert!(!driver.park().unwrap(), "a future that can run");
    assert_eq!(driver.turn(Wait::No), Ok(Turn::Running));
    assert!(task.is_finished());
    assert!(driver.park().unwrap());
}

#[test]
fn no_wake_up_is_lost_between_parking_and_posting() {
    const POSTS: u64 = 20_000;
    let events = EventLoop::new();
    let driver = events.drive(Config::default()).unwrap();
    let poster = events.clone();
    let thread = std::thread::spawn(move || {
        for i in 0..POSTS {
            poster.post(|| ()).unwrap();
            if i % 7 == 0 {
                std::thread::yield_now();
            }
        }
    });
    while events.stats().executed < POSTS {
        if driver.park().unwrap() {
            assert!(readable(driver.poll_fd(), 60_000), "asleep with {} run", events.stats().executed);
        }
        assert_eq!(driver.turn(Wait::No), Ok(Turn::Running));
    }
    thread.join().unwrap();
}

#[test]
fn a_turn_inside_a_turn_is_refused() {
    let events = EventLoop::new();
    let driver = Rc::new(events.drive(Config::default()).unwrap());
    let (inner, seen) = (driver.clone(), Rc::new(Cell::new(None)));
    let slot = seen.clone();
    driver.local().call_at(0, move || slot.set(Some((inner.turn(Wait::No), inner.park())))).unwrap();
    assert_eq!(driver.turn(Wait::No), Ok(Turn::Running));
    assert_eq!(seen.take(), Some((Err(Error::Reentrant), Err(Error::Reentrant))));
    assert_eq!(driver.turn(Wait::No), Ok(Turn::Running));
}

#[test]
fn a_loop_can_turn_another_one_inside_its_callback() {
    let (outer, inner) = (EventLoop::new(), EventLoop::new());
    let (outer_driver, inner_driver) =
        (outer.drive(Config::default()).unwrap(), inner.drive(Config::default()).unwrap());
    let (tx, rx) = mpsc::channel();
    let inner_tx = tx.clone();
    inner.post(move || inner_tx.send(Local::current().unwrap().id()).unwrap()).unwrap();
    outer_driver
        .local()
        .call_at(0, move || {
            tx.send(Local::current().unwrap().id()).unwrap();
            let _ = inner_driver.turn(Wait::No);
            tx.send(Local::current().unwrap().id()).unwrap();
        })
        .unwrap();
    assert_eq!(outer_driver.turn(Wait::No), Ok(Turn::Running));
    let ids: Vec<_> = rx.try_iter().collect();
    assert_eq!(ids.len(), 3);
    assert!(ids[0] == ids[2] && ids[0] != ids[1]);
}

#[test]
fn a_stop_ends_the_turns_and_a_dropped_driver_ends_the_loop() {
    let events = EventLoop::new();
    let driver = events.drive(Config::default()).unwrap();
    events.post(|| ()).unwrap();
    assert_eq!(events.stop(), StopOutcome::Draining, "this is the loop's thread");
    assert!(!driver.park().unwrap(), "there is an end to reach");
    assert_eq!(driver.turn(Wait::Yes), Ok(Turn::Finished));
    assert_eq!(driver.turn(Wait::Yes), Ok(Turn::Finished));
    let report = events.stop().report().unwrap();
    assert_eq!((report.accepted, report.executed), (1, 1));

    let events = EventLoop::new();
    let driver = events.drive(Config::default()).unwrap();
    let (tx, rx) = mpsc::channel();
    events.post(move || tx.send(7).unwrap()).unwrap();
    drop(driver);
    assert_eq!(rx.try_recv().unwrap(), 7, "what was accepted ran");
    assert_eq!(events.state(), State::Stopped);
}
