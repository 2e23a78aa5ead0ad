//! `Bound`: what both kinds of handle are made of, and what both can do. A call bound to a loop and a context.
//!
//! Any attached thread may look at a handle or cancel it; the loop's thread runs it.
//!
//! Handles are made and dropped by the million, so the collector does not know them: being counted by it costs more than
//! all the rest. It does not need to: a handle that has run, was cancelled, or whose loop was closed refers to no callback
//! and no context, and for one that waits the loop, which the collector knows, answers.

use pyrt::{
    Attached, Borrowed, Class, Context, Fixed, Guarded, Instance, Kind, Obj, ObjCell, Owned, PoolRef,
    PyResult, Raised, Snapshot, Traverse, Type, Typed, Visit, Visited, confined,
};

use crate::along::Along;
use crate::arguments::Request;
use crate::call::Call;
use crate::event_loop::Loop;
use crate::exclusive::Exclusive;
use crate::module::Native;

/// A call that may be cancelled until it runs.
#[derive(Default)]
struct Pending {
    call: Call,
    context: Snapshot,
    cancelled: bool,
}

confined!(Pending { call, context, cancelled });

impl Traverse for Pending {
    fn traverse(&self, visit: &mut Visit<'_>) -> Visited {
        self.call.traverse(visit)?;
        self.context.traverse(visit)
    }
}

impl Pending {
    /// All that it refers to.
    #[inline(always)]
    fn take(&mut self) -> (Call, Snapshot) {
        (std::mem::take(&mut self.call), std::mem::take(&mut self.context))
    }
}

/// The part that `Handle` and `TimerHandle` share.
pub(crate) struct Bound {
    owner: Typed<Loop>,
    pending: Guarded<Pending>,
    /// In debug mode: a tuple of where it was made and, once it was cancelled, its repr from before.
    story: ObjCell,
}

confined!(Bound { owner, pending, story });

impl Traverse for Bound {
    fn traverse(&self, visit: &mut Visit<'_>) -> Visited {
        self.owner.traverse(visit)?;
        self.pending.traverse(visit)?;
        self.story.traverse(visit)
    }
}

impl Bound {
    #[inline(always)]
    pub(crate) fn new(py: Attached<'_>, owner: Instance<'_, Loop>, request: Request<'_>) -> PyResult<Self> {
        let context = match request.context {
            Some(context) => Snapshot::given(context.clone_ref(py)),
            None => Snapshot::current(py)?,
        };
        let story = if owner.is_debug() {
            ObjCell::new(Owned::tuple(py, [owner.native().source_traceback(py)?])?)
        } else {
            ObjCell::empty()
        };
        // Last, so that it is made where it stays: nothing that can fail comes after it.
        let call = Call::new(py, request.callback, request.args)?;
        Ok(Self {
            owner: owner.clone_ref(py),
            pending: Guarded::new(Pending { call, context, cancelled: false }),
            story,
        })
    }

    pub(crate) fn owner(&self) -> Instance<'_, Loop> {
        self.owner.instance()
    }

    pub(crate) fn native(&self) -> &Native {
        self.owner.native()
    }

    /// The pool of a type of handles.
    #[inline(always)]
    pub(crate) fn pool<T: IsHandle>(
        &self,
        py: Attached<'_>,
        of: impl FnOnce(&Native) -> &Type<T>,
    ) -> PoolRef {
        self.owner.pool(py, of)
    }

    #[inline]
    pub(crate) fn is_cancelled(&self, py: Attached<'_>) -> bool {
        self.pending.try_with(py, |pending| pending.cancelled).unwrap_or(false)
    }

    /// Marks it as cancelled and lets go of the call, unless another thread runs it exclusively. Whether it is cancelled now.
    fn cancel(&self, py: Attached<'_>, this: &Obj, exclusive: Option<&Exclusive>) -> PyResult<bool> {
        let before = self.pending.with(py, |pending| {
            // Looked at under the guard, which whoever runs it passes after having said so.
            let elsewhere = exclusive.is_some_and(Exclusive::is_elsewhere);
            (!elsewhere).then(|| std::mem::replace(&mut pending.cancelled, true))
        })?;
        match before {
            None => return Ok(false),
            Some(true) => return Ok(true),
            Some(false) => {}
        }
        if self.owner.is_debug() {
            // Kept for messages such as "Executing <Handle...> took 2.5 seconds".
            let made = self.told(py, 0).unwrap_or_else(|| Owned::none(py));
            self.story.set(py, Owned::tuple(py, [made, this.repr(py)?])?);
        }
        self.forget(py)?;
        Ok(true)
    }

    /// Runs the call in its context. Exceptions go to the loop's exception handler, except those that end the loop.
    ///
    /// A handle that runs `once` lets go of its call, so that no cycle goes through a handle that is done: handles are not
    /// known to the collector.
    #[inline(always)]
    pub(crate) fn run(
        &self,
        py: Attached<'_>,
        this: &Obj,
        once: bool,
        along: &mut Along<'_>,
    ) -> PyResult<()> {
        if !once {
            return self.run_again(py, this, along);
        }
        let taken =
            self.pending.with(py, |pending| if pending.cancelled { None } else { Some(pending.take()) })?;
        let Some((call, context)) = taken else { return Ok(()) };
        match context.run(py, &mut along.stay, || call.invoke(py)) {
            Ok((Ok(()), _)) => Ok(()),
            Ok((Err(raised), left)) => {
                let context = left.map_or(context, Snapshot::given);
                self.failed(py, this, Some((call, context)), raised)
            }
            Err(raised) => self.failed(py, this, Some((call, context)), raised),
        }
    }

    /// Runs one that keeps its call.
    fn run_again(&self, py: Attached<'_>, this: &Obj, along: &mut Along<'_>) -> PyResult<()> {
        let taken = self.pending.with(py, |pending| {
            (!pending.cancelled).then(|| (pending.call.clone_ref(py), pending.context.clone_ref(py)))
        })?;
        let Some((call, context)) = taken else { return Ok(()) };
        let (result, left) = match context.run(py, &mut along.stay, || call.invoke(py)) {
            Ok((result, left)) => (result, left),
            Err(raised) => (Err(raised), None),
        };
        match result {
            Ok(()) => self.keep_variables(py, left),
            Err(raised) => {
                let exception = raised.take(py);
                self.keep_variables(py, left)?;
                self.failed(py, this, None, exception.raise(py))
            }
        }
    }

    /// The next run has the variables that this one has set.
    fn keep_variables(&self, py: Attached<'_>, left: Option<Owned>) -> PyResult<()> {
        let Some(context) = left else { return Ok(()) };
        let unused = self.pending.with(py, |pending| {
            if pending.cancelled {
                return Some(context);
            }
            // One that somebody has asked for meanwhile is not there to be changed, but has no variables either.
            std::mem::replace(&mut pending.context, Snapshot::given(context)).into_object()
        })?;
        drop(unused);
        Ok(())
    }

    #[cold]
    fn failed(
        &self,
        py: Attached<'_>,
        this: &Obj,
        taken: Option<(Call, Snapshot)>,
        raised: Raised,
    ) -> PyResult<()> {
        if ends_the_loop(py, &raised) {
            return Err(raised);
        }
        let exception = raised.take(py).into_value();
        let once = taken.is_some();
        if let Some((call, context)) = taken {
            // The report names the callback, unless the handle was cancelled while it ran, and is made in its context.
            // What is not needed is dropped outside of the guard: that may run anybody's code.
            let left = self.pending.with(py, move |pending| {
                let seen = std::mem::replace(&mut pending.context, context);
                let unnamed =
                    if pending.cancelled { call } else { std::mem::replace(&mut pending.call, call) };
                (seen, unnamed)
            })?;
            drop(left);
        }
        let reported = self.native().report.get(py)?.call(py, [this.borrow(), exception.borrow()]).map(drop);
        if once {
            self.forget(py)?;
        }
        reported
    }

    /// Lets go of the call. Afterwards the handle does nothing and refers to nothing.
    pub(crate) fn forget(&self, py: Attached<'_>) -> PyResult<()> {
        self.pending.with(py, Pending::take).map(drop)
    }

    /// A part of its story, if debug mode has written that down.
    fn told(&self, py: Attached<'_>, part: usize) -> Option<Owned> {
        let story = self.story.get(py)?;
        story.as_tuple(py).ok()?.get(part).map(|part| part.clone_ref(py))
    }

    /// Shows what a handle refers to, on behalf of the loop that alone holds it.
    pub(crate) fn show(&self, holder: &Obj, visit: &mut Visit<'_>) -> Visited {
        // SAFETY: the collector calls this attached, and nothing is done with the token but to read a number.
        let py = unsafe { Attached::assume() };
        if holder.refcount(py) == 1 { self.traverse(visit) } else { Ok(()) }
    }
}

/// Whether an exception goes past the exception handler.
pub(crate) fn ends_the_loop(py: Attached<'_>, raised: &Raised) -> bool {
    raised.matches(py, &Kind::SystemExit.class(py)) || raised.matches(py, &Kind::KeyboardInterrupt.class(py))
}

/// A class with a `Bound` in its payload.
pub(crate) trait IsHandle: Class {
    fn bound(&self) -> &Bound;
    /// Who runs it, if whoever cancels it has to wait for that.
    #[inline(always)]
    fn exclusive(&self) -> Option<&Exclusive> {
        None
    }
    /// The class of asyncio that it says it is of.
    fn stands_for<'a>(&self, native: &'a Native) -> &'a Fixed;
}

// The methods and properties that both classes have, for their tables.

pub(crate) fn cancel<T: IsHandle>(py: Attached<'_>, this: Instance<'_, T>) -> PyResult<()> {
    loop {
        wait(py, this)?;
        if this.bound().cancel(py, &this.object(), this.exclusive())? {
            return Ok(());
        }
    }
}

/// Waits until no other thread runs it, if it is one to wait for.
#[inline]
fn wait<T: IsHandle>(py: Attached<'_>, this: Instance<'_, T>) -> PyResult<()> {
    this.exclusive().map_or(Ok(()), |exclusive| exclusive.wait(py))
}

pub(crate) fn cancelled<T: IsHandle>(py: Attached<'_>, this: Instance<'_, T>) -> PyResult<bool> {
    wait(py, this)?;
    this.bound().pending.with(py, |pending| pending.cancelled)
}

pub(crate) fn context<T: IsHandle>(py: Attached<'_>, this: Instance<'_, T>) -> PyResult<Owned> {
    // What it ran in is gone: to keep that would make cycles that nobody finds, of those who have their own handle in a variable.
    let fresh = Context::empty(py)?;
    this.bound().pending.with(py, |pending| pending.context.share(py, fresh))
}

pub(crate) fn run<T: IsHandle>(py: Attached<'_>, this: Instance<'_, T>) -> PyResult<()> {
    perform(py, this, false, &mut Along::new(&this.bound().owner.spare_context))
}

/// Runs a handle, as [`Bound::run`] says, and lets others know if they are to wait for it.
#[inline(always)]
pub(crate) fn perform<T: IsHandle>(
    py: Attached<'_>,
    this: Instance<'_, T>,
    once: bool,
    along: &mut Along<'_>,
) -> PyResult<()> {
    let _running = match this.exclusive() {
        Some(exclusive) => Some(exclusive.enter(py, along.here())?),
        None => None,
    };
    this.bound().run(py, &this.object(), once, along)
}

pub(crate) fn callback<T: IsHandle>(py: Attached<'_>, this: Instance<'_, T>) -> PyResult<Option<Owned>> {
    this.bound().pending.with(py, |pending| pending.call.callback(py))
}

pub(crate) fn args<T: IsHandle>(py: Attached<'_>, this: Instance<'_, T>) -> PyResult<Option<Owned>> {
    // Making a tuple may start the collector, and that Python code: not under the guard.
    this.bound().pending.with(py, |pending| pending.call.clone_ref(py))?.args(py)
}

pub(crate) fn owner<T: IsHandle>(py: Attached<'_>, this: Instance<'_, T>) -> PyResult<Typed<Loop>> {
    Ok(this.bound().owner.clone_ref(py))
}

pub(crate) fn traceback<T: IsHandle>(py: Attached<'_>, this: Instance<'_, T>) -> PyResult<Option<Owned>> {
    Ok(this.bound().told(py, 0))
}

pub(crate) fn kept_repr<T: IsHandle>(py: Attached<'_>, this: Instance<'_, T>) -> PyResult<Option<Owned>> {
    Ok(this.bound().told(py, 1))
}

pub(crate) fn class<T: IsHandle>(py: Attached<'_>, this: Instance<'_, T>) -> PyResult<Owned> {
    Ok(this.stands_for(this.bound().native()).clone_ref(py))
}

/// asyncio's own `_repr_info`, which asks for nothing but attributes that we have.
pub(crate) fn repr_info<T: IsHandle>(py: Attached<'_>, this: Instance<'_, T>) -> PyResult<Owned> {
    let native = this.bound().native();
    this.stands_for(native).call_method1(py, &native.names.repr_info, &this.object())
}

pub(crate) fn repr<T: IsHandle>(py: Attached<'_>, this: Instance<'_, T>) -> PyResult<Owned> {
    let native = this.bound().native();
    this.stands_for(native).call_method1(py, &native.names.dunder_repr, &this.object())
}

/// What a handle made by somebody else, or by an older loop, has to offer: enough to run it.
pub(crate) fn run_foreign(py: Attached<'_>, native: &Native, handle: Borrowed<'_>) -> PyResult<()> {
    if handle.getattr(py, &native.names.cancelled)?.is_true(py)? {
        return Ok(());
    }
    handle.call_method0(py, &native.names.run).map(drop)
}
