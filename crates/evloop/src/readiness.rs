//! `Readiness`: the hand-over between the loop, which learns that an fd is ready, and the future that waits for it.
//!
//! The fd is level-triggered, which makes this simple: to forget a readiness is always safe, as epoll reports it again
//! while it lasts. What must not happen is a report that nobody takes, again and again; so a direction that is reported
//! while no future waits for it is disarmed, and armed again by the next future that waits. A connection whose reader
//! keeps up is never disarmed and costs no epoll_ctl(2) at all.
//!
//! Any thread; the lock is never held while a waker runs.

use std::task::Waker;

use crate::os::Interest;
use crate::sync::{Mutex, lock};

/// A direction of an fd.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Reading and accepting.
    Read,
    /// Writing and connecting.
    Write,
}

impl Direction {
    fn interest(self) -> Interest {
        match self {
            Direction::Read => Interest::READ,
            Direction::Write => Interest::WRITE,
        }
    }
}

/// The state of both directions.
#[derive(Debug)]
pub struct Readiness {
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    ready: Interest,
    armed: Interest,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

/// What a delivery leaves to do: wake these, and tell the poller if what is armed has changed.
#[derive(Debug, Default)]
pub struct Delivery {
    /// The futures that waited.
    pub wakers: [Option<Waker>; 2],
    /// Whether [`Readiness::armed`] has changed.
    pub rearm: bool,
}

/// What a future finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Polled {
    /// Worth a try.
    Ready,
    /// The waker is kept. If `rearm`, [`Readiness::armed`] has changed and the poller must be told.
    Waiting {
        /// Whether what is armed has changed.
        rearm: bool,
    },
}

impl Readiness {
    /// With these directions armed, and both worth a first try.
    pub fn new(armed: Interest) -> Readiness {
        let inner = Inner { ready: Interest::BOTH, armed, reader: None, writer: None };
        Readiness { inner: Mutex::new(inner) }
    }

    /// What the poller should report.
    pub fn armed(&self) -> Interest {
        lock(&self.inner).armed
    }

    /// The loop's side: `ready` was reported.
    pub fn deliver(&self, ready: Interest) -> Delivery {
        let mut inner = lock(&self.inner);
        let before = inner.armed;
        let mut wakers = [None, None];
        for (direction, slot) in [Direction::Read, Direction::Write].into_iter().zip(&mut wakers) {
            let interest = direction.interest();
            if !ready.contains(interest) {
                continue;
            }
            inner.ready = inner.ready.with(interest);
            *slot = inner.waker(direction).take();
            if slot.is_none() {
                inner.armed = inner.armed.without(interest);
            }
        }
        Delivery { wakers, rearm: inner.armed != before }
    }

    /// The future's side: is `direction` worth a try? If not, `waker` is woken when it is.
    pub fn poll(&self, direction: Direction, waker: &Waker) -> Polled {
        let mut inner = lock(&self.inner);
        if inner.ready.contains(direction.interest()) {
            return Polled::Ready;
        }
        let slot = inner.waker(direction);
        // Dropped after the lock: a waker's destructor may be anybody's code.
        let old = match slot {
            Some(old) if old.will_wake(waker) => None,
            slot => slot.replace(waker.clone()),
        };
        let before = inner.armed;
        inner.armed = before.with(direction.interest());
        let rearm = inner.armed != before;
        drop(inner);
        drop(old);
        Polled::Waiting { rearm }
    }

    /// The future's side: `direction` was tried and is used up.
    pub fn clear(&self, direction: Direction) {
        let mut inner = lock(&self.inner);
        inner.ready = inner.ready.without(direction.interest());
    }
}

impl Inner {
    fn waker(&mut self, direction: Direction) -> &mut Option<Waker> {
        match direction {
            Direction::Read => &mut self.reader,
            Direction::Write => &mut self.writer,
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn armed(interest: Interest) -> Readiness {
        let readiness = Readiness::new(interest);
        readiness.clear(Direction::Read);
        readiness.clear(Direction::Write);
        readiness
    }

    #[test]
    fn a_reader_that_keeps_up_never_rearms() {
        let readiness = armed(Interest::READ);
        for _ in 0..3 {
            assert_eq!(readiness.poll(Direction::Read, Waker::noop()), Polled::Waiting { rearm: false });
            let delivery = readiness.deliver(Interest::READ);
            assert!(delivery.wakers[0].is_some() && !delivery.rearm);
            assert_eq!(readiness.poll(Direction::Read, Waker::noop()), Polled::Ready);
            readiness.clear(Direction::Read);
        }
    }

    #[test]
    fn a_report_that_nobody_waits_for_is_disarmed_until_somebody_does() {
        let readiness = armed(Interest::READ);
        let delivery = readiness.deliver(Interest::BOTH);
        assert!(delivery.rearm);
        assert_eq!(readiness.armed(), Interest::NONE);
        assert_eq!(readiness.poll(Direction::Read, Waker::noop()), Polled::Ready, "it was reported");
        readiness.clear(Direction::Read);
        assert_eq!(readiness.poll(Direction::Read, Waker::noop()), Polled::Waiting { rearm: true });
        assert_eq!(readiness.armed(), Interest::READ);
    }
}
