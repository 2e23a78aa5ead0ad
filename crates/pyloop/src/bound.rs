//! `Bound`: what both kinds of handle are made of, and what both can do. A call bound to a loop and a context.
//!
//! Any attached thread may look at a handle or cancel it; the loop's thread runs it.
//!
//! Handles are made and dropped by the million, so the collector does not know them: being counted by it costs more than
//! all the rest. It does not need to: a handle that has run, was cancelled, or whose loop was closed refers to no callback,
//! and for one that waits the loop, which the collector knows, answers.

use pyrt::{
    Attached, Borrowed, Class, Context, Fixed, Guarded, Instance, Kind, Obj, ObjCell, Owned, PyResult,
    Raised, Traverse, Typed, Visit, Visited, confined, run_in,
};

use crate::arguments::Request;
use crate::call::Call;
use crate::event_loop::Loop;
use crate::exclusive::Exclusive;
use crate::module::Native;

/// A call that may be cancelled until it runs.
#[derive(Default)]
struct Pending {
    call: Call,
    cancelled: bool,
}

confined!(Pending { call, cancelled });

impl Traverse for Pending {
    fn traverse(&self, visit: &mut Visit<'_>) -> Visited {
        self.call.traverse(visit)
    }
}

/// The part that `Handle` and `TimerHandle` share.
pub(crate) struct Bound {
    owner: Typed<Loop>,
    context: Fixed,
    pending: Guarded<Pending>,
    /// In debug mode: where it was made, and its repr from before it was cancelled.
    traceback: ObjCell,
    text: ObjCell,
}

confined!(Bound { owner, context, pending, traceback, text });

impl Traverse for Bound {
    fn traverse(&self, visit: &mut Visit<'_>) -> Visited {
        self.owner.traverse(visit)?;
        self.context.traverse(visit)?;
        self.pending.traverse(visit)?;
        self.traceback.traverse(visit)
    }
}

impl Bound {
    #[inline(always)]
    pub(crate) fn new(py: Attached<'_>, owner: Instance<'_, Loop>, request: Request<'_>) -> PyResult<Self> {
        let context = match request.context {
            Some(context) => context.clone_ref(py),
            None => Context::copy_current(py)?.into_object(),
        };
        let traceback = if owner.is_debug() {
            ObjCell::new(owner.native().source_traceback(py)?)
        } else {
            ObjCell::empty()
        };
        // Last, so that it is made where it stays: nothing that can fail comes after it.
        let call = Call::new(py, request.callback, request.args)?;
        Ok(Self {
            owner: owner.clone_ref(py),
            context: context.into(),
            pending: Guarded::new(Pending { call, cancelled: false }),
            traceback,
            text: ObjCell::empty(),
        })
    }

    pub(crate) fn owner(&self) -> Instance<'_, Loop> {
        self.owner.instance()
    }

    pub(crate) fn native(&self) -> &Native {
        self.owner.native()
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
            self.text.set(py, this.repr(py)?);
        }
        drop(self.pending.with(py, |pending| std::mem::take(&mut pending.call))?);
        Ok(true)
    }

    /// Runs the call in its context. Exceptions go to the loop's exception handler, except those that end the loop.
    ///
    /// A handle that runs `once` lets go of its call, so that no cycle goes through a handle that is done: handles are not
    /// known to the collector.
    #[inline(always)]
    pub(crate) fn run(&self, py: Attached<'_>, this: &Obj, once: bool) -> PyResult<()> {
        let call = self.pending.with(py, |pending| {
            if pending.cancelled {
                None
            } else if once {
                Some(std::mem::take(&mut pending.call))
            } else {
                Some(pending.call.clone_ref(py))
            }
        })?;
        let Some(call) = call else { return Ok(()) };
        match run_in(py, &self.context, || call.invoke(py)) {
            Ok(()) => Ok(()),
            Err(raised) => self.failed(py, this, once.then_some(call), raised),
        }
    }

    #[cold]
    fn failed(&self, py: Attached<'_>, this: &Obj, taken: Option<Call>, raised: Raised) -> PyResult<()> {
        if ends_the_loop(py, &raised) {
            return Err(raised);
        }
        let exception = raised.take(py).into_value();
        let once = taken.is_some();
        if let Some(call) = taken {
            // The report names the callback, unless the handle was cancelled while it ran.
            self.pending.with(py, |pending| {
                if !pending.cancelled {
                    pending.call = call;
                }
            })?;
        }
        let reported = self.native().report.get(py)?.call(py, [this.borrow(), exception.borrow()]).map(drop);
        if once {
            self.forget(py)?;
        }
        reported
    }

    /// Lets go of the call. Afterwards the handle does nothing and refers to nothing.
    pub(crate) fn forget(&self, py: Attached<'_>) -> PyResult<()> {
        self.pending.with(py, |pending| std::mem::take(&mut pending.call)).map(drop)
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
    Ok(this.bound().context.clone_ref(py))
}

pub(crate) fn run<T: IsHandle>(py: Attached<'_>, this: Instance<'_, T>) -> PyResult<()> {
    perform(py, this, false)
}

/// Runs a handle, as [`Bound::run`] says, and lets others know if they are to wait for it.
#[inline(always)]
pub(crate) fn perform<T: IsHandle>(py: Attached<'_>, this: Instance<'_, T>, once: bool) -> PyResult<()> {
    let _running = match this.exclusive() {
        Some(exclusive) => Some(exclusive.enter(py)?),
        None => None,
    };
    this.bound().run(py, &this.object(), once)
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
    Ok(this.bound().traceback.get(py))
}

pub(crate) fn kept_repr<T: IsHandle>(py: Attached<'_>, this: Instance<'_, T>) -> PyResult<Option<Owned>> {
    Ok(this.bound().text.get(py))
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
