//! `call_soon`, `call_later` and kin: how callbacks get into the ready queue and the timers. Attached threads only.

use evloop::TimerToken;
use evloop::os::{Nanos, now};
use pyrt::{Args, Attached, Borrowed, Instance, Kind, Owned, PyResult, Typed};

use crate::arguments::Request;
use crate::bound::Bound;
use crate::entry::Entry;
use crate::event_loop::Loop;
use crate::fault;
use crate::handle::Handle;
use crate::state::PyCore;
use crate::timer::TimerHandle;

/// The version from which on whoever cancels a call from another thread waits while it runs, as `sys.hexversion` has it.
const EXCLUSIVE: i64 = 0x030e_0000;

/// The loop's time as Python counts it: what `time.monotonic()` says.
#[inline]
pub(crate) fn seconds(nanos: Nanos) -> f64 {
    nanos as f64 / 1e9
}

/// The first nanosecond at which `loop.time()` is not before `when`: nothing fires early. A time that is no number is due.
#[inline]
pub(crate) fn deadline(when: f64) -> Nanos {
    // A float-to-integer cast saturates, and makes zero of NaN.
    let nanos = (when * 1e9).ceil() as Nanos;
    if seconds(nanos) < when { nanos.saturating_add(1) } else { nanos }
}

impl Loop {
    pub(crate) fn call_soon(
        py: Attached<'_>,
        this: Instance<'_, Self>,
        args: Args<'_>,
    ) -> PyResult<Typed<Handle>> {
        let native = this.native();
        let request = Request::soon(py, &native.signatures.call_soon, &native.names.context, &args)?;
        this.check_open(py)?;
        if this.is_debug() {
            this.native().check_call(py, this, request.callback, c"call_soon", true)?;
        }
        Self::schedule(py, this, request)
    }

    pub(crate) fn call_soon_threadsafe(
        py: Attached<'_>,
        this: Instance<'_, Self>,
        args: Args<'_>,
    ) -> PyResult<Typed<Handle>> {
        let native = this.native();
        let params = &native.signatures.call_soon_threadsafe;
        let request = Request::soon(py, params, &native.names.context, &args)?;
        this.check_open(py)?;
        if this.is_debug() {
            this.native().check_call(py, this, request.callback, c"call_soon_threadsafe", false)?;
        }
        let exclusive = native.transport.version >= EXCLUSIVE;
        let handle = Handle::threadsafe(Bound::new(py, this, request)?, exclusive);
        Self::schedule_handle(py, this, handle)
    }

    /// What `call_soon` does when its arguments are known.
    #[inline(always)]
    pub(crate) fn schedule(
        py: Attached<'_>,
        this: Instance<'_, Self>,
        request: Request<'_>,
    ) -> PyResult<Typed<Handle>> {
        Self::schedule_handle(py, this, Handle::new(Bound::new(py, this, request)?))
    }

    #[inline(always)]
    fn schedule_handle(
        py: Attached<'_>,
        this: Instance<'_, Self>,
        handle: Handle,
    ) -> PyResult<Typed<Handle>> {
        let handle = this.native().handle.create(py, handle)?;
        // As in `queue`, with the entry made in its place.
        let queued = this.state.with(py, |state| {
            state.core.as_ref()?;
            Some(state.push(Entry::Soon(handle.clone_ref(py))))
        })?;
        match queued {
            Some(None) => {}
            Some(Some(poller)) => poller.wake(),
            None => return Err(fault::closed(py)),
        }
        Ok(handle)
    }

    /// Adds something to run, and wakes the loop's thread if it waits.
    #[inline(always)]
    pub(crate) fn queue(&self, py: Attached<'_>, entry: Entry) -> PyResult<()> {
        let queued = self.state.with(py, move |state| match &state.core {
            Some(_) => Ok(state.push(entry)),
            // Closed a moment ago by another thread; the entry is dropped outside of the guard.
            None => Err(entry),
        })?;
        let Ok(sleeper) = queued else { return Err(fault::closed(py)) };
        if let Some(poller) = sleeper {
            poller.wake();
        }
        Ok(())
    }

    pub(crate) fn call_later(
        py: Attached<'_>,
        this: Instance<'_, Self>,
        args: Args<'_>,
    ) -> PyResult<Typed<TimerHandle>> {
        let (delay, request) = Request::timed(py, &this.native().signatures.call_later, &args)?;
        if delay.is_none() {
            return Err(Kind::TypeError.raise(py, "delay must not be None"));
        }
        if this.has_other_clock() {
            let when = this.native().add.get(py)?.call(py, [Self::clock(py, this)?.borrow(), delay])?;
            return Self::call_at_object(py, this, when.borrow(), request);
        }
        let time = seconds(now());
        if delay.is_float() || delay.is_int() {
            let when = time + delay.to_f64(py)?;
            return Self::schedule_at(py, this, when, None, request);
        }
        // Whatever adds up with a float.
        let when = this.native().add.get(py)?.call(py, [Owned::float(py, time)?.borrow(), delay])?;
        Self::call_at_object(py, this, when.borrow(), request)
    }

    pub(crate) fn call_at(
        py: Attached<'_>,
        this: Instance<'_, Self>,
        args: Args<'_>,
    ) -> PyResult<Typed<TimerHandle>> {
        let (when, request) = Request::timed(py, &this.native().signatures.call_at, &args)?;
        if when.is_none() {
            return Err(Kind::TypeError.raise(py, "when cannot be None"));
        }
        Self::call_at_object(py, this, when, request)
    }

    fn call_at_object(
        py: Attached<'_>,
        this: Instance<'_, Self>,
        when: Borrowed<'_>,
        request: Request<'_>,
    ) -> PyResult<Typed<TimerHandle>> {
        let given = (!when.is_float()).then(|| when.clone_ref(py));
        Self::schedule_at(py, this, when.to_f64(py)?, given, request)
    }

    #[inline]
    fn schedule_at(
        py: Attached<'_>,
        this: Instance<'_, Self>,
        when: f64,
        given: Option<Owned>,
        request: Request<'_>,
    ) -> PyResult<Typed<TimerHandle>> {
        this.check_open(py)?;
        if this.is_debug() {
            this.native().check_call(py, this, request.callback, c"call_at", true)?;
        }
        let bound = Bound::new(py, this, request)?;
        let timer = this.native().timer_handle.create(py, TimerHandle::new(bound, when, given))?;
        let kept = timer.clone_ref(py);
        let sleeper = this.state.with(py, |state| state.add_timer(deadline(when), &timer, kept))?;
        if let Some(poller) = sleeper {
            poller.wake();
        }
        Ok(timer)
    }

    /// Takes a timer out of the core.
    pub(crate) fn cancel_timer(&self, py: Attached<'_>, token: TimerToken) -> PyResult<()> {
        let taken = self.state.with(py, |state| match &mut state.core {
            Some(PyCore(core)) => core.cancel_timer(token).ok().flatten(),
            None => None,
        })?;
        drop(taken);
        Ok(())
    }

    /// `_add_callback`: queues a handle, of whoever's making, unless it was cancelled.
    pub(crate) fn add_callback(
        py: Attached<'_>,
        this: Instance<'_, Self>,
        handle: Borrowed<'_>,
    ) -> PyResult<()> {
        if handle.getattr(py, &this.native().names.cancelled)?.is_true(py)? {
            return Ok(());
        }
        this.queue(py, Entry::Foreign(handle.clone_ref(py)))
    }

    /// `_timer_handle_cancelled`, called by timer handles that are not ours and so not in the core.
    pub(crate) fn timer_handle_cancelled(
        _py: Attached<'_>,
        _this: Instance<'_, Self>,
        _handle: Borrowed<'_>,
    ) -> PyResult<()> {
        Ok(())
    }
}
