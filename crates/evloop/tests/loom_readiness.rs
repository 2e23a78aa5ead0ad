//! Models of the hand-over of a registration between the loop and the future that uses it, checked by loom.
#![cfg(loom)]
#![allow(clippy::unwrap_used)]

use std::task::{Wake, Waker};

use evloop::Interest;
use evloop::readiness::{Direction, Polled, Readiness};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread;

struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: std::sync::Arc<Self>) {
        self.0.store(true, Ordering::Release);
    }
}

fn flag() -> (std::sync::Arc<Flag>, Waker) {
    let flag = std::sync::Arc::new(Flag(AtomicBool::new(false)));
    (flag.clone(), Waker::from(flag))
}

/// What epoll would do: as long as the fd is ready and its direction armed, it reports.
fn report(readiness: &Readiness) {
    if readiness.armed().contains(Interest::READ) {
        for waker in readiness.deliver(Interest::READ).wakers.into_iter().flatten() {
            waker.wake();
        }
    }
}

/// A report against a future that begins to wait: it finds the fd ready, or it is woken, or its direction is armed so
/// that the next report wakes it.
#[test]
fn a_report_is_never_lost_to_a_future_that_begins_to_wait() {
    loom::model(|| {
        let readiness = Arc::new(Readiness::new(Interest::READ));
        readiness.clear(Direction::Read);
        let delivering = readiness.clone();
        let the_loop = thread::spawn(move || report(&delivering));
        let (woken, waker) = flag();
        let polled = readiness.poll(Direction::Read, &waker);
        the_loop.join().unwrap();
        if polled != Polled::Ready && !woken.0.load(Ordering::Acquire) {
            // Still ready, level-triggered: epoll reports again, if it was told to.
            assert!(readiness.armed().contains(Interest::READ), "disarmed with somebody waiting");
            report(&readiness);
            assert!(woken.0.load(Ordering::Acquire));
        }
    });
}

/// A future that found nothing (and says so) against a report: the readiness may be forgotten, the wait may not.
#[test]
fn a_clear_racing_a_report_leaves_nobody_waiting_unarmed() {
    loom::model(|| {
        let readiness = Arc::new(Readiness::new(Interest::READ));
        let delivering = readiness.clone();
        let the_loop = thread::spawn(move || report(&delivering));
        readiness.clear(Direction::Read);
        let (woken, waker) = flag();
        let polled = readiness.poll(Direction::Read, &waker);
        the_loop.join().unwrap();
        if polled != Polled::Ready && !woken.0.load(Ordering::Acquire) {
            assert!(readiness.armed().contains(Interest::READ));
        }
    });
}

/// The two directions do not take each other's wake-ups.
#[test]
fn reader_and_writer_are_woken_by_their_own_reports() {
    loom::model(|| {
        let readiness = Arc::new(Readiness::new(Interest::BOTH));
        readiness.clear(Direction::Read);
        readiness.clear(Direction::Write);
        let writing = readiness.clone();
        let (written, write_waker) = flag();
        let writer = thread::spawn(move || writing.poll(Direction::Write, &write_waker));
        let (read, read_waker) = flag();
        let reader = readiness.poll(Direction::Read, &read_waker);
        for waker in readiness.deliver(Interest::READ).wakers.into_iter().flatten() {
            waker.wake();
        }
        assert_ne!(writer.join().unwrap(), Polled::Ready);
        assert_ne!(reader, Polled::Ready);
        assert!(read.0.load(Ordering::Acquire));
        assert!(!written.0.load(Ordering::Acquire));
        assert!(readiness.armed().contains(Interest::WRITE));
    });
}
