//! `State`: everything that one run needs, laid out once and used by one run after the other.

use std::cell::UnsafeCell;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, Weak};
use std::task::Waker;
use std::time::Duration;

use crossbeam_utils::CachePadded;
use evloop::{JoinHandle, TimerHandle};

use crate::error::{NodeError, RunError};
use crate::lists::at;
use crate::map::MapRun;
use crate::node::GiveUp;
use crate::observe::{Event, Observer, What};
use crate::plan::Plan;
use crate::pool::Worker;
use crate::queue::Key;
use crate::scheduler::Parts;

/// What the failure of a node means for its run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// The run fails at once; nothing new begins, coroutines are dropped, and what cannot be stopped is not waited for.
    #[default]
    FailFast,
    /// Nothing new begins, and the run fails when what has begun is done.
    Drain,
    /// What does not need the failed node goes on; every output tells for itself.
    Collect,
}

/// How to run.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct RunOptions {
    /// What a failure means.
    pub mode: Mode,
    /// The time the whole run may take.
    pub deadline: Option<Duration>,
    /// Who is told what happens.
    pub observer: Option<Arc<dyn Observer>>,
}

impl std::fmt::Debug for RunOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut debug = f.debug_struct("RunOptions");
        debug.field("mode", &self.mode).field("deadline", &self.deadline).finish_non_exhaustive()
    }
}

impl RunOptions {
    /// With this mode.
    pub fn mode(mode: Mode) -> RunOptions {
        RunOptions { mode, ..RunOptions::default() }
    }

    /// With this deadline, counted from the start.
    pub fn deadline(mut self, time: Duration) -> RunOptions {
        self.deadline = Some(time);
        self
    }

    /// With this observer.
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> RunOptions {
        self.observer = Some(observer);
        self
    }
}

/// What became of a node.
pub(crate) enum Outcome<V> {
    None,
    Value(V),
    Failed(Box<NodeError>),
}

impl<V> Outcome<V> {
    #[inline]
    pub(crate) fn value(&self) -> Option<&V> {
        match self {
            Outcome::Value(value) => Some(value),
            _ => None,
        }
    }
}

/// Where a node's outcome is put, once per run, by whoever has the right to: the one thread that runs a plain node, the
/// winner of the claim to a special one.
pub(crate) struct Slot<V>(UnsafeCell<Outcome<V>>);

// SAFETY: written once per run, and read after that: see `put` and `outcome`.
unsafe impl<V: Send + Sync> Sync for Slot<V> {}

impl<V> Slot<V> {
    /// # Safety
    /// The caller has the right to this node's outcome in this run, and its successors are not released yet.
    #[inline]
    pub(crate) unsafe fn put(&self, outcome: Outcome<V>) {
        // SAFETY: nobody else writes, and nobody reads before the successors are released.
        unsafe { *self.0.get() = outcome }
    }

    /// # Safety
    /// The outcome has been put in this run, and the caller was told of that by a counter or a lock.
    #[inline]
    pub(crate) unsafe fn outcome(&self) -> &Outcome<V> {
        // SAFETY: nothing is written any more in this run.
        unsafe { &*self.0.get() }
    }
}

/// How many inputs a node still waits for. Set back when it gets to none, so that the next run finds it as it was.
pub(crate) struct Count {
    pub(crate) left: AtomicU32,
    pub(crate) all: u32,
}

/// Finishes a node with the answer that was given.
pub(crate) type Finish = Box<dyn FnOnce(&mut Ctx<'_>) + Send>;

/// Where a special node is.
#[derive(Default)]
pub(crate) enum Stage {
    /// Its inputs are not there yet.
    #[default]
    Absent,
    /// It waits for a permit.
    InLimit(Key),
    /// It waits for a thread.
    InPool(Key),
    /// It runs: on the pool, or where nothing can be done about it yet.
    Running,
    /// It runs on the loop.
    Task(JoinHandle<()>),
    /// It is being handed to somebody, who has refused it in the second case, and in the third has answered already; who
    /// hands it over goes on with that.
    Handing,
    Refused,
    Answered(Finish),
    /// Somebody does it.
    Handed(GiveUp),
    /// It runs in many pieces.
    Map(Arc<dyn Stop>),
    /// It does not run any more.
    Over,
}

/// What can be stopped in the midst.
pub(crate) trait Stop: Send + Sync {
    fn stop(&self);
}

#[derive(Default)]
pub(crate) struct Place {
    /// The run that all of this is about.
    pub(crate) run: u64,
    pub(crate) stage: Stage,
    pub(crate) permit: bool,
    pub(crate) timer: Option<TimerHandle>,
    /// Its outcome is there and its successors are released.
    pub(crate) concluded: bool,
}

/// The state of a special node.
#[derive(Default)]
pub(crate) struct Seat {
    /// The last run in which somebody claimed the right to its outcome. It only grows, so who comes from a run before
    /// claims in vain.
    claimed: AtomicU64,
    pub(crate) place: Mutex<Place>,
}

impl Seat {
    pub(crate) fn claim(&self, run: u64) -> bool {
        claim(&self.claimed, run)
    }

    pub(crate) fn is_claimed(&self, run: u64) -> bool {
        self.claimed.load(Ordering::Acquire) >= run
    }
}

/// Moves `word` up to `run`; one caller per run succeeds.
pub(crate) fn claim(word: &AtomicU64, run: u64) -> bool {
    word.fetch_max(run, Ordering::AcqRel) < run
}

/// What is set at the start of a run and read by all of its nodes.
#[derive(Default)]
pub(crate) struct Setup {
    /// Which run of this state it is.
    pub(crate) run: u64,
    /// Which of all.
    pub(crate) number: u64,
    pub(crate) mode: Mode,
    pub(crate) observer: Option<Arc<dyn Observer>>,
}

/// A run, for who may look back at it when it is over and the next one has begun.
#[derive(Clone, Copy)]
pub(crate) struct Which {
    pub(crate) run: u64,
    pub(crate) mode: Mode,
}

/// How a run went, and who wants to know.
#[derive(Default)]
pub(crate) struct End {
    pub(crate) run: u64,
    pub(crate) result: Option<Result<(), RunError>>,
    /// What it is going to be, once all has ended.
    pub(crate) failure: Option<RunError>,
    pub(crate) waker: Option<Waker>,
    pub(crate) callback: Option<Box<dyn FnOnce() + Send>>,
    pub(crate) timers: Vec<TimerHandle>,
    /// The job that begins all plain nodes without inputs.
    pub(crate) first: Option<Key>,
}

/// Set in `done` when who halted the run has seen to everything.
pub(crate) const HALTED: u64 = 1 << 32;

pub(crate) struct State<V> {
    pub(crate) this: Weak<State<V>>,
    pub(crate) plan: Arc<Plan<V>>,
    pub(crate) parts: Arc<Parts>,
    pub(crate) counts: Box<[Count]>,
    pub(crate) slots: Box<[Slot<V>]>,
    pub(crate) seats: Box<[Seat]>,
    /// The last run in which a region's time began.
    pub(crate) regions: Box<[AtomicU64]>,
    /// The last run that was halted.
    pub(crate) halted: AtomicU64,
    /// Written between runs only.
    pub(crate) setup: UnsafeCell<Setup>,
    /// How many nodes have ended.
    pub(crate) done: CachePadded<AtomicU64>,
    pub(crate) outputs_left: AtomicUsize,
    /// No run is in progress.
    pub(crate) idle: AtomicBool,
    pub(crate) end: Mutex<End>,
    pub(crate) ended: Condvar,
}

// SAFETY: `setup` is written by `State::start` alone, which takes a state that is idle (`idle` is swapped) before any
// thread is told of the run.
unsafe impl<V: Send + Sync> Sync for State<V> {}

/// What is to be done after a node, kept in a list so that nothing recurses.
pub(crate) enum Todo {
    /// A special node has all of its inputs.
    Ready(u32),
    /// A node has all of its inputs and does not run.
    Skip(u32, NodeError),
}

/// On whose behalf nodes are released: a worker of the pool, or any other thread.
pub(crate) struct Ctx<'w> {
    pub(crate) worker: Option<&'w mut Worker>,
    pub(crate) todo: VecDeque<Todo>,
}

impl Ctx<'_> {
    pub(crate) fn outside() -> Ctx<'static> {
        Ctx { worker: None, todo: VecDeque::new() }
    }

    pub(crate) fn thread(&self) -> u32 {
        self.worker.as_ref().map_or(0, |worker| worker.index() + 1)
    }
}

impl<V: Clone + Send + Sync + 'static> State<V> {
    pub(crate) fn new(plan: Arc<Plan<V>>, parts: Arc<Parts>) -> Arc<State<V>> {
        Arc::new_cyclic(|this| State {
            this: this.clone(),
            counts: plan
                .waits_for
                .iter()
                .map(|all| Count { left: AtomicU32::new(*all), all: *all })
                .collect(),
            slots: plan.nodes.iter().map(|_| Slot(UnsafeCell::new(Outcome::None))).collect(),
            seats: plan.terms.iter().map(|_| Seat::default()).collect(),
            regions: plan.regions.iter().map(|_| AtomicU64::new(0)).collect(),
            halted: AtomicU64::new(0),
            setup: UnsafeCell::default(),
            done: CachePadded::new(AtomicU64::new(0)),
            outputs_left: AtomicUsize::new(0),
            idle: AtomicBool::new(true),
            end: Mutex::default(),
            ended: Condvar::new(),
            plan,
            parts,
        })
    }
}

impl<V> State<V> {
    #[inline]
    pub(crate) fn setup(&self) -> &Setup {
        // SAFETY: not written while a run is in progress, and asked for only then.
        unsafe { &*self.setup.get() }
    }

    pub(crate) fn which(&self) -> Which {
        Which { run: self.setup().run, mode: self.setup().mode }
    }

    #[inline]
    pub(crate) fn is_halted(&self) -> bool {
        self.halted.load(Ordering::Acquire) == self.setup().run
    }

    pub(crate) fn seat(&self, node: u32) -> &Seat {
        at(&self.seats, at(&self.plan.nodes, node).special)
    }

    #[inline]
    pub(crate) fn observe(&self, node: u32, what: What, ctx: &Ctx<'_>) {
        if let Some(observer) = &self.setup().observer {
            observer.event(Event { node, what, at: evloop::os::now(), thread: ctx.thread() });
        }
    }
}

impl<V: Clone + Send + Sync + 'static> Stop for MapRun<V> {
    fn stop(&self) {
        self.halt();
    }
}
