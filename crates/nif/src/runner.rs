//! `Runner`: the record of one thread that runs requests: what it is at, how deep, and how to interrupt it.
//!
//! A context's thread has one, and so has any Python thread that serves the nested requests of its own `erlang.call`. The owner
//! pushes and pops; the watchdog reads and interrupts. The stack's lock is held for a few instructions, never while attaching.
//!
//! An interrupt never hits the next request: it is set by the watchdog and taken back by the owner under that lock, both
//! attached, and the owner takes it back when the request it was meant for leaves the stack.

use std::cell::OnceCell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};

use pyrt::{Attached, Obj, Owned, Remote, thread_ident};
use rustler::{Env, LocalPid, Monitor, Resource, ResourceArc};

use crate::bridge::Bridge;
use crate::callback::Suspension;
use crate::context::Seat;
use crate::inbox::lock;
use crate::jobs;
use crate::realm::Realm;
use crate::stats::STATS;
#[cfg(Py_3_14)]
use crate::strike::Aim;
use crate::table::Id;
use crate::tray::Tray;
use crate::waiter::{self, Known};
use crate::watch;

/// A request that is being run.
struct Frame {
    id: Id,
    /// Who waits for it; none for what is done after the answer.
    caller: Option<LocalPid>,
    /// How many looks of the watchdog it has outlived.
    age: u32,
    interrupted: bool,
    /// Tells when the caller dies; made for requests that take their time.
    watch: Option<ResourceArc<CallerWatch>>,
    /// The reference by which others know it.
    known: Option<Known>,
}

impl Frame {
    fn new(id: Id, caller: Option<LocalPid>, known: Option<Known>) -> Self {
        Self { id, caller, age: 0, interrupted: false, watch: None, known }
    }
}

enum Level {
    Running(Frame),
    /// A cast: nobody waits, nobody cancels.
    Cast,
    /// In `erlang.call`.
    Waiting(Arc<Suspension>),
}

/// The record of one thread.
pub(crate) struct Runner {
    pub(crate) ident: u64,
    stack: Mutex<Vec<Level>>,
    /// What `eval` and `exec` see; none for threads that are no context's.
    namespace: Mutex<Option<Remote>>,
    /// The interpreter it is attached to.
    realm: Option<Weak<Realm>>,
    /// The context whose thread it is.
    seat: Option<Weak<Seat>>,
    /// Whether that is to end.
    stopped: Arc<AtomicBool>,
    /// How often it asked not to be interrupted for a moment, under the stack's lock, and whether it was to be meanwhile.
    held: AtomicUsize,
    due: AtomicBool,
    /// Answers that are about to be sent.
    pub(crate) tray: Tray,
    /// Whether an interrupt is on its way.
    #[cfg(Py_3_14)]
    pub(crate) aim: Aim,
}

static RUNNERS: Mutex<Vec<Weak<Runner>>> = Mutex::new(Vec::new());

thread_local! {
    static CURRENT: OnceCell<Arc<Runner>> = const { OnceCell::new() };
}

impl Runner {
    /// Makes the record of this thread, once.
    pub(crate) fn install(namespace: Option<Remote>, realm: Option<&Arc<Realm>>) -> Arc<Self> {
        Self::here().unwrap_or_else(|| {
            let runner = Self::make(namespace, realm);
            // A thread that ends has one for the moment only.
            let _ending = CURRENT.try_with(|current| current.set(runner.clone()));
            runner
        })
    }

    fn make(namespace: Option<Remote>, realm: Option<&Arc<Realm>>) -> Arc<Self> {
        let seat = Seat::current();
        let stopped = seat.as_ref().map(|seat| seat.stopped()).unwrap_or_default();
        let runner = Arc::new(Self {
            ident: thread_ident(),
            stack: Mutex::new(Vec::new()),
            namespace: Mutex::new(namespace),
            realm: realm.map(Arc::downgrade),
            seat: seat.map(|seat| Arc::downgrade(&seat)),
            stopped,
            held: AtomicUsize::new(0),
            due: AtomicBool::new(false),
            tray: Tray::default(),
            #[cfg(Py_3_14)]
            aim: Aim::default(),
        });
        let mut all = lock(&RUNNERS);
        all.retain(|other| other.strong_count() > 0);
        all.push(Arc::downgrade(&runner));
        drop(all);
        runner
    }

    /// The record of this thread, if it has one. A thread that ends runs Python once more, when its thread state is cleared, and may
    /// have none by then.
    fn here() -> Option<Arc<Self>> {
        CURRENT.try_with(|current| current.get().cloned()).ok().flatten()
    }

    /// The record of this thread.
    pub(crate) fn current(bridge: &Bridge) -> Arc<Self> {
        Self::here().unwrap_or_else(|| Self::install(None, bridge.realm().as_ref()))
    }

    /// Who waits for what this thread is at.
    pub(crate) fn caller_here() -> Option<LocalPid> {
        Self::here()?.caller()
    }

    /// Sends what is in the tray of this thread.
    pub(crate) fn empty_tray() {
        if let Some(runner) = Self::here() {
            runner.tray.send();
        }
    }

    /// What `eval` and `exec` see, if it is the thread of a context.
    pub(crate) fn namespace(&self, py: Attached<'_>) -> Option<Owned> {
        lock(&self.namespace).as_ref()?.get(py).map(|names| names.clone_ref(py))
    }

    /// Gives the namespace up, attached: its interpreter ends.
    pub(crate) fn forget_namespace(&self) {
        let namespace = lock(&self.namespace).take();
        drop(namespace);
    }

    /// The interpreter its thread is in, if that has not ended.
    pub(crate) fn realm(&self) -> Option<Arc<Realm>> {
        self.realm.as_ref()?.upgrade()
    }

    /// The context whose thread it is.
    pub(crate) fn seat(&self) -> Option<Arc<Seat>> {
        self.seat.as_ref()?.upgrade()
    }

    /// Who waits for the request on top.
    pub(crate) fn caller(&self) -> Option<LocalPid> {
        let running = |level: &Level| match level {
            Level::Running(frame) => Some(frame.caller),
            Level::Cast => Some(None),
            Level::Waiting(_) => None,
        };
        lock(&self.stack).iter().rev().find_map(running).flatten()
    }

    /// Runs `f` without interrupts for this thread. Whether there was to be one comes with its result.
    pub(crate) fn uninterrupted<T>(py: Attached<'_>, f: impl FnOnce() -> T) -> (T, bool) {
        Self::hold(py);
        let result = f();
        (result, Self::let_go())
    }

    /// This thread is not interrupted until it lets go as often. An interrupt that was about to strike waits too.
    pub(crate) fn hold(py: Attached<'_>) {
        let Some(runner) = Self::here() else { return };
        let stack = lock(&runner.stack);
        runner.held.fetch_add(1, Ordering::Relaxed);
        if stack.iter().any(|level| matches!(level, Level::Running(frame) if frame.interrupted)) {
            runner.take_back(py);
            runner.due.store(true, Ordering::Relaxed);
        }
    }

    /// Whether there was to be an interrupt meanwhile.
    pub(crate) fn let_go() -> bool {
        let Some(runner) = Self::here() else { return false };
        let _still = lock(&runner.stack);
        runner.held.fetch_sub(1, Ordering::Relaxed) == 1 && runner.due.swap(false, Ordering::Relaxed)
    }

    /// All there are.
    pub(crate) fn all() -> Vec<Arc<Self>> {
        lock(&RUNNERS).iter().filter_map(Weak::upgrade).collect()
    }

    /// A request begins.
    pub(crate) fn enter(&self, request: Option<(Id, LocalPid)>, known: Option<Known>) {
        let Some((id, caller)) = request else {
            lock(&self.stack).push(Level::Cast);
            return;
        };
        lock(&self.stack).push(Level::Running(Frame::new(id, Some(caller), known)));
        // One that ends has looked at the stack before, or it does so now.
        if self.is_stopped() {
            self.abandon();
        }
    }

    /// Whether it is the thread of a context that is to end.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::SeqCst)
    }

    /// The context ends: what runs is interrupted, and who waits for it is told at once.
    pub(crate) fn abandon(&self) {
        let running = |level: &Level| match level {
            // What is done after an answer, or at the end of the context itself, has a time of its own.
            Level::Running(frame) if frame.caller.is_some() => Some((frame.id, frame.known.clone())),
            Level::Running(_) | Level::Cast | Level::Waiting(_) => None,
        };
        let all: Vec<_> = lock(&self.stack).iter().filter_map(running).collect();
        for (id, known) in all {
            waiter::closed(id, known);
            watch::interrupt(id);
        }
    }

    /// Something begins that can be interrupted by its id, but whose caller does not matter.
    pub(crate) fn enter_unwatched(&self, id: Option<Id>) {
        let level = match id {
            Some(id) => Level::Running(Frame::new(id, None, None)),
            None => Level::Cast,
        };
        lock(&self.stack).push(level);
    }

    /// The request on top ends: an interrupt meant for it that has not struck yet is taken back.
    pub(crate) fn leave(&self, py: Attached<'_>) {
        let mut stack = lock(&self.stack);
        let level = stack.pop();
        if matches!(&level, Some(Level::Running(Frame { interrupted: true, .. }))) {
            self.take_back(py);
        }
        drop(stack);
        drop(level);
    }

    /// How deep the stack is, for [`unwind_to`](Self::unwind_to).
    pub(crate) fn depth(&self) -> usize {
        lock(&self.stack).len()
    }

    /// After a panic: leaves what was not left.
    pub(crate) fn unwind_to(&self, py: Attached<'_>, depth: usize) {
        while self.depth() > depth {
            self.leave(py);
        }
    }

    /// The requests on the stack.
    pub(crate) fn ids(&self) -> Vec<Id> {
        let running = |level: &Level| if let Level::Running(frame) = level { Some(frame.id) } else { None };
        lock(&self.stack).iter().filter_map(running).collect()
    }

    /// The request on top waits for Erlang.
    pub(crate) fn suspend(&self, suspension: Arc<Suspension>) {
        lock(&self.stack).push(Level::Waiting(suspension));
    }

    /// It goes on.
    pub(crate) fn resume(&self) {
        lock(&self.stack).pop();
    }

    /// Whether a request is on this thread's stack.
    pub(crate) fn has(&self, id: Id) -> bool {
        lock(&self.stack).iter().any(|level| matches!(level, Level::Running(frame) if frame.id == id))
    }

    /// Has `class` raised in the thread, or its wait broken off, if the request is still there.
    pub(crate) fn interrupt(self: &Arc<Self>, py: Attached<'_>, id: Id, class: &Obj) -> bool {
        let mut stack = lock(&self.stack);
        let mut found = false;
        for level in stack.iter_mut() {
            if let Level::Running(frame) = level
                && frame.id == id
            {
                frame.interrupted = true;
                found = true;
            }
        }
        if !found {
            return false;
        }
        STATS.interrupted.fetch_add(1, Ordering::Relaxed);
        if self.held.load(Ordering::Relaxed) > 0 {
            self.due.store(true, Ordering::Relaxed);
            return true;
        }
        match stack.last() {
            Some(Level::Waiting(suspension)) => suspension.interrupt(),
            _ => {
                // Whatever is on top takes it back when it leaves.
                if let Some(Level::Running(frame)) = stack.last_mut() {
                    frame.interrupted = true;
                }
                self.strike(py, class);
            }
        }
        true
    }

    /// Breaks off its wait for Erlang, if it is in one.
    pub(crate) fn break_off(&self) -> bool {
        match lock(&self.stack).last() {
            Some(Level::Waiting(suspension)) => {
                suspension.interrupt();
                true
            }
            _ => false,
        }
    }

    /// Looks at what is running: requests that take their time get their caller watched. Whether there is one that is
    /// too young for that.
    pub(crate) fn look(&self) -> bool {
        let mut young = false;
        let mut watched = Vec::new();
        for level in lock(&self.stack).iter_mut() {
            if let Level::Running(frame) = level {
                frame.age = frame.age.saturating_add(1);
                if frame.age < 3 {
                    young = true;
                } else if frame.watch.is_none()
                    && let Some(caller) = frame.caller
                {
                    let watch = ResourceArc::new(CallerWatch { id: frame.id });
                    frame.watch = Some(watch.clone());
                    watched.push((watch, caller));
                }
            }
        }
        for (watch, caller) in watched {
            begin(&watch, caller);
        }
        young
    }
}

/// Watches the caller of one request, for as long as the request is running.
pub(crate) struct CallerWatch {
    id: Id,
}

impl CallerWatch {
    /// For a request that is not looked at while it waits: on an event loop.
    pub(crate) fn of(id: Id, caller: LocalPid) -> ResourceArc<Self> {
        let watch = ResourceArc::new(Self { id });
        begin(&watch, caller);
        watch
    }

    fn gone(id: Id) {
        jobs::stop(id);
    }
}

/// A caller that is gone already is as good as one that dies now.
fn begin(watch: &ResourceArc<CallerWatch>, caller: LocalPid) {
    if watch.monitor(None, &caller).is_none() {
        CallerWatch::gone(watch.id);
    }
}

#[rustler::resource_impl]
impl Resource for CallerWatch {
    const IMPLEMENTS_DOWN: bool = true;

    fn down<'a>(&'a self, _env: Env<'a>, _pid: LocalPid, _monitor: Monitor) {
        Self::gone(self.id);
    }
}
