//! The operation as a future: what the task that waits for it asks of it, and how it is woken.

use evloop::Interest;
use pyrt::{Args, Attached, Borrowed, Context, Kind, Owned, PyResult, Raised, raise_class, run_in};

use super::{Operation, Outcome, Phase, This, given, lost, step};
use crate::bound::ends_the_loop;
use crate::event_loop::Loop;

/// The fd is ready; or, with no interest, the operation was cancelled and is to tell so.
pub(crate) fn ready(py: Attached<'_>, target: Borrowed<'_>, what: Interest) -> PyResult<()> {
    // SAFETY: the loop calls this with the operation that listens, and `cancel` queues it with itself.
    let this = unsafe { This::assume(target) };
    if what == Interest::NONE {
        return this.tell(py, this);
    }
    // A callback of this very turn may have ended it.
    if !this.progress.with(py, |progress| progress.is_waiting())? {
        return Ok(());
    }
    let outcome = match this.attempt(py) {
        Ok(None) => return Ok(()),
        Ok(Some(value)) => Outcome::Value(value),
        Err(raised) if ends_the_loop(py, &raised) => return Err(raised),
        Err(raised) => Outcome::Exception(raised.take(py).into_value()),
    };
    // The attempt may have run Python code.
    let (waiting, fd) = this.progress.with(py, |progress| (progress.is_waiting(), progress.fd))?;
    if !waiting {
        return Ok(());
    }
    let rest = matches!(outcome, Outcome::Value(_));
    this.end(py, Phase::Over(outcome))?;
    this.owner.detach(py, fd, this.job.direction(), &this.object(), rest)?;
    this.tell(py, this)
}

impl Operation {
    /// Calls whoever waits.
    #[inline]
    fn tell(&self, py: Attached<'_>, this: This<'_>) -> PyResult<()> {
        let (first, more) = self
            .progress
            .with(py, |progress| (progress.callback.take(), std::mem::take(&mut progress.more)))?;
        for (callback, context) in first.into_iter().chain(more) {
            let class = &self.owner.native().sock.task;
            let is_task = callback.builtin_self(py).is_some_and(|task| task.class(py).is(class));
            if is_task {
                // A task only wants to know that it can go on, and asks a future of asyncio's own most quickly. How it
                // came out it hears when it steps.
                let done = Loop::done_future(py, self.owner.instance())?;
                run_in(py, &context, || callback.call1(py, &done))?;
            } else {
                run_in(py, &context, || callback.call1(py, &this.object()))?;
            }
        }
        Ok(())
    }

    pub(super) fn add_done_callback(py: Attached<'_>, this: This<'_>, args: Args<'_>) -> PyResult<()> {
        let parts = &this.owner.native().sock;
        let [Some(callback), context] = parts.add_done_callback.parse(py, &args)? else {
            return Err(lost(py));
        };
        let context = match given(context) {
            Some(context) => context.clone_ref(py),
            None => Context::copy_current(py)?.into_object(),
        };
        let mut new = Some((callback.clone_ref(py), context));
        let over = this.progress.with(py, |progress| {
            match &mut progress.callback {
                Some(_) => progress.more.extend(new.take()),
                place => *place = new.take(),
            }
            !progress.is_waiting()
        })?;
        if over {
            this.owner.soon(py, this.object().clone_ref(py), ready)?;
        }
        Ok(())
    }

    pub(super) fn remove_done_callback(
        py: Attached<'_>,
        this: This<'_>,
        callback: Borrowed<'_>,
    ) -> PyResult<usize> {
        let (first, more) = this
            .progress
            .with(py, |progress| (progress.callback.take(), std::mem::take(&mut progress.more)))?;
        let (mut kept, mut removed) = (Vec::new(), 0);
        for entry in first.into_iter().chain(more) {
            // Equality is anybody's code.
            if entry.0.equals(py, &callback)? {
                removed += 1;
            } else {
                kept.push(entry);
            }
        }
        let mut kept = kept.into_iter();
        this.progress.with(py, |progress| {
            progress.callback = kept.next();
            progress.more.extend(kept);
        })?;
        Ok(removed)
    }

    pub(super) fn forget_callbacks(&self, py: Attached<'_>) -> PyResult<()> {
        let forgotten = self
            .progress
            .with(py, |progress| (progress.callback.take(), std::mem::take(&mut progress.more)))?;
        drop(forgotten);
        Ok(())
    }

    /// Whether it can still be cancelled; whoever waits is told in the next turn.
    pub(super) fn cancel(py: Attached<'_>, this: This<'_>, args: Args<'_>) -> PyResult<bool> {
        let [message] = this.owner.native().sock.cancel.parse(py, &args)?;
        if !this.progress.with(py, |progress| progress.is_waiting())? {
            return Ok(false);
        }
        let message = given(message).map(|message| message.clone_ref(py));
        this.withdraw(py, this, Phase::Over(Outcome::Cancelled(message)))?;
        this.owner.soon(py, this.object().clone_ref(py), ready)?;
        Ok(true)
    }

    pub(super) fn cancelled(py: Attached<'_>, this: This<'_>) -> PyResult<bool> {
        this.progress.with(py, |progress| matches!(progress.phase, Phase::Over(Outcome::Cancelled(_))))
    }

    pub(super) fn done(py: Attached<'_>, this: This<'_>) -> PyResult<bool> {
        this.progress.with(py, |progress| matches!(progress.phase, Phase::Over(_) | Phase::Told))
    }

    /// What it came to, without the value if that was told already: then it is the coroutine's.
    pub(super) fn result(py: Attached<'_>, this: This<'_>) -> PyResult<Owned> {
        match this.outcome(py)? {
            Outcome::Value(value) => Ok(value),
            Outcome::Exception(exception) => Err(step::raise(py, exception)),
            Outcome::Cancelled(message) => Err(this.cancelled_error(py, message)),
        }
    }

    pub(super) fn exception(py: Attached<'_>, this: This<'_>) -> PyResult<Option<Owned>> {
        match this.outcome(py)? {
            Outcome::Value(_) => Ok(None),
            Outcome::Exception(exception) => Ok(Some(exception)),
            Outcome::Cancelled(message) => Err(this.cancelled_error(py, message)),
        }
    }

    fn outcome(&self, py: Attached<'_>) -> PyResult<Outcome> {
        let keep = |object: &Owned| object.clone_ref(py);
        let found = self.progress.with(py, |progress| match &progress.phase {
            Phase::Over(Outcome::Value(value)) => Some(Outcome::Value(keep(value))),
            Phase::Over(Outcome::Exception(exception)) => Some(Outcome::Exception(keep(exception))),
            Phase::Over(Outcome::Cancelled(message)) => Some(Outcome::Cancelled(message.as_ref().map(keep))),
            Phase::Told => Some(Outcome::Value(Owned::none(py))),
            Phase::New | Phase::Trying | Phase::Waiting => None,
        })?;
        match found {
            Some(outcome) => Ok(outcome),
            None => {
                let class = self.owner.native().sock.invalid_state.get(py)?;
                let text = Owned::str(py, "Result is not set.")?;
                Err(raise_class(py, &class, [text.borrow()]))
            }
        }
    }

    #[cold]
    pub(super) fn cancelled_error(&self, py: Attached<'_>, message: Option<Owned>) -> Raised {
        let class = match self.owner.native().sock.cancelled_error.get(py) {
            Ok(class) => class,
            Err(raised) => return raised,
        };
        match message {
            Some(message) => raise_class(py, &class, [message.borrow()]),
            None => raise_class(py, &class, []),
        }
    }

    /// `None` unless somebody is to wait for it: `asyncio.isfuture` takes that for "no future", and makes a task of it.
    pub(super) fn blocking(py: Attached<'_>, this: This<'_>) -> PyResult<Option<Owned>> {
        let blocking =
            this.progress.with(py, |progress| progress.is_waiting().then_some(progress.blocking))?;
        Ok(blocking.map(|blocking| Owned::bool(py, blocking)))
    }

    pub(super) fn set_blocking(
        py: Attached<'_>,
        this: This<'_>,
        value: Option<Borrowed<'_>>,
    ) -> PyResult<()> {
        let Some(value) = value else {
            return Err(Kind::AttributeError.raise(py, "cannot delete attribute"));
        };
        let value = value.is_true(py)?;
        this.progress.with(py, |progress| progress.blocking = value)
    }
}
