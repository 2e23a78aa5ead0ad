//! Turns: wait for something to do, collect what is ready, run exactly that. The loop's thread only.
//!
//! The order is the stdlib's: epoll, then its events (readers before writers), then timers that are due, then every callback
//! that is ready by now; what those callbacks schedule belongs to the next turn.

use std::time::Duration;

use evloop::os::{Events, now};
use evloop::{Interest, Wait};
use pyrt::{Attached, Borrowed, Instance, PyResult, check_signals};

use crate::along::Along;
use crate::batch::Batch;
use crate::entry::Entry;
use crate::event_loop::Loop;
use crate::fault;
use crate::state::Start;

/// What a turn does when there is nothing to do.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rest {
    /// Waits in epoll.
    Sleep,
    /// Leaves that to somebody else.
    Park,
}

/// How a run without waiting has ended; to Python a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pause {
    /// Nothing is ready. The loop is parked: its fd becomes readable when something is, and posts ask to be followed by a run.
    Parked = 0,
    /// The time was over before that.
    Busy = 1,
    /// `stop` was called.
    Stopped = 2,
}

impl Loop {
    /// Turns until `stop`. The first turn asks epoll for certain; later ones, in a storm of callbacks, only every now and then.
    pub(crate) fn run(py: Attached<'_>, this: Instance<'_, Self>) -> PyResult<()> {
        let mut along = Along::new(&this.spare_context);
        this.turn(py, this, Wait::No, &mut along)?;
        while !this.is_stopping() {
            this.turn(py, this, Wait::Busy, &mut along)?;
        }
        Ok(())
    }

    /// `_run_once`: one turn.
    pub(crate) fn run_once(py: Attached<'_>, this: Instance<'_, Self>) -> PyResult<()> {
        this.turn(py, this, Wait::No, &mut Along::new(&this.spare_context))
    }

    /// `_run_ready`: turns until nothing is ready, for so many seconds at most. Never waits: whoever called waits in its place.
    pub(crate) fn run_ready(
        py: Attached<'_>,
        this: Instance<'_, Self>,
        seconds: Borrowed<'_>,
    ) -> PyResult<i64> {
        let most = Duration::try_from_secs_f64(seconds.to_f64(py)?).unwrap_or(Duration::MAX);
        let end = now().saturating_add(u64::try_from(most.as_nanos()).unwrap_or(u64::MAX));
        if this.has_other_clock() {
            this.read_clock(py, this)?;
        }
        this.state.with(py, |state| state.unpark())?.map_err(|error| fault::raise(py, error))?;
        let mut dead = Vec::new();
        let mut along = Along::new(&this.spare_context);
        let mut start = Start::Asked;
        let pause = loop {
            if !this.carry_out(py, this, start, &mut dead, Rest::Park, &mut along)? {
                break Pause::Parked;
            }
            if this.is_stopping() {
                break Pause::Stopped;
            }
            if now() >= end {
                break Pause::Busy;
            }
            start = this.start(py, this, Wait::Busy, &mut dead)?;
        };
        Ok(pause as i64)
    }

    #[inline]
    fn turn(
        &self,
        py: Attached<'_>,
        this: Instance<'_, Self>,
        busy: Wait,
        along: &mut Along<'_>,
    ) -> PyResult<()> {
        let mut dead = Vec::new();
        let start = self.start(py, this, busy, &mut dead)?;
        self.carry_out(py, this, start, &mut dead, Rest::Sleep, along).map(drop)
    }

    #[inline(always)]
    fn start(
        &self,
        py: Attached<'_>,
        this: Instance<'_, Self>,
        busy: Wait,
        dead: &mut Vec<(i32, Interest)>,
    ) -> PyResult<Start> {
        let stopping = self.is_stopping();
        if self.has_other_clock() {
            self.read_clock(py, this)?;
        }
        self.state
            .with(py, |state| state.start(py, stopping, busy, dead))?
            .map_err(|error| fault::raise(py, error))
    }

    /// The rest of a turn. False if the loop is parked instead.
    #[inline(always)]
    fn carry_out(
        &self,
        py: Attached<'_>,
        this: Instance<'_, Self>,
        start: Start,
        dead: &mut Vec<(i32, Interest)>,
        rest: Rest,
        along: &mut Along<'_>,
    ) -> PyResult<bool> {
        if !matches!(start, Start::Run(_)) {
            // Handlers of signals and whatever wakes it up come first.
            along.leave(py);
        }
        let mut batch = match start {
            Start::Run(batch) => batch,
            Start::Asked => self.collect(py, dead)?,
            Start::Sleep(poller, mut events, awake) => {
                if rest == Rest::Park && awake.is_zero() {
                    poller.wait(&mut events, false).map_err(|error| fault::raise(py, error))?;
                    if events.is_empty() {
                        self.state.with(py, |state| state.keep_room(events))?;
                        return Ok(false);
                    }
                    self.state
                        .with(py, |state| state.woken(events))?
                        .map_err(|error| fault::raise(py, error))?;
                } else {
                    self.sleep(py, &poller, events, awake)?;
                }
                if self.has_other_clock() {
                    self.read_clock(py, this)?;
                }
                self.collect(py, dead)?
            }
        };
        for (fd, direction) in dead.drain(..) {
            self.unlisten(py, fd, direction)?;
        }
        // A callback that is alone in its turn puts nothing off.
        let several = self.held.begin(batch.len());
        while let Some(entry) = batch.pop_front() {
            if several {
                self.held.expect(!batch.is_empty());
            }
            let done = if let Entry::Posted(work) = entry {
                along.leave(py);
                work(py, matches!(batch.front(), Some(Entry::Posted(_))));
                Ok(())
            } else if self.is_debug() {
                along.leave(py);
                self.run_in_debug(py, this, entry)
            } else {
                entry.run(py, self.native(), along)
            };
            if let Err(raised) = done {
                // What is left runs first when the loop runs again. The exception waits: nothing here runs Python code.
                let exception = raised.take(py);
                along.leave(py);
                self.held.expect(false);
                self.state.with(py, |state| state.give_back(batch))?;
                if let Err(second) = self.held.send(py) {
                    second.write_unraisable(py, Some(&this.object()));
                }
                return Err(exception.raise(py));
            }
        }
        self.state.with(py, |state| state.give_back(batch))?;
        // Between turns nothing of others' runs but a clock of their own.
        if several || self.has_other_clock() {
            along.leave(py);
        }
        if several {
            self.held.send(py)?;
        }
        Ok(true)
    }

    /// What is ready, after handlers of signals had their turn. Those may raise, as Ctrl-C does; callbacks written in Python
    /// run them too, so a turn that did not ask epoll need not look.
    fn collect(&self, py: Attached<'_>, dead: &mut Vec<(i32, Interest)>) -> PyResult<Box<Batch>> {
        check_signals(py)?;
        self.state.with(py, |state| state.collect(py, dead))
    }

    /// Waits detached, with nothing of the state in use.
    #[cold]
    fn sleep(
        &self,
        py: Attached<'_>,
        poller: &evloop::os::Poller,
        mut events: Events,
        awake: Duration,
    ) -> PyResult<()> {
        let waited = py.detach(|| {
            if awake.is_zero() { poller.wait(&mut events, true) } else { poller.watch(&mut events, awake) }
        });
        let woken = self.state.with(py, |state| state.woken(events))?;
        waited.and(woken).map_err(|error| fault::raise(py, error))
    }

    /// Runs an entry with a look at the clock, as asyncio's debug mode does.
    #[cold]
    fn run_in_debug(&self, py: Attached<'_>, this: Instance<'_, Self>, entry: Entry) -> PyResult<()> {
        let Some(handle) = entry.handle() else {
            return entry.run(py, self.native(), &mut Along::new(&self.spare_context));
        };
        let done = self.native().run_in_debug.get(py)?.call(py, [this.object(), handle]).map(drop);
        match done {
            Ok(()) => entry.forget(py),
            // The exception is on its way out; the callback goes with the handle.
            Err(raised) => Err(raised),
        }
    }
}
