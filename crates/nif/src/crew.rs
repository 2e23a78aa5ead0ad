//! The crew: threads that run loops which have none of their own, while those have something to do. Any thread; one lock, never held
//! while attaching.
//!
//! Threads of our own, not the BEAM's dirty ones: those have a stack of 320 KB by default, which nested Python code runs over; ten of
//! them blocked would be the end of the VM's file I/O; and what waits in `erlang.call` would hold one while the function it waits for
//! may need one.
//!
//! As many are at work as can run Python at once, and a loop that keeps its thread for a millisecond while others are queued is not
//! counted any more (`relieve`). A thread that had nothing to do for a while ends.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use crate::event_loop::{Floor, STACK};
use crate::inbox::lock;
use crate::parking::Parking;
use crate::watch;

/// How long a thread stays without work.
const LINGER: Duration = Duration::from_secs(5);
/// More threads than this do not help against what keeps the others.
const MOST: usize = 256;

struct State {
    queue: VecDeque<Arc<Floor>>,
    threads: usize,
    /// Threads that wait to be called, and how many of them were.
    idle: usize,
    called: usize,
    /// Threads that look at the queue before they wait, those that hang not counted.
    at_work: usize,
    /// What those run, by the number of the run.
    running: Vec<u64>,
    /// How many loops were taken from the queue, and how many when the watchdog looked last.
    taken: u64,
    seen: u64,
}

/// The threads and their queue.
pub(crate) struct Crew {
    state: Mutex<State>,
    calls: Condvar,
}

/// There is one, for all loops.
pub(crate) static CREW: Crew = Crew {
    state: Mutex::new(State {
        queue: VecDeque::new(),
        threads: 0,
        idle: 0,
        called: 0,
        at_work: 0,
        running: Vec::new(),
        taken: 0,
        seen: 0,
    }),
    calls: Condvar::new(),
};

/// How many threads can run Python at once.
fn useful() -> usize {
    if cfg!(Py_GIL_DISABLED) { std::thread::available_parallelism().map_or(1, usize::from) } else { 1 }
}

impl Crew {
    /// Has a loop run.
    pub(crate) fn post(&'static self, floor: Arc<Floor>) {
        let mut state = lock(&self.state);
        state.queue.push_back(floor);
        let called = state.at_work < useful() && self.call(&mut state);
        drop(state);
        if !called {
            watch::notice();
        }
    }

    /// Has one more thread look at the queue. Whether there is one.
    fn call(&'static self, state: &mut State) -> bool {
        if state.idle > 0 {
            state.idle -= 1;
            state.called += 1;
            state.at_work += 1;
            self.calls.notify_one();
            return true;
        }
        if state.threads >= MOST {
            return false;
        }
        let thread = std::thread::Builder::new().name(String::from("py_crew")).stack_size(STACK);
        let started = thread.spawn(|| self.work()).is_ok();
        if started {
            state.threads += 1;
            state.at_work += 1;
        }
        started
    }

    /// The life of a thread.
    fn work(&self) {
        let mut state = lock(&self.state);
        loop {
            while let Some(floor) = state.queue.pop_front() {
                state.taken += 1;
                let run = state.taken;
                state.running.push(run);
                drop(state);
                Parking::run(&floor);
                drop(floor);
                state = lock(&self.state);
                match state.running.iter().position(|other| *other == run) {
                    Some(place) => drop(state.running.swap_remove(place)),
                    // It was given up, and is there again.
                    None => state.at_work += 1,
                }
            }
            state.at_work -= 1;
            state.idle += 1;
            let waited = self.calls.wait_timeout_while(state, LINGER, |state| state.called == 0);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            if state.called == 0 {
                state.idle -= 1;
                state.threads -= 1;
                return;
            }
            state.called -= 1;
        }
    }

    /// Calls another thread if loops are queued and none was taken since the last look. Whether to look again soon.
    pub(crate) fn relieve(&'static self) -> bool {
        let mut state = lock(&self.state);
        let stuck = state.taken == state.seen;
        state.seen = state.taken;
        if state.queue.is_empty() {
            return false;
        }
        if stuck {
            state.at_work -= state.running.len();
            state.running.clear();
            if state.at_work == 0 {
                // Without another thread the queue waits for those there are.
                let _none = self.call(&mut state);
            }
        }
        true
    }

    /// Whether loops are queued.
    pub(crate) fn has_work(&self) -> bool {
        !lock(&self.state).queue.is_empty()
    }

    /// How many threads there are.
    pub(crate) fn threads(&self) -> usize {
        lock(&self.state).threads
    }
}
