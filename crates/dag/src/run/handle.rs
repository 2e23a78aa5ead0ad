//! What the user holds: `Runner`, whose state serves one run after the other, `Run`, one in progress, and `Outputs`.

use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use super::state::{Ctx, Outcome, State, Todo, claim};
use super::{RunOptions, Setup};
use crate::error::{BoxError, Error, NodeError, RunError};
use crate::lists::at;
use crate::lock;
use crate::name::Name;
use crate::node::Work;
use crate::plan::{Plan, SPECIAL};
use crate::scheduler::Parts;

/// Runs one plan again and again; what a run needs is laid out once. The values of a run are kept until the next one.
pub struct Runner<V> {
    state: Arc<State<V>>,
}

impl<V> std::fmt::Debug for Runner<V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Runner").field("plan", &self.state.plan).finish_non_exhaustive()
    }
}

impl<V: Clone + Send + Sync + 'static> Runner<V> {
    pub(crate) fn new(plan: Arc<Plan<V>>, parts: Arc<Parts>) -> Runner<V> {
        Runner { state: State::new(plan, parts) }
    }

    /// Starts a run. If the run before has left something that could not be stopped, that keeps its state, and this one
    /// gets another.
    pub fn start(&mut self, options: RunOptions, given: Vec<(Name, V)>) -> Result<Run<'_, V>, Error> {
        if !self.state.idle.load(Ordering::Acquire) {
            self.state = State::new(self.state.plan.clone(), self.state.parts.clone());
        }
        self.state.start(options, given)
    }

    /// Starts a run and waits for its result. Not to be called on a thread of the pool or the loop.
    pub fn run(&mut self, options: RunOptions, given: Vec<(Name, V)>) -> Result<Outputs<'_, V>, RunError> {
        self.start(options, given)?.wait()
    }

    pub(crate) fn into_run(
        self,
        options: RunOptions,
        given: Vec<(Name, V)>,
    ) -> Result<Run<'static, V>, Error> {
        self.state.start(options, given)
    }
}

impl<V: Clone + Send + Sync + 'static> State<V> {
    /// Begins a run in a state that has none.
    fn start<'r>(self: &Arc<Self>, options: RunOptions, given: Vec<(Name, V)>) -> Result<Run<'r, V>, Error> {
        let (queued, capacity) = self.parts.pool.shared().load();
        if queued >= capacity {
            return Err(Error::Overloaded(queued));
        }
        let on_loop = self.plan.on_loop || options.deadline.is_some();
        if on_loop && self.loop_is_down().is_some() {
            return Err(Error::NoLoop);
        }
        let given = self.assign(given)?;
        self.idle.store(false, Ordering::Relaxed);
        for (node, value) in given {
            // SAFETY: no run is in progress, so nobody else is there.
            unsafe { at(&self.slots, node).put(Outcome::Value(value)) };
        }
        let mut end = lock(&self.end);
        let run = end.run + 1;
        *end = super::state::End { run, ..Default::default() };
        drop(end);
        for seat in &self.seats {
            *lock(&seat.place) = super::state::Place { run, ..Default::default() };
        }
        self.done.store(0, Ordering::Relaxed);
        self.outputs_left.store(self.plan.outputs.len(), Ordering::Relaxed);
        static RUNS: AtomicU64 = AtomicU64::new(0);
        let number = RUNS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: no run is in progress, so nobody reads it.
        unsafe { *self.setup.get() = Setup { run, number, mode: options.mode, observer: options.observer } };
        // The run's own reference, until it completes.
        std::mem::forget(self.clone());
        let handle = Run { state: self.clone(), run, over: false, _runner: PhantomData };
        if self.plan.is_empty() {
            let _ = claim(&self.halted, run);
            self.complete(run);
            return Ok(handle);
        }
        if let Some(time) = options.deadline {
            let state = self.clone();
            let late = move || {
                state.halt(run, RunError::Deadline);
            };
            // Refused only by a loop that has just stopped, without which no node gets late any more.
            lock(&self.end).timers.extend(self.parts.events.call_later(time, late));
        }
        self.begin();
        Ok(handle)
    }

    /// Releases the source: the special nodes here, as their time begins now, the plain ones on the pool.
    fn begin(&self) {
        let (lo, hi) = self.plan.successors.range(self.plan.source());
        let special = |node: &&u32| at(&self.plan.nodes, **node).flags & SPECIAL != 0;
        let specials = self.plan.successors.slice((lo, hi)).iter().take_while(special);
        let mut ctx = Ctx::outside();
        ctx.todo.extend(specials.map(|node| Todo::Ready(*node)));
        let plain = lo + ctx.todo.len() as u32;
        if plain < hi {
            let mut end = lock(&self.end);
            end.first = Some(self.parts.pool.shared().inject(self.job(plain, hi)));
        }
        self.drain(&mut ctx);
    }

    /// Which node each value is for, and that none is without.
    fn assign(&self, given: Vec<(Name, V)>) -> Result<Vec<(u32, V)>, Error> {
        let is_input = |node: u32| matches!(at(&self.plan.nodes, node).work, Work::Input);
        let mut assigned = Vec::with_capacity(given.len());
        for (name, value) in given {
            match self.plan.find(&name) {
                Some(node) if is_input(node) => assigned.push((node, value)),
                Some(_) => return Err(Error::NotAnInput(name)),
                None => return Err(Error::Unknown(name)),
            }
        }
        for (node, _) in self.plan.terms.iter().filter(|(node, _)| is_input(*node)) {
            if !assigned.iter().any(|(given, _)| given == node) {
                return Err(Error::InputNotGiven(at(&self.plan.names, *node).clone()));
            }
        }
        Ok(assigned)
    }
}

/// A run in progress: to be waited for by a thread or by a future. Dropping it cancels the run.
#[must_use = "dropping a run cancels it"]
pub struct Run<'r, V: Clone + Send + Sync + 'static> {
    state: Arc<State<V>>,
    run: u64,
    over: bool,
    _runner: PhantomData<&'r mut ()>,
}

impl<V: Clone + Send + Sync + 'static> std::fmt::Debug for Run<'_, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Run").field("plan", &self.state.plan).finish_non_exhaustive()
    }
}

impl<'r, V: Clone + Send + Sync + 'static> Run<'r, V> {
    /// Cancels the run; `true` if that is what ended it.
    pub fn cancel(&self) -> bool {
        self.state.halt(self.run, RunError::Cancelled)
    }

    /// Something to cancel the run by, from anywhere; a reason that is given is the run's error.
    pub fn canceller(&self) -> impl Fn(Option<BoxError>) -> bool + Clone + Send + Sync + 'static {
        let (state, run) = (self.state.clone(), self.run);
        move |reason| {
            let error = reason.map_or(RunError::Cancelled, |reason| RunError::Stopped(reason.into()));
            state.halt(run, error)
        }
    }

    /// Whether the result is there.
    pub fn is_finished(&self) -> bool {
        lock(&self.state.end).result.is_some()
    }

    /// Calls `f` once the result is there, on the thread that delivers it, or at once.
    pub fn on_result(&self, f: impl FnOnce() + Send + 'static) {
        let mut end = lock(&self.state.end);
        if end.result.is_none() {
            end.callback = Some(Box::new(f));
            return;
        }
        drop(end);
        f();
    }

    /// Waits for the result. Not to be called on a thread of the pool or the loop.
    pub fn wait(mut self) -> Result<Outputs<'r, V>, RunError> {
        let mut end = lock(&self.state.end);
        while end.result.is_none() {
            end = self.state.ended.wait(end).unwrap_or_else(std::sync::PoisonError::into_inner);
        }
        let result = end.result.clone();
        drop(end);
        self.result(result)
    }

    fn result(&mut self, result: Option<Result<(), RunError>>) -> Result<Outputs<'r, V>, RunError> {
        self.over = true;
        result.unwrap_or(Err(RunError::Cancelled))?;
        Ok(Outputs { state: self.state.clone(), _runner: PhantomData })
    }
}

impl<'r, V: Clone + Send + Sync + 'static> Future for Run<'r, V> {
    type Output = Result<Outputs<'r, V>, RunError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut end = lock(&self.state.end);
        if end.result.is_none() {
            end.waker = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let result = end.result.clone();
        drop(end);
        Poll::Ready(self.result(result))
    }
}

impl<V: Clone + Send + Sync + 'static> Drop for Run<'_, V> {
    fn drop(&mut self) {
        if !self.over {
            self.cancel();
        }
    }
}

/// The values of the outputs.
pub struct Outputs<'r, V> {
    state: Arc<State<V>>,
    _runner: PhantomData<&'r mut ()>,
}

impl<V> std::fmt::Debug for Outputs<'_, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Outputs").field("plan", &self.state.plan).finish_non_exhaustive()
    }
}

impl<V> Outputs<'_, V> {
    /// The value of an output; an error only in runs that collect. `None` for what is no output.
    pub fn get(&self, name: impl Into<Name>) -> Option<Result<&V, &NodeError>> {
        let node = self.state.plan.find(&name.into())?;
        self.state.plan.is_output(node).then(|| self.at(node)).flatten()
    }

    fn at(&self, node: u32) -> Option<Result<&V, &NodeError>> {
        // SAFETY: a result is delivered when all outputs have their outcomes, and the next run waits for this borrow
        // of its runner, or takes another state.
        match unsafe { at(&self.state.slots, node).outcome() } {
            Outcome::Value(value) => Some(Ok(value)),
            Outcome::Failed(error) => Some(Err(error)),
            Outcome::None => None,
        }
    }

    /// All outputs, in the order in which they were asked for or added.
    pub fn iter(&self) -> impl Iterator<Item = (&Name, Result<&V, &NodeError>)> {
        let outputs = self.state.plan.outputs.iter();
        outputs.filter_map(|node| Some((at(&self.state.plan.names, *node), self.at(*node)?)))
    }
}
