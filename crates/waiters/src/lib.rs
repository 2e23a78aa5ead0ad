//! Who waits for which reply: waiters by name, each ended exactly once, by whoever comes first: the one who completes it, the one who
//! cancels it, or its deadline. Any thread; one lock, held for a few instructions, and never while a waiter is told.
//!
//! Deadlines are timers, looked at by one event loop with one of them armed: nothing is scanned, and nobody wakes up while nothing is
//! due. A name is free again as soon as its waiter has ended. How the last ones ended is remembered for a while, to
//! tell an answer that came twice from one that came too late.

mod recent;

use std::collections::HashMap;
use std::collections::hash_map::{Entry, RandomState};
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use evloop::os::{Nanos, now};
use evloop::timers::{TimerKey, Timers};
use evloop::{Config, Delay, EventLoop};
use slotmap::{Key, KeyData, SlotMap, new_key_type};

use recent::Recent;

new_key_type! {
    struct Place;
}

/// Which registration it is: a place and a generation, never used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ticket(u64);

impl Ticket {
    /// As a number.
    pub fn word(self) -> u64 {
        self.0
    }

    /// The ticket of a number; of none that was given out, if it is another number.
    pub fn from_word(word: u64) -> Self {
        Self(word)
    }

    fn place(self) -> Place {
        Place::from(KeyData::from_ffi(self.0))
    }
}

/// Somebody who waits.
pub trait Waiter: Send + 'static {
    /// Its deadline has passed. Called on the registry's loop.
    fn expire(self);
}

/// A waiter by its name, or by its registration.
#[derive(Debug, Clone, Copy)]
pub enum Who<'a> {
    /// Whoever has the name now.
    Name(&'a [u8]),
    /// That one and no other.
    Ticket(Ticket),
}

/// How a waiter ends, other than by its deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// With an answer, be it an error.
    Completed,
    /// Without one.
    Cancelled,
}

/// Why nobody was registered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// Somebody waits by that name.
    AlreadyRegistered,
    /// As many wait as may.
    Overloaded,
    /// There is no thread, or no descriptor, for the deadlines.
    NoLoop,
}

/// What has happened so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Waiters there were.
    pub registered: u64,
    /// Ended by an answer.
    pub completed: u64,
    /// Ended without one.
    pub cancelled: u64,
    /// Ended by their deadline.
    pub expired: u64,
    /// Attempts to end one that had its answer already.
    pub duplicate_terminal: u64,
    /// Answers to those that wait no longer, or never did.
    pub late_reply_drop: u64,
}

struct Registration<W> {
    name: Arc<[u8]>,
    timer: Option<TimerKey>,
    waiter: W,
}

struct State<W> {
    waiters: SlotMap<Place, Registration<W>>,
    names: HashMap<Arc<[u8]>, Place>,
    timers: Timers<Place>,
    /// The deadline the loop will look at next.
    armed: Option<Nanos>,
    recent: Recent,
    counters: Counters,
}

struct Shared<W> {
    state: Mutex<State<W>>,
    limit: AtomicUsize,
    hasher: RandomState,
    events: EventLoop,
}

/// The waiters. Its loop ends with it.
pub struct Registry<W: Waiter> {
    shared: Arc<Shared<W>>,
}

/// So many are told that they are too late before others have the lock.
const BATCH: usize = 256;

impl<W: Waiter> Registry<W> {
    /// One that takes so many at a time. Its loop is started by the first deadline, on a thread of this name.
    pub fn new(limit: usize) -> Self {
        let state = State {
            waiters: SlotMap::with_key(),
            names: HashMap::new(),
            timers: Timers::default(),
            armed: None,
            recent: Recent::default(),
            counters: Counters::default(),
        };
        Self {
            shared: Arc::new(Shared {
                state: Mutex::new(state),
                limit: AtomicUsize::new(limit),
                hasher: RandomState::new(),
                events: EventLoop::new(),
            }),
        }
    }

    /// How many may wait at a time, from now on.
    pub fn set_limit(&self, limit: usize) {
        self.shared.limit.store(limit, Ordering::Relaxed);
    }

    /// Registers a waiter, made for its ticket, until it is ended or so much time has passed.
    pub fn register(
        &self,
        name: &[u8],
        timeout: Option<Duration>,
        waiter: impl FnOnce(Ticket) -> W,
    ) -> Result<Ticket, Refused> {
        let shared = &self.shared;
        if timeout.is_some() && shared.events.start(Config::named("waiters")).is_err() {
            return Err(Refused::NoLoop);
        }
        let hash = shared.hasher.hash_one(name);
        let mut guard = shared.lock();
        let state = &mut *guard;
        if state.waiters.len() >= shared.limit.load(Ordering::Relaxed) {
            return Err(Refused::Overloaded);
        }
        let Entry::Vacant(vacant) = state.names.entry(Arc::from(name)) else {
            return Err(Refused::AlreadyRegistered);
        };
        let name = vacant.key().clone();
        let place = state.waiters.insert_with_key(|place| {
            let deadline = timeout.map(|timeout| Delay::from(timeout).deadline());
            let timer = deadline.map(|deadline| state.timers.insert(deadline, place));
            Registration { name, timer, waiter: waiter(Ticket(place.data().as_ffi())) }
        });
        vacant.insert(place);
        state.recent.forget(hash);
        state.counters.registered += 1;
        let nearer = timeout.is_some().then(|| state.nearer()).flatten();
        drop(guard);
        if let Some(deadline) = nearer {
            shared.arm(deadline);
        }
        Ok(Ticket(place.data().as_ffi()))
    }

    /// Ends a waiter, which is given to the one who did: to nobody else, and never again.
    pub fn end(&self, who: Who<'_>, end: End) -> Option<W> {
        let shared = &self.shared;
        let mut state = shared.lock();
        let place = match who {
            Who::Name(name) => state.names.get(name).copied(),
            Who::Ticket(ticket) => Some(ticket.place()),
        };
        let Some(registration) = place.and_then(|place| state.take(place)) else {
            let answered = match who {
                Who::Name(name) => state.recent.was_answered(shared.hasher.hash_one(name)),
                Who::Ticket(ticket) => state.recent.was_answered(ticket.0),
            };
            match end {
                _ if answered => state.counters.duplicate_terminal += 1,
                End::Completed => state.counters.late_reply_drop += 1,
                End::Cancelled => {}
            }
            return None;
        };
        match end {
            End::Completed => {
                state.counters.completed += 1;
                state.recent.answered(shared.hasher.hash_one(&*registration.name));
                if let Some(place) = place {
                    state.recent.answered(place.data().as_ffi());
                }
            }
            End::Cancelled => state.counters.cancelled += 1,
        }
        Some(registration.waiter)
    }

    /// How many wait.
    pub fn in_flight(&self) -> usize {
        self.shared.lock().waiters.len()
    }

    /// What has happened so far.
    pub fn counters(&self) -> Counters {
        self.shared.lock().counters
    }
}

impl<W> State<W> {
    /// Takes a waiter out, with all there is of it.
    fn take(&mut self, place: Place) -> Option<Registration<W>> {
        let registration = self.waiters.remove(place)?;
        self.names.remove(&*registration.name);
        if let Some(timer) = registration.timer {
            self.timers.cancel(timer);
        }
        Some(registration)
    }

    /// The nearest deadline, if the loop is to be told of it.
    fn nearer(&mut self) -> Option<Nanos> {
        let next = self.timers.next_deadline()?;
        if self.armed.is_some_and(|armed| armed <= next) {
            return None;
        }
        self.armed = Some(next);
        Some(next)
    }

    /// Those whose deadline has passed, up to a number.
    fn due(&mut self, now: Nanos, most: usize) -> Vec<W> {
        let mut due = Vec::new();
        while due.len() < most
            && let Some(place) = self.timers.pop_due(now)
        {
            if let Some(registration) = self.take(place) {
                self.counters.expired += 1;
                due.push(registration.waiter);
            }
        }
        due
    }
}

impl<W: Waiter> Shared<W> {
    fn lock(&self) -> MutexGuard<'_, State<W>> {
        // What is under it is whole after every step.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the loop look at a deadline.
    fn arm(self: &Arc<Self>, deadline: Nanos) {
        let delay = Duration::from_nanos(deadline.saturating_sub(now()));
        let shared = Arc::downgrade(self);
        // A loop that is being stopped has nobody left to tell.
        let _armed = self.events.call_later(delay, move || Self::look(&shared, deadline));
    }

    /// Tells those whose deadline has passed. On the loop.
    fn look(shared: &Weak<Self>, deadline: Nanos) {
        let Some(shared) = shared.upgrade() else { return };
        loop {
            let due = shared.lock().due(now(), BATCH);
            let last = due.len() < BATCH;
            for waiter in due {
                waiter.expire();
            }
            if last {
                break;
            }
        }
        let next = {
            let mut state = shared.lock();
            // A nearer one than this has a look of its own.
            if state.armed == Some(deadline) {
                state.armed = None;
            }
            state.nearer()
        };
        if let Some(next) = next {
            shared.arm(next);
        }
    }
}
