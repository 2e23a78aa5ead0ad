//! The tasks of event loops that wait, by the id of their request: how they are reached from outside. Any thread.
//!
//! A request is first cancelled in the table, so that nobody will be answered, and then whoever has it is told: a task that waits
//! is cancelled on its loop, and code that runs is interrupted. A task is entered here before it is looked up whether its request
//! was cancelled meanwhile, and a request is cancelled before its task is looked for here: so one of the two finds the other.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use pyrt::{Attached, Remote};
use rustler::{LocalPid, ResourceArc};

use crate::event_loop::Floor;
use crate::inbox::lock;
use crate::runner::CallerWatch;
use crate::table::{self, Id};
use crate::watch;

/// How long a step of a cancelled task may take before it is interrupted.
const PATIENCE: Duration = Duration::from_millis(20);

/// A task that waits.
pub(crate) struct Waiting {
    floor: Arc<Floor>,
    task: Remote,
    /// It was told to stop, and its caller is to hear of it.
    interrupted: AtomicBool,
    /// Tells when the caller dies; made when the task waits for the first time.
    watch: OnceLock<ResourceArc<CallerWatch>>,
}

impl Waiting {
    pub(crate) fn new(floor: Arc<Floor>, task: Remote) -> Arc<Self> {
        Arc::new(Self { floor, task, interrupted: AtomicBool::new(false), watch: OnceLock::new() })
    }

    /// Has the caller watched from now on. One that is gone has the task cancelled.
    pub(crate) fn watch(&self, id: Id, caller: LocalPid) {
        self.watch.get_or_init(|| CallerWatch::of(id, caller));
    }

    pub(crate) fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Acquire)
    }

    /// `task.cancel()`, by the loop's thread.
    pub(crate) fn cancel(&self, py: Attached<'_>) {
        let cancelled = match self.task.get(py) {
            Some(task) => task.getattr_str(py, c"cancel").and_then(|cancel| cancel.call0(py).map(drop)),
            None => Ok(()),
        };
        if let Err(raised) = cancelled {
            raised.write_unraisable(py, None);
        }
    }
}

const SHARDS: usize = 16;

/// Ids are given out in turn, so neighbours lie in different parts.
static WAITING: [Mutex<BTreeMap<u64, Arc<Waiting>>>; SHARDS] =
    [const { Mutex::new(BTreeMap::new()) }; SHARDS];

fn shard(id: Id) -> &'static Mutex<BTreeMap<u64, Arc<Waiting>>> {
    let [first, ..] = &WAITING;
    WAITING.get(id.word() as usize % SHARDS).unwrap_or(first)
}

/// Enters a task.
pub(crate) fn keep(id: Id, waiting: Arc<Waiting>) {
    let before = lock(shard(id)).insert(id.word(), waiting);
    drop(before);
}

/// Takes a task out that has ended.
pub(crate) fn forget(id: Id) -> Option<Arc<Waiting>> {
    lock(shard(id)).remove(&id.word())
}

fn find(id: Id) -> Option<Arc<Waiting>> {
    lock(shard(id)).get(&id.word()).cloned()
}

/// Has the caller of a task watched, if the task is entered.
pub(crate) fn watch(id: Id, caller: LocalPid) {
    if let Some(waiting) = find(id) {
        waiting.watch(id, caller);
    }
}

/// Takes the tasks of a loop out that has ended.
pub(crate) fn forget_all(floor: &Arc<Floor>) -> Vec<Arc<Waiting>> {
    let mut gone = Vec::new();
    for shard in &WAITING {
        lock(shard).retain(|_, waiting| {
            let stays = !Arc::ptr_eq(&waiting.floor, floor);
            if !stays {
                gone.push(waiting.clone());
            }
            stays
        });
    }
    gone
}

/// How many tasks wait.
pub(crate) fn count() -> usize {
    WAITING.iter().map(|shard| lock(shard).len()).sum()
}

/// Has a task that waits cancelled by its loop. False if there is none of this id.
fn cancel(waiting: Option<Arc<Waiting>>) -> bool {
    let Some(waiting) = waiting else { return false };
    let floor = waiting.floor.clone();
    floor.run(move |py| waiting.cancel(py));
    true
}

/// Cancels a request, wherever it is. True for the one who did: from then on no answer is sent.
pub(crate) fn stop(id: Id) -> bool {
    if !table::cancel(id) {
        return false;
    }
    if cancel(find(id)) {
        watch::interrupt_after(id, PATIENCE);
    } else {
        watch::interrupt(id);
    }
    true
}

/// Stops the code of a request; its caller is told so.
pub(crate) fn interrupt(id: Id) {
    if !interrupt_waiting(id) {
        watch::interrupt(id);
    }
}

/// Has a task that waits stopped; its caller is told so. False if there is none of this id.
pub(crate) fn interrupt_waiting(id: Id) -> bool {
    let waiting = find(id);
    if let Some(waiting) = &waiting {
        waiting.interrupted.store(true, Ordering::Release);
    }
    cancel(waiting)
}
