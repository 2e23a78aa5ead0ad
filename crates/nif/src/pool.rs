//! The pool: the queue that all free contexts serve, and who of them is awake. Any thread; one lock, never held while attaching.
//!
//! A request wakes a context only when none is awake: one that runs will look at the queue before it parks, and where threads share
//! a GIL a second one would only contend for it. If the awake ones are stuck in a long call, the watchdog wakes another.
//!
//! If none is left that could be woken, as all wait for Erlang or hang in calls that cannot be stopped, the queue is served by
//! reserves: threads that are no context of their own, and share the namespace of one. So what Erlang does on behalf of Python may
//! call Python again in any process, and one context is enough. Sub-interpreters have a pool of their own, without reserves: what
//! callbacks ask of it is served by the thread that waits for them.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::context::Seat;
use crate::inbox::lock;
use crate::request::Request;
use crate::runner::Runner;
use crate::watch;

/// Where a context is, as far as the pool is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// It will look at the queue before it parks.
    Awake,
    /// Parked, and in the list of those that may be woken.
    Idle,
    /// Bound to a process, or waiting for Erlang: it does not look at the queue.
    Away,
    /// Ended.
    Gone,
}

struct State {
    queue: VecDeque<Request>,
    idle: Vec<Arc<Seat>>,
    members: Vec<Arc<Seat>>,
    reserves: Vec<Arc<Seat>>,
    /// Reserves that are parked.
    spare: Vec<Arc<Seat>>,
    awake: usize,
    /// How many requests were taken, and how many when the watchdog looked last.
    taken: u64,
    seen: u64,
}

/// The queue and its contexts.
pub(crate) struct Pool {
    state: Mutex<State>,
    queued: AtomicUsize,
    /// How many contexts run a request that they took from the queue, if that is counted.
    busy: AtomicUsize,
    /// Whether its contexts run at the same time, so that each request is worth a thread.
    wide: bool,
    /// Whether each has an interpreter of its own.
    apart: bool,
}

/// The contexts of the main interpreter.
pub(crate) static POOL: Pool = Pool::new(false);
/// Those that have an interpreter, and a GIL, each of its own.
pub(crate) static APART: Pool = Pool::new(true);

/// More threads than this do not help against what keeps the others.
const RESERVES: usize = 256;

/// What the watchdog is to do for the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Relief {
    /// Nothing waits, or nobody could be woken for it.
    None,
    /// Look again soon.
    Later,
    /// Start a reserve.
    Start,
}

/// Numbers for `py:stats/0`.
pub(crate) struct Counts {
    pub(crate) contexts: usize,
    pub(crate) idle: usize,
    pub(crate) awake: usize,
    pub(crate) bound: usize,
    pub(crate) queued: usize,
}

impl Pool {
    const fn new(apart: bool) -> Self {
        Self {
            state: Mutex::new(State {
                queue: VecDeque::new(),
                idle: Vec::new(),
                members: Vec::new(),
                reserves: Vec::new(),
                spare: Vec::new(),
                awake: 0,
                taken: 0,
                seen: 0,
            }),
            queued: AtomicUsize::new(0),
            busy: AtomicUsize::new(0),
            wide: apart || cfg!(Py_GIL_DISABLED),
            apart,
        }
    }

    pub(crate) fn is_apart(&self) -> bool {
        self.apart
    }

    /// Whether a request is worth another thread: none is awake, or, where they do not share a GIL, all that are have work.
    fn wants_another(&self, state: &State) -> bool {
        let free = || state.awake.saturating_sub(self.busy.load(Ordering::Relaxed));
        state.awake == 0 || (self.wide && state.queue.len() > free())
    }

    /// A context is done with a request that it took from here.
    pub(crate) fn done(&self) {
        if self.wide {
            self.busy.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Queues a request for whichever context comes first; given back if there is none.
    pub(crate) fn post(&self, request: Request) -> Result<(), Request> {
        let mut state = lock(&self.state);
        if state.members.is_empty() {
            return Err(request);
        }
        state.queue.push_back(request);
        // Before the look at whether the watchdog sleeps, which looks here once more before it does.
        self.queued.store(state.queue.len(), Ordering::SeqCst);
        let seat = if self.wants_another(&state) { Self::rouse(&mut state) } else { None };
        drop(state);
        match seat {
            Some(seat) => seat.inbox.nudge(),
            None => watch::notice(),
        }
        Ok(())
    }

    /// Takes an idle one out of the list, to be nudged once the lock is released.
    fn rouse(state: &mut State) -> Option<Arc<Seat>> {
        let seat = state.idle.pop()?;
        state.awake += 1;
        seat.set_place(Place::Awake);
        Some(seat)
    }

    /// Whether there may be something to take.
    #[inline]
    pub(crate) fn has_work(&self) -> bool {
        self.queued.load(Ordering::Acquire) > 0
    }

    /// The next request.
    pub(crate) fn take(&self) -> Option<Request> {
        if !self.has_work() {
            return None;
        }
        let mut state = lock(&self.state);
        let request = state.queue.pop_front();
        self.queued.store(state.queue.len(), Ordering::Release);
        if request.is_some() {
            state.taken += 1;
            if self.wide {
                self.busy.fetch_add(1, Ordering::Relaxed);
            }
        }
        request
    }

    /// A new context, awake.
    pub(crate) fn join(&self, seat: &Arc<Seat>) {
        let mut state = lock(&self.state);
        state.members.push(seat.clone());
        state.awake += 1;
        seat.set_place(Place::Awake);
    }

    /// A new reserve, awake. The namespace it is to share, of the context that is there longest.
    pub(crate) fn enlist(&self, seat: &Arc<Seat>) -> Option<Arc<Runner>> {
        let mut state = lock(&self.state);
        let runner = state.members.iter().find_map(|member| member.runner());
        state.reserves.push(seat.clone());
        state.awake += 1;
        seat.set_place(Place::Awake);
        runner
    }

    /// A context ends. When it was the last, what is queued is answered with an error by being dropped.
    pub(crate) fn part(&self, seat: &Arc<Seat>) {
        let mut state = lock(&self.state);
        self.leave_place(&mut state, seat, Place::Gone);
        state.members.retain(|member| !Arc::ptr_eq(member, seat));
        state.reserves.retain(|member| !Arc::ptr_eq(member, seat));
        let (mut orphans, mut reserves) = (VecDeque::new(), Vec::new());
        if state.members.is_empty() {
            self.queued.store(0, Ordering::Release);
            orphans = std::mem::take(&mut state.queue);
            reserves = std::mem::take(&mut state.reserves);
        }
        drop(state);
        drop(orphans);
        for reserve in reserves {
            reserve.stop();
        }
    }

    fn leave_place(&self, state: &mut State, seat: &Arc<Seat>, place: Place) {
        match seat.place() {
            Place::Awake => state.awake -= 1,
            Place::Idle => {
                state.idle.retain(|idle| !Arc::ptr_eq(idle, seat));
                state.spare.retain(|spare| !Arc::ptr_eq(spare, seat));
            }
            Place::Away | Place::Gone => {}
        }
        if seat.place() != Place::Gone {
            seat.set_place(place);
        }
    }

    /// A context stops serving the queue for a while: it waits for Erlang.
    pub(crate) fn away(&self, seat: &Arc<Seat>) {
        let mut state = lock(&self.state);
        seat.waiting.fetch_add(1, Ordering::Relaxed);
        self.leave_place(&mut state, seat, Place::Away);
        let relief = if state.awake == 0 && !state.queue.is_empty() { Self::rouse(&mut state) } else { None };
        drop(state);
        if let Some(seat) = relief {
            seat.inbox.nudge();
        }
    }

    /// It waits no longer.
    pub(crate) fn back(&self, seat: &Arc<Seat>) {
        let mut state = lock(&self.state);
        seat.waiting.fetch_sub(1, Ordering::Relaxed);
        Self::return_to_queue(&mut state, seat);
    }

    /// A context hangs in a call that cannot be stopped: the queue does not wait for it.
    pub(crate) fn write_off(&self, seat: &Arc<Seat>) {
        self.leave_place(&mut lock(&self.state), seat, Place::Away);
        // Should the call have ended just now, the context comes back by itself.
        seat.inbox.nudge();
    }

    /// A context that was written off is there again.
    pub(crate) fn regain(&self, seat: &Arc<Seat>) {
        Self::return_to_queue(&mut lock(&self.state), seat);
    }

    /// It serves the queue again, if nothing keeps it: it looks there before it parks.
    fn return_to_queue(state: &mut State, seat: &Seat) {
        if seat.place() == Place::Away && !seat.is_bound() && seat.waiting.load(Ordering::Relaxed) == 0 {
            state.awake += 1;
            seat.set_place(Place::Awake);
        }
    }

    /// A context is about to park: false if there is work for it after all.
    pub(crate) fn retire(&self, seat: &Arc<Seat>) -> bool {
        let mut state = lock(&self.state);
        if seat.place() != Place::Awake {
            return true;
        }
        if !state.queue.is_empty() {
            return false;
        }
        state.awake -= 1;
        seat.set_place(Place::Idle);
        if seat.is_reserve() {
            state.spare.push(seat.clone());
        } else {
            state.idle.push(seat.clone());
        }
        true
    }

    /// A context is awake again, by a nudge or by a request of its own.
    pub(crate) fn rise(&self, seat: &Arc<Seat>) {
        let mut state = lock(&self.state);
        if seat.place() == Place::Idle {
            self.leave_place(&mut state, seat, Place::Awake);
            state.awake += 1;
        }
    }

    /// Takes a context out of the pool for one process, also one that runs a request if `busy`. False if it is bound already, has
    /// ended, or waits for Erlang: who binds may be the one it waits for.
    pub(crate) fn bind(&self, seat: &Arc<Seat>, busy: bool) -> bool {
        let mut state = lock(&self.state);
        let free = match seat.place() {
            Place::Idle => true,
            Place::Awake => busy,
            Place::Away | Place::Gone => false,
        };
        if !free || seat.is_bound() {
            return false;
        }
        seat.set_bound(true);
        self.leave_place(&mut state, seat, Place::Away);
        let relief = if state.awake == 0 && !state.queue.is_empty() { Self::rouse(&mut state) } else { None };
        drop(state);
        if let Some(relief) = relief {
            relief.inbox.nudge();
        }
        true
    }

    /// Gives a bound context back. Whether it was bound.
    pub(crate) fn unbind(&self, seat: &Arc<Seat>) -> bool {
        let mut state = lock(&self.state);
        let was = seat.is_bound();
        seat.set_bound(false);
        Self::return_to_queue(&mut state, seat);
        drop(state);
        seat.inbox.nudge();
        was
    }

    /// Wakes another context, or a reserve, if requests wait and none was taken since the last look.
    pub(crate) fn relieve(&self) -> Relief {
        let mut state = lock(&self.state);
        let stuck = state.taken == state.seen;
        state.seen = state.taken;
        if !self.could_relieve(&state) {
            return Relief::None;
        }
        if !stuck {
            return Relief::Later;
        }
        let mut seat = Self::rouse(&mut state);
        if seat.is_none() {
            seat = state.spare.pop();
            match &seat {
                Some(seat) => {
                    state.awake += 1;
                    seat.set_place(Place::Awake);
                }
                None => return Relief::Start,
            }
        }
        drop(state);
        if let Some(seat) = seat {
            seat.inbox.nudge();
        }
        Relief::Later
    }

    fn could_relieve(&self, state: &State) -> bool {
        // Contexts that are bound are away by the will of their owners.
        let held_up = |seat: &Arc<Seat>| seat.place() == Place::Away && !seat.is_bound();
        let reserve = !self.apart
            && state.awake == 0
            && (!state.spare.is_empty() || state.reserves.len() < RESERVES)
            && state.members.iter().any(held_up);
        !state.queue.is_empty() && (!state.idle.is_empty() || reserve)
    }

    /// Whether requests wait though somebody could be woken for them.
    pub(crate) fn wants_relief(&self) -> bool {
        self.could_relieve(&lock(&self.state))
    }

    pub(crate) fn has_members(&self) -> bool {
        !lock(&self.state).members.is_empty()
    }

    pub(crate) fn counts(&self) -> Counts {
        let state = lock(&self.state);
        Counts {
            contexts: state.members.len(),
            idle: state.idle.len(),
            awake: state.awake,
            bound: state.members.iter().filter(|seat| seat.is_bound()).count(),
            queued: state.queue.len(),
        }
    }
}
