//! `Job`: the coroutine of a task that Erlang asked for, around the user's own. It says what its thread is at during each step, and
//! the step that ends it answers. The loop's thread only.
//!
//! A request is begun by calling its function. What can be awaited becomes a job, run by an `asyncio.Task` like any other, so that
//! `current_task()`, timeouts and task groups work in it; whatever else is the answer. Exceptions end here: one task never ends
//! the loop of the others.

use std::cell::Cell;
use std::ffi::CStr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pyrt::{
    Args, Attached, Borrowed, Class, Confined, Exception, Fixed, Guarded, Instance, Kind, Method, Owned,
    Property, PyResult, Remote, Step, Traverse, TypeSlot, Visit, Visited, confined, stop_iteration,
};
use rustler::LocalPid;

use crate::bridge::{self, Bridge};
use crate::chain;
use crate::event_loop::Floor;
use crate::exec::{self, Failure, Reason};
use crate::jobs::{self, Waiting};
use crate::request::Request;
use crate::runner::Runner;
use crate::stats::STATS;
use crate::table::{self, Id};
use crate::{atoms, output, slice, tray, watch};

/// How many requests are begun before other threads of Python get their turn: a function in C gives none away by itself.
const BATCH: u32 = 256;

thread_local! {
    static BEGUN: Cell<u32> = const { Cell::new(0) };
}

/// Begins a request on the thread of its loop, which is followed by another piece of work at once or not.
pub(crate) fn begin(py: Attached<'_>, floor: &Arc<Floor>, request: Request, followed: bool) {
    let begun = BEGUN.get().wrapping_add(1);
    BEGUN.set(begun);
    if begun.is_multiple_of(BATCH)
        && let Some(realm) = floor.realm()
    {
        tray::clear();
        realm.interpreter().detach(py, || ());
    }
    tray::begin(followed);
    floor.attach(|py, bridge| {
        let runner = Runner::current(bridge);
        let depth = runner.depth();
        // A panic is answered by the request being dropped, and the loop goes on.
        let begun = catch_unwind(AssertUnwindSafe(|| start(py, bridge, &runner, floor, request)));
        if let Err(panic) = begun {
            runner.unwind_to(py, depth);
            pyrt::raise_panic(py, panic).write_unraisable(py, None);
        }
    });
    tray::end(followed);
}

fn start(py: Attached<'_>, bridge: &Bridge, runner: &Runner, floor: &Arc<Floor>, mut request: Request) {
    runner.enter(request.id().zip(request.caller()), None);
    if floor.is_stopped() {
        runner.leave(py);
        return exec::answer(py, bridge, request, Err(Reason::Word(atoms::closed())));
    }
    if !request.is_wanted() {
        STATS.skipped.fetch_add(1, Ordering::Relaxed);
        runner.leave(py);
        return;
    }
    STATS.started.fetch_add(1, Ordering::SeqCst);
    watch::notice();
    let raised = |raised| Reason::of(py, bridge, Failure::Raised(raised));
    let namespace = match exec::namespace(py, bridge, runner) {
        Ok(namespace) => namespace,
        Err(error) => {
            runner.leave(py);
            return exec::answer(py, bridge, request, Err(raised(error)));
        }
    };
    let outer = slice::begin();
    let outcome = exec::first(py, bridge, &namespace, &mut request);
    let awaited = match &outcome {
        Ok(value) => value.awaited(py).map_err(raised),
        Err(_) => Ok(None),
    };
    let outcome = match awaited {
        Ok(Some(steps)) => {
            slice::end(outer);
            output::flush();
            runner.leave(py);
            return run(py, bridge, floor, request, steps);
        }
        Ok(None) => outcome,
        Err(reason) => Err(reason),
    };
    let next = chain::follow(py, bridge, &namespace, &mut request, outcome);
    slice::end(outer);
    output::flush();
    exec::conclude(py, bridge, runner, request, next);
}

/// Runs what can be awaited as a task, which answers the request.
fn run(py: Attached<'_>, bridge: &Bridge, floor: &Arc<Floor>, request: Request, steps: Owned) {
    let caller = request.caller();
    // What nobody waits for has an id too, by which its task is kept.
    let id = request.id().or_else(table::open);
    let spawned = request.id().is_none();
    let payload = Job {
        steps: steps.into(),
        floor: floor.clone(),
        id,
        spawned,
        caller,
        waits: AtomicBool::new(false),
        kept: AtomicBool::new(false),
        request: Guarded::new(Slot(Some(request))),
    };
    let job = match bridge.job.create(py, payload) {
        Ok(job) => job,
        // The payload was dropped, and so answered.
        Err(raised) => return raised.clear(py),
    };
    let task = match floor.start_task(py, job.object().borrow()) {
        Ok(task) => task,
        Err(raised) => {
            let reason = Reason::raised(py, bridge, raised);
            return job.end(py, bridge, Err(reason));
        }
    };
    let is_over = job.request.with(py, |slot| slot.0.is_none());
    if matches!(is_over, Ok(false))
        && let Some(id) = id
        && let Ok(task) = Remote::new(py, task, &bridge.home)
    {
        let waiting = Waiting::new(floor.clone(), task);
        job.kept.store(true, Ordering::Relaxed);
        jobs::keep(id, waiting.clone());
        // Its first step may have been taken before it was entered.
        if job.waits.load(Ordering::Relaxed)
            && let Some(caller) = caller
        {
            waiting.watch(id, caller);
        }
        if !table::is_live(id) {
            waiting.cancel(py);
        }
    }
}

/// The request, until it is answered.
struct Slot(Option<Request>);

// SAFETY: a request may be moved between threads.
unsafe impl Confined for Slot {}

/// The coroutine.
pub(crate) struct Job {
    /// What it steps: the user's coroutine, or what its `__await__` gave.
    steps: Fixed,
    floor: Arc<Floor>,
    id: Option<Id>,
    /// Nobody waits for it: its id is its own.
    spawned: bool,
    caller: Option<LocalPid>,
    /// A step has ended without being the last. Many tasks end in their first one: only then their callers are watched.
    waits: AtomicBool,
    /// It was entered among the tasks that wait. The loop's thread enters it, and takes it out.
    kept: AtomicBool,
    request: Guarded<Slot>,
}

confined!(Job { steps, floor, id, spawned, caller, waits, kept, request });

impl Traverse for Job {
    fn traverse(&self, visit: &mut Visit<'_>) -> Visited {
        self.steps.traverse(visit)
    }
}

type This<'a> = Instance<'a, Job>;

impl Class for Job {
    const NAME: &'static CStr = c"erlang._bridge.Job";
    const DOC: &'static CStr = c"A coroutine that answers Erlang when it ends.";
    const METHODS: &'static [Method<Self>] = &[
        Method::one(c"send", Self::send, c"send($self, value, /)\n--\n\n"),
        Method::fast(c"throw", Self::throw, c"throw($self, type, value=None, traceback=None, /)\n--\n\n"),
        Method::<Self>::noargs(c"close", Self::close, c"close($self)\n--\n\n"),
        Method::one(c"answer", Self::answer, c"answer($self, value, /)\n--\n\nAnswers before the end."),
        Method::END,
    ];
    const PROPERTIES: &'static [Property<Self>] = &[
        Property::<Self>::read(c"__name__", |py, this| this.of_steps(py, c"__name__"), c""),
        Property::<Self>::read(c"__qualname__", |py, this| this.of_steps(py, c"__qualname__"), c""),
        Property::<Self>::read(c"cr_frame", |py, this| this.of_steps(py, c"cr_frame"), c""),
        Property::<Self>::read(c"cr_code", |py, this| this.of_steps(py, c"cr_code"), c""),
        Property::<Self>::read(c"cr_await", |py, this| this.of_steps(py, c"cr_await"), c""),
        Property::<Self>::read(c"cr_running", |py, this| this.of_steps(py, c"cr_running"), c""),
        Property::END,
    ];
    const SLOTS: &'static [TypeSlot<Self>] = &[
        TypeSlot::am_send(Self::step),
        TypeSlot::am_await(itself),
        TypeSlot::iter(itself),
        TypeSlot::iternext(Self::next),
        TypeSlot::repr(Self::repr),
    ];
}

fn itself<'py>(py: Attached<'py>, this: This<'py>) -> PyResult<Owned> {
    Ok(this.object().clone_ref(py))
}

impl Job {
    fn repr(py: Attached<'_>, this: This<'_>) -> PyResult<String> {
        Ok(format!("<erlang task of {}>", this.steps.repr(py)?.to_string_lossy(py)?))
    }

    /// An attribute of what it steps; `None` where that has none.
    fn of_steps(&self, py: Attached<'_>, name: &CStr) -> PyResult<Option<Owned>> {
        self.steps.getattr_opt(py, &Owned::interned(py, name)?)
    }

    fn step(py: Attached<'_>, this: This<'_>, value: Borrowed<'_>) -> PyResult<Step> {
        this.advance(py, this, || this.steps.send(py, &value))
    }

    fn send(py: Attached<'_>, this: This<'_>, value: Borrowed<'_>) -> PyResult<Owned> {
        match Self::step(py, this, value)? {
            Step::Yielded(waited_for) => Ok(waited_for),
            Step::Returned(value) => Err(stop_iteration(py, &value)),
        }
    }

    fn next(py: Attached<'_>, this: This<'_>) -> PyResult<Option<Owned>> {
        Self::send(py, this, Borrowed::none(py)).map(Some)
    }

    fn throw(py: Attached<'_>, this: This<'_>, args: Args<'_>) -> PyResult<Owned> {
        let step = this.advance(py, this, || {
            let thrown = this.steps.getattr_opt(py, &Owned::interned(py, c"throw")?)?;
            let Some(throw) = thrown else {
                return Err(pyrt::Fault::runtime("what is awaited takes no exceptions").raise(py));
            };
            match throw.call_slice(py, args.positional()) {
                Ok(waited_for) => Ok(Step::Yielded(waited_for)),
                Err(raised) if raised.matches(py, &Kind::StopIteration.class(py)) => {
                    Ok(Step::Returned(raised.take(py).value().getattr_str(py, c"value")?))
                }
                Err(raised) => Err(raised),
            }
        })?;
        match step {
            Step::Yielded(waited_for) => Ok(waited_for),
            Step::Returned(value) => Err(stop_iteration(py, &value)),
        }
    }

    fn close(py: Attached<'_>, this: This<'_>) -> PyResult<()> {
        let close = this.steps.getattr_opt(py, &Owned::interned(py, c"close")?)?;
        let closed = close.map_or(Ok(()), |close| close.call0(py).map(drop));
        if let Some(id) = this.id {
            drop(jobs::forget(id));
        }
        // Answered by being dropped.
        drop(this.request.with(py, |slot| slot.0.take())?);
        closed
    }

    /// Answers now; whatever the coroutine does from here on, nobody waits for, and its caller's death does not end.
    fn answer(py: Attached<'_>, this: This<'_>, value: Borrowed<'_>) -> PyResult<()> {
        let object = this.object();
        let class = object.class(py);
        let bridge = bridge::MODULE.state_of_type(py, &class)?;
        drop(this.forget());
        this.end(py, bridge, Ok(value.clone_ref(py)));
        Ok(())
    }

    /// Takes a step, and answers if it is the last.
    fn advance(
        &self,
        py: Attached<'_>,
        this: This<'_>,
        step: impl FnOnce() -> PyResult<Step>,
    ) -> PyResult<Step> {
        let object = this.object();
        let class = object.class(py);
        let bridge = bridge::MODULE.state_of_type(py, &class)?;
        let runner = Runner::current(bridge);
        match (self.id, self.caller) {
            (Some(id), Some(caller)) => runner.enter(Some((id, caller)), None),
            (id, _) => runner.enter_unwatched(id),
        }
        let outcome = match step() {
            Ok(Step::Yielded(waited_for)) => {
                output::flush();
                runner.leave(py);
                if !self.waits.swap(true, Ordering::Relaxed)
                    && let (Some(id), Some(caller)) = (self.id, self.caller)
                {
                    jobs::watch(id, caller);
                }
                return Ok(Step::Yielded(waited_for));
            }
            Ok(Step::Returned(value)) => Ok(value),
            Err(raised) => Err(raised.take(py)),
        };
        output::flush();
        let cancelled = match outcome {
            Ok(value) => {
                self.finish(py, bridge, &runner, value);
                None
            }
            Err(exception) => {
                runner.leave(py);
                self.fail(py, bridge, exception)?
            }
        };
        match cancelled {
            // The task is to know that it was.
            Some(exception) => Err(exception.raise(py)),
            None => Ok(Step::Returned(Owned::none(py))),
        }
    }

    /// It has returned: the answer, or the first step of a chain.
    fn finish(&self, py: Attached<'_>, bridge: &Bridge, runner: &Runner, value: Owned) {
        drop(self.forget());
        let request = self.request.with(py, |slot| slot.0.take());
        match request {
            Ok(Some(mut request)) => {
                let next = match bridge.as_marker(value.borrow()) {
                    None => chain::Next::Answer(Ok(value)),
                    Some(_) => match exec::namespace(py, bridge, runner) {
                        Ok(namespace) => chain::follow(py, bridge, &namespace, &mut request, Ok(value)),
                        Err(raised) => chain::Next::Answer(Err(Reason::raised(py, bridge, raised))),
                    },
                };
                exec::conclude(py, bridge, runner, request, next);
            }
            Ok(None) => runner.leave(py),
            Err(raised) => {
                raised.clear(py);
                runner.leave(py);
            }
        }
    }

    /// It has raised: that is the answer. A cancellation comes back.
    fn fail(&self, py: Attached<'_>, bridge: &Bridge, exception: Exception) -> PyResult<Option<Exception>> {
        let waiting = self.forget();
        let class = bridge.cancelled_error.get(py)?;
        if !exception.matches(py, &class) {
            let reason = Reason::raised(py, bridge, exception.raise(py));
            self.end(py, bridge, Err(reason));
            return Ok(None);
        }
        let reason = if self.floor.is_stopped() {
            Reason::Word(atoms::closed())
        } else if waiting.is_some_and(|waiting| waiting.is_interrupted()) {
            Reason::Word(atoms::interrupted())
        } else if self.spawned {
            Reason::Word(atoms::cancelled())
        } else {
            let again = Exception::from_object(exception.value().clone_ref(py));
            match again {
                Ok(again) => Reason::raised(py, bridge, again.raise(py)),
                Err(_) => Reason::Word(atoms::cancelled()),
            }
        };
        self.end(py, bridge, Err(reason));
        Ok(Some(exception))
    }

    /// Takes it out of those that wait.
    fn forget(&self) -> Option<Arc<Waiting>> {
        let id = self.id?;
        if self.spawned {
            table::close(id);
        }
        if self.kept.load(Ordering::Relaxed) { jobs::forget(id) } else { None }
    }

    /// Answers.
    fn end(&self, py: Attached<'_>, bridge: &Bridge, outcome: Result<Owned, Reason>) {
        if let Ok(Some(request)) = self.request.with(py, |slot| slot.0.take()) {
            exec::answer(py, bridge, request, outcome);
        }
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        if self.spawned
            && let Some(id) = self.id
        {
            table::close(id);
        }
    }
}
