//! `Poller`: one level-triggered epoll instance, with an eventfd that wakes it and a timerfd for the nearest deadline.
//!
//! Owned by the loop, but every method takes `&self` and may be called from any thread: epoll_ctl(2), eventfd writes and
//! timerfd_settime(2) are thread-safe. Dropping it closes the three fds.
//!
//! The deadline goes into a timerfd and not into epoll_wait(2)'s timeout for two reasons. Somebody else may be the one
//! who waits on the epoll fd (an epoll fd is itself pollable), and that timeout counts in milliseconds and is subject to
//! timer slack, while a timerfd is exact and never early. The two internal fds are edge-triggered, so that a wake-up
//! costs no read(2): an eventfd write and a timer expiry are each an edge of their own.

use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::{EventfdFlags, Timespec, epoll, eventfd};
use rustix::io::Errno;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};

use super::clock::{Nanos, now};
use crate::error::{Error, Result};

/// Data words of the two internal fds. Keys of registrations carry a generation of at least 1 in their upper half, so
/// no registration can have these.
const WAKE: u64 = 0;
const TIMER: u64 = 1;

/// How many events one wait can take. What does not fit is reported by the next wait: the poller is level-triggered.
const CAPACITY: usize = 512;

/// What a registration wants to hear about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interest(u8);

impl Interest {
    /// Nothing, not even errors and hang-ups.
    pub const NONE: Interest = Interest(0);
    /// Data, end of stream, or a connection to accept.
    pub const READ: Interest = Interest(1);
    /// Room to write, or the end of a connect.
    pub const WRITE: Interest = Interest(2);
    /// Both directions.
    pub const BOTH: Interest = Interest(3);

    /// Whether everything in `other` is in `self`.
    #[inline]
    pub fn contains(self, other: Interest) -> bool {
        self.0 & other.0 == other.0
    }

    /// `self` and `other` together.
    #[inline]
    #[must_use]
    pub fn with(self, other: Interest) -> Interest {
        Interest(self.0 | other.0)
    }

    /// `self` without `other`.
    #[inline]
    #[must_use]
    pub fn without(self, other: Interest) -> Interest {
        Interest(self.0 & !other.0)
    }

    fn flags(self) -> epoll::EventFlags {
        let mut flags = epoll::EventFlags::empty();
        if self.contains(Interest::READ) {
            flags |= epoll::EventFlags::IN;
        }
        if self.contains(Interest::WRITE) {
            flags |= epoll::EventFlags::OUT;
        }
        flags
    }
}

/// One readiness report: the key a registration was made with, and what is ready.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    /// The key given to [`Poller::add`].
    pub key: u64,
    /// What is ready. An error or a hang-up makes both directions ready, so that whoever waits finds out.
    pub ready: Interest,
}

/// The room for the events of one wait, reused from turn to turn.
pub struct Events(Vec<epoll::Event>);

// SAFETY: plain data. The data words could be pointers as far as the type knows, but this poller only puts integers there.
unsafe impl Send for Events {}

impl std::fmt::Debug for Events {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl Default for Events {
    fn default() -> Self {
        Self(Vec::with_capacity(CAPACITY))
    }
}

impl Events {
    /// The events of registrations; the internal fds have done their work by ending the wait.
    pub fn iter(&self) -> impl Iterator<Item = Event> + '_ {
        self.0.iter().filter(|event| event.data.u64() > TIMER).map(|event| {
            let mut ready = Interest::NONE;
            let flags = event.flags;
            if flags.intersects(!epoll::EventFlags::OUT) {
                ready = ready.with(Interest::READ);
            }
            if flags.intersects(!epoll::EventFlags::IN) {
                ready = ready.with(Interest::WRITE);
            }
            Event { key: event.data.u64(), ready }
        })
    }

    /// Whether the wait was ended by the timerfd, so that the deadline armed before is no longer armed.
    pub fn timer_fired(&self) -> bool {
        self.0.iter().any(|event| event.data.u64() == TIMER)
    }

    /// Whether the wait has ended without anything, also without a wake-up.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Forgets all events and keeps the room.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

/// An epoll instance that can be woken and has one deadline.
#[derive(Debug)]
pub struct Poller {
    epoll: OwnedFd,
    wake: OwnedFd,
    timer: OwnedFd,
    /// An epoll instance with nothing but this one in it, if there is one, under a lock that is held for a few system calls.
    outer: Mutex<Option<OwnedFd>>,
}

impl Poller {
    /// Opens the three fds.
    pub fn new() -> Result<Poller> {
        let poller = Poller {
            epoll: new_epoll()?,
            wake: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
                .map_err(|e| Error::os("open an eventfd", e))?,
            timer: timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)
                .map_err(|e| Error::os("open a timerfd", e))?,
            outer: Mutex::new(None),
        };
        poller.add_internal(&poller.epoll)?;
        Ok(poller)
    }

    /// The fd that becomes readable when there is something to do: for whoever waits in the loop's place, and asks anew each time.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }

    /// Likewise for whoever keeps it in an epoll set of his own: what [`Poller::rebuild`] replaces would silently leave that set. It
    /// stays open, and the same, for as long as the poller lives.
    pub fn lasting_fd(&self) -> Result<RawFd> {
        let mut outer = self.outer.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(outer) = &*outer {
            return Ok(outer.as_raw_fd());
        }
        let fresh = new_epoll()?;
        self.add_to(&fresh)?;
        Ok(outer.insert(fresh).as_raw_fd())
    }

    fn add_to(&self, outer: &OwnedFd) -> Result<()> {
        epoll::add(outer, &self.epoll, epoll::EventData::new_u64(0), epoll::EventFlags::IN)
            .map_err(|e| Error::os("add an epoll instance to another", e))
    }

    /// Starts to report `fd` under `key`.
    pub fn add(&self, fd: RawFd, key: u64, interest: Interest) -> Result<()> {
        let source = borrow(fd)?;
        epoll::add(&self.epoll, source, epoll::EventData::new_u64(key), interest.flags()).map_err(|e| match e
        {
            Errno::BADF => Error::BadFd { fd },
            Errno::PERM => Error::NotPollable { fd },
            Errno::EXIST => Error::AlreadyRegistered { fd },
            other => Error::os("add an fd to epoll", other),
        })
    }

    /// Changes what is reported of `fd`.
    pub fn modify(&self, fd: RawFd, key: u64, interest: Interest) -> Result<()> {
        let source = borrow(fd)?;
        epoll::modify(&self.epoll, source, epoll::EventData::new_u64(key), interest.flags()).map_err(|e| {
            match e {
                // Closed behind our back: gone from the set, or even the number is somebody else's now.
                Errno::BADF | Errno::NOENT => Error::BadFd { fd },
                other => Error::os("change an fd in epoll", other),
            }
        })
    }

    /// Stops reporting `fd`. An fd that was closed before is no error: the kernel has forgotten it, or reports it under
    /// a key that nobody has any more (see [`Poller::rebuild`]).
    pub fn delete(&self, fd: RawFd) -> Result<()> {
        match epoll::delete(&self.epoll, borrow(fd)?) {
            Ok(()) | Err(Errno::BADF | Errno::NOENT) => Ok(()),
            Err(other) => Err(Error::os("remove an fd from epoll", other)),
        }
    }

    /// Replaces the epoll instance by an empty one under the same fd number; the caller adds its registrations again.
    ///
    /// Needed when an fd was closed without being deleted while a duplicate of it lives on: the kernel then goes on
    /// reporting it, and no epoll_ctl(2) call can name it any more (epoll(7), questions and answers, no. 6).
    pub fn rebuild(&self) -> Result<()> {
        let fresh = new_epoll()?;
        self.add_internal(&fresh)?;
        // SAFETY: the fd is open, being owned by `self`; the alias is never dropped, so it stays owned once.
        let mut same_number = ManuallyDrop::new(unsafe { OwnedFd::from_raw_fd(self.epoll.as_raw_fd()) });
        rustix::io::dup3(&fresh, &mut same_number, rustix::io::DupFlags::CLOEXEC)
            .map_err(|e| Error::os("replace an epoll instance", e))?;
        match &*self.outer.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(outer) => self.add_to(outer),
            None => Ok(()),
        }
    }

    /// Ends the current or the next wait. From any thread.
    pub fn wake(&self) {
        // The only error a non-blocking eventfd can give here is EAGAIN, at a count of 2^64 - 2 wake-ups.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }

    /// Makes the wait end at `deadline`, or never on its own.
    pub fn arm(&self, deadline: Option<Nanos>) -> Result<()> {
        // Zero would disarm, and a deadline in the past fires at once, which is what is wanted of it.
        let at = deadline.map_or(0, |d| d.max(1));
        let value = Timespec {
            tv_sec: i64::try_from(at / 1_000_000_000).unwrap_or(i64::MAX),
            tv_nsec: (at % 1_000_000_000) as _,
        };
        let spec = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: value };
        timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &spec)
            .map(drop)
            .map_err(|e| Error::os("arm a timerfd", e))
    }

    /// Waits for events: until there are some if `block`, otherwise only takes what is there. A signal ends the wait
    /// with no events, so that whoever has signal handlers can run them.
    pub fn wait(&self, events: &mut Events, block: bool) -> Result<()> {
        const AT_ONCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
        events.clear();
        match epoll::wait(
            &self.epoll,
            spare_capacity(&mut events.0),
            if block { None } else { Some(&AT_ONCE) },
        ) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(other) => Err(Error::os("wait in epoll", other)),
        }
    }

    /// Asks for events again and again, for as long as `awake`. It may end without any: a signal that came meanwhile wants its
    /// handler to run before anybody sleeps.
    pub fn watch(&self, events: &mut Events, awake: Duration) -> Result<()> {
        let end = now().saturating_add(awake.as_nanos() as Nanos);
        loop {
            self.wait(events, false)?;
            if !events.0.is_empty() || now() >= end {
                return Ok(());
            }
            std::hint::spin_loop();
        }
    }

    fn add_internal(&self, epoll: &OwnedFd) -> Result<()> {
        let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
        for (fd, key) in [(&self.wake, WAKE), (&self.timer, TIMER)] {
            epoll::add(epoll, fd, epoll::EventData::new_u64(key), flags)
                .map_err(|e| Error::os("add the loop's own fds to epoll", e))?;
        }
        Ok(())
    }
}

fn new_epoll() -> Result<OwnedFd> {
    epoll::create(epoll::CreateFlags::CLOEXEC).map_err(|e| Error::os("open an epoll instance", e))
}

/// Lends an fd number to a system call.
fn borrow(fd: RawFd) -> Result<BorrowedFd<'static>> {
    if fd < 0 {
        return Err(Error::BadFd { fd });
    }
    // SAFETY: the number is not -1, and it is only handed to epoll_ctl(2), which checks it and answers EBADF if it is
    // not open. The borrow does not outlive the call.
    Ok(unsafe { BorrowedFd::borrow_raw(fd) })
}
