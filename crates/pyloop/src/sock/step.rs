//! The operation as a coroutine: what `await` and tasks do with it.

use pyrt::{Args, Attached, Borrowed, Exception, Fault, Kind, Owned, PyResult, Raised, Step, stop_iteration};

use super::{Operation, Outcome, Phase, This, given, lost};
use crate::entry::Listener;
use crate::listeners::New;

impl Operation {
    /// Tries, and waits if there is nothing to be done now; or tells how it came out.
    #[inline]
    pub(super) fn step(py: Attached<'_>, this: This<'_>, value: Borrowed<'_>) -> PyResult<Step> {
        let phase = this.progress.with(py, |progress| match &progress.phase {
            // Goes on waiting: somebody else has woken the task.
            Phase::Waiting => Phase::Waiting,
            Phase::New => std::mem::replace(&mut progress.phase, Phase::Trying),
            _ => std::mem::take(&mut progress.phase),
        })?;
        match phase {
            Phase::New if !value.is_none() => {
                Err(Kind::TypeError.raise(py, "can't send non-None value to a just-started coroutine"))
            }
            Phase::New => this.start(py, this),
            Phase::Over(Outcome::Value(value)) => Ok(Step::Returned(value)),
            Phase::Over(Outcome::Exception(exception)) => Err(raise(py, exception)),
            Phase::Over(Outcome::Cancelled(message)) => Err(this.cancelled_error(py, message)),
            Phase::Waiting => Err(Fault::runtime("await wasn't used with future").raise(py)),
            Phase::Trying => Err(Kind::ValueError.raise(py, "coroutine already executing")),
            Phase::Told => Err(Fault::runtime("cannot reuse already awaited coroutine").raise(py)),
        }
    }

    #[inline]
    fn start(&self, py: Attached<'_>, this: This<'_>) -> PyResult<Step> {
        match self.attempt(py) {
            Ok(Some(value)) => {
                self.end(py, Phase::Told)?;
                Ok(Step::Returned(value))
            }
            Ok(None) => match self.wait(py, this) {
                Ok(()) => Ok(Step::Yielded(this.object().clone_ref(py))),
                Err(raised) => Err(self.failed(py, raised)),
            },
            Err(raised) => Err(self.failed(py, raised)),
        }
    }

    #[cold]
    fn failed(&self, py: Attached<'_>, raised: Raised) -> Raised {
        let exception = raised.take(py);
        match self.end(py, Phase::Told) {
            Ok(_) => exception.raise(py),
            Err(raised) => raised,
        }
    }

    /// Listens to the fd.
    fn wait(&self, py: Attached<'_>, this: This<'_>) -> PyResult<()> {
        let fd = self.number(py)?;
        let owner = self.owner.instance();
        owner.ensure_free(py, owner, fd)?;
        owner.check_open(py)?;
        let sock = Some(Owned::weakref(py, &self.sock, None)?);
        let listener = Listener::Operation(this.clone_ref(py));
        owner.attach(py, fd, self.job.direction(), New { listener, sock })?;
        self.progress.with(py, |progress| {
            progress.fd = fd;
            progress.blocking = true;
            progress.phase = Phase::Waiting;
        })
    }

    /// Ends it in this way, letting go of what it holds. Whether it was listening is for the caller to deal with.
    pub(super) fn end(&self, py: Attached<'_>, phase: Phase) -> PyResult<()> {
        let old = self.progress.with(py, |progress| {
            progress.blocking = false;
            (std::mem::replace(&mut progress.phase, phase), progress.data.take())
        })?;
        drop(old);
        Ok(())
    }

    /// Ends it before its time: the fd is let go.
    pub(super) fn withdraw(&self, py: Attached<'_>, this: This<'_>, phase: Phase) -> PyResult<()> {
        let (waiting, fd) = self.progress.with(py, |progress| (progress.is_waiting(), progress.fd))?;
        self.end(py, phase)?;
        if waiting {
            self.owner.detach(py, fd, self.job.direction(), &this.object(), false)?;
        }
        Ok(())
    }

    pub(super) fn send(py: Attached<'_>, this: This<'_>, value: Borrowed<'_>) -> PyResult<Owned> {
        match Self::step(py, this, value)? {
            Step::Yielded(waited_for) => Ok(waited_for),
            Step::Returned(value) => Err(stop_iteration(py, &value)),
        }
    }

    pub(super) fn next(py: Attached<'_>, this: This<'_>) -> PyResult<Option<Owned>> {
        Self::send(py, this, Borrowed::none(py)).map(Some)
    }

    /// Ends it with an exception, which comes straight back.
    pub(super) fn throw(py: Attached<'_>, this: This<'_>, args: Args<'_>) -> PyResult<Owned> {
        let parts = &this.owner.native().sock;
        let [Some(class), value, traceback] = parts.throw.parse(py, &args)? else { return Err(lost(py)) };
        this.forget_callbacks(py)?;
        this.withdraw(py, this, Phase::Told)?;
        let exception = match (Exception::from_object(class.clone_ref(py)), given(value)) {
            (Ok(exception), _) => exception.into_value(),
            (Err(_), Some(value)) => match Exception::from_object(value.clone_ref(py)) {
                Ok(exception) => exception.into_value(),
                Err(value) => Exception::new(py, &class, [value.borrow()])?.into_value(),
            },
            (Err(_), None) => Exception::new(py, &class, [])?.into_value(),
        };
        if let Some(traceback) = given(traceback) {
            exception.call_method1(py, &parts.names.with_traceback, &traceback)?;
        }
        Err(raise(py, exception))
    }

    pub(super) fn close(py: Attached<'_>, this: This<'_>) -> PyResult<()> {
        this.forget_callbacks(py)?;
        this.withdraw(py, this, Phase::Told)
    }

    /// Nobody refers to it any more. Said if it was never awaited, as of any coroutine.
    pub(super) fn finalize(py: Attached<'_>, this: This<'_>) -> PyResult<()> {
        if !this.progress.with(py, |progress| matches!(progress.phase, Phase::New))? {
            return Ok(());
        }
        let text = std::ffi::CString::new(format!("coroutine '{}' was never awaited", this.job.name()));
        let text = text.map_err(|error| Fault::from(error).raise(py))?;
        pyrt::warn(py, Kind::RuntimeWarning, &text, 1)
    }

    pub(super) fn repr(py: Attached<'_>, this: This<'_>) -> PyResult<String> {
        let state = this.progress.with(py, |progress| match progress.phase {
            Phase::New => "not awaited",
            Phase::Trying | Phase::Waiting => "waiting",
            Phase::Over(Outcome::Cancelled(_)) => "cancelled",
            Phase::Over(_) | Phase::Told => "done",
        })?;
        let sock = this.sock.repr(py)?.to_string_lossy(py)?;
        Ok(format!("<{} {state} {sock}>", this.job.name()))
    }
}

/// Raises an object that is an exception.
pub(super) fn raise(py: Attached<'_>, exception: Owned) -> Raised {
    match Exception::from_object(exception) {
        Ok(exception) => exception.raise(py),
        Err(_) => Fault::type_error("exceptions must derive from BaseException").raise(py),
    }
}
