//! `Inbox`: the queue of one waiting thread. Any thread posts; the owner takes, spins while traffic is dense, and parks.
//!
//! The queue and whether the owner is parked are under one lock, held for a few instructions and never while attaching, so
//! a wake-up is neither lost nor made in vain: only the post that finds the owner parked wakes it.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::Thread;
use std::time::{Duration, Instant};

/// Locks, also after a panic elsewhere: what is under our locks is whole after every step.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

struct State<T> {
    queue: VecDeque<T>,
    parked: Option<Thread>,
    closed: bool,
}

/// The queue of one thread.
pub(crate) struct Inbox<T> {
    state: Mutex<State<T>>,
    /// How many are queued, to be looked at without the lock.
    waiting: AtomicUsize,
    /// Wanted awake, though nothing is queued.
    nudged: AtomicBool,
}

impl<T> Inbox<T> {
    pub(crate) fn new() -> Self {
        Self {
            state: Mutex::new(State { queue: VecDeque::new(), parked: None, closed: false }),
            waiting: AtomicUsize::new(0),
            nudged: AtomicBool::new(false),
        }
    }

    /// Queues an item, or gives it back if the inbox is closed.
    pub(crate) fn post(&self, item: T) -> Result<(), T> {
        let mut state = lock(&self.state);
        if state.closed {
            return Err(item);
        }
        state.queue.push_back(item);
        self.waiting.store(state.queue.len(), Ordering::Release);
        let parked = state.parked.take();
        drop(state);
        if let Some(thread) = parked {
            thread.unpark();
        }
        Ok(())
    }

    /// Wakes the owner for a look around.
    pub(crate) fn nudge(&self) {
        let mut state = lock(&self.state);
        self.nudged.store(true, Ordering::Release);
        let parked = state.parked.take();
        drop(state);
        if let Some(thread) = parked {
            thread.unpark();
        }
    }

    /// The next item.
    pub(crate) fn take(&self) -> Option<T> {
        if self.waiting.load(Ordering::Acquire) == 0 {
            return None;
        }
        let mut state = lock(&self.state);
        let item = state.queue.pop_front();
        self.waiting.store(state.queue.len(), Ordering::Release);
        item
    }

    /// Refuses items from now on, and gives those that were left.
    pub(crate) fn close(&self) -> VecDeque<T> {
        let mut state = lock(&self.state);
        state.closed = true;
        self.waiting.store(0, Ordering::Release);
        std::mem::take(&mut state.queue)
    }

    /// Whether something is queued.
    #[inline]
    pub(crate) fn has_items(&self) -> bool {
        self.waiting.load(Ordering::Acquire) > 0
    }

    /// Whether there is a reason to be awake.
    #[inline]
    pub(crate) fn is_called(&self) -> bool {
        self.has_items() || self.nudged.load(Ordering::Acquire)
    }

    /// The owner looks around now: a nudge from before is done with.
    pub(crate) fn heed(&self) {
        // In one step: with a plain store the looks that follow may come before it, and a nudge in between would be lost to both.
        self.nudged.swap(false, Ordering::AcqRel);
    }

    /// Parks the owner until there is. Detached threads only.
    pub(crate) fn park(&self) {
        loop {
            {
                let mut state = lock(&self.state);
                if !state.queue.is_empty() || self.nudged.load(Ordering::Acquire) {
                    state.parked = None;
                    return;
                }
                state.parked = Some(std::thread::current());
            }
            std::thread::park();
        }
    }
}

impl<T> Inbox<T> {
    /// [`park`](Self::park), but not beyond a deadline.
    pub(crate) fn park_until(&self, deadline: Instant) {
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            {
                let mut state = lock(&self.state);
                if left.is_zero() || !state.queue.is_empty() || self.nudged.load(Ordering::Acquire) {
                    state.parked = None;
                    return;
                }
                state.parked = Some(std::thread::current());
            }
            std::thread::park_timeout(left);
        }
    }
}

/// How long one waits awake: briefly while that paid off lately, and ever more rarely while it did not.
pub(crate) struct Spin {
    /// How many waits to sit out before the next try.
    skip: u32,
    /// How many to sit out after the next failure.
    penalty: u32,
}

/// A sleeping thread wakes in 6 to 17 µs, so a wait that may be shorter than a few of those is worth a spin.
const SPIN: Duration = Duration::from_micros(30);
/// Traffic with gaps up to this is dense.
const DENSE: Duration = Duration::from_micros(60);
const MOST: u32 = 64;

impl Spin {
    pub(crate) fn new() -> Self {
        Self { skip: 0, penalty: 1 }
    }

    /// Waits for `ready`, spinning first if that is promising, and parking with `park` otherwise.
    pub(crate) fn wait(&mut self, ready: impl Fn() -> bool, park: impl FnOnce()) {
        let start = Instant::now();
        if self.skip == 0 {
            loop {
                for _ in 0..16 {
                    if ready() {
                        self.penalty = 1;
                        return;
                    }
                    std::hint::spin_loop();
                }
                if start.elapsed() > SPIN {
                    break;
                }
            }
            self.skip = self.penalty;
            self.penalty = (self.penalty * 2).min(MOST);
        } else {
            self.skip -= 1;
        }
        park();
        if start.elapsed() < DENSE {
            self.skip = 0;
        }
    }
}
