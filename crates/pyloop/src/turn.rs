//! Turns: wait for something to do, collect what is ready, run exactly that. The loop's thread only.
//!
//! The order is the stdlib's: epoll, then its events (readers before writers), then timers that are due, then every callback
//! that is ready by now; what those callbacks schedule belongs to the next turn.

use std::collections::VecDeque;
use std::time::Duration;

use evloop::os::Events;
use evloop::{Interest, Wait};
use pyrt::{Attached, Instance, PyResult, check_signals};

use crate::entry::Entry;
use crate::event_loop::Loop;
use crate::fault;
use crate::state::Start;

impl Loop {
    /// Turns until `stop`. The first turn asks epoll for certain; later ones, while there is work, only every now and then.
    pub(crate) fn run(py: Attached<'_>, this: Instance<'_, Self>) -> PyResult<()> {
        this.turn(py, this, Wait::No)?;
        while !this.is_stopping() {
            this.turn(py, this, Wait::Busy)?;
        }
        Ok(())
    }

    /// `_run_once`: one turn.
    pub(crate) fn run_once(py: Attached<'_>, this: Instance<'_, Self>) -> PyResult<()> {
        this.turn(py, this, Wait::No)
    }

    #[inline]
    fn turn(&self, py: Attached<'_>, this: Instance<'_, Self>, busy: Wait) -> PyResult<()> {
        let stopping = self.is_stopping();
        let mut dead = Vec::new();
        if self.has_other_clock() {
            self.read_clock(py, this)?;
        }
        let mut batch = match self.state.with(py, |state| state.start(py, stopping, busy, &mut dead))? {
            Ok(Start::Run(batch)) => batch,
            Ok(Start::Asked) => self.collect(py, &mut dead)?,
            Ok(Start::Sleep(poller, events, awake)) => {
                self.sleep(py, &poller, events, awake)?;
                if self.has_other_clock() {
                    self.read_clock(py, this)?;
                }
                self.collect(py, &mut dead)?
            }
            Err(error) => return Err(fault::raise(py, error)),
        };
        for (fd, direction) in dead {
            self.unlisten(py, fd, direction)?;
        }
        while let Some(entry) = batch.pop_front() {
            let done = if self.is_debug() {
                self.run_in_debug(py, this, entry)
            } else {
                entry.run(py, self.native())
            };
            if let Err(raised) = done {
                // What is left runs first when the loop runs again. The exception waits: nothing here runs Python code.
                let exception = raised.take(py);
                self.state.with(py, |state| state.give_back(batch))?;
                return Err(exception.raise(py));
            }
        }
        self.state.with(py, |state| state.give_back(batch))
    }

    /// What is ready, after handlers of signals had their turn. Those may raise, as Ctrl-C does; callbacks written in Python
    /// run them too, so a turn that did not ask epoll need not look.
    fn collect(&self, py: Attached<'_>, dead: &mut Vec<(i32, Interest)>) -> PyResult<VecDeque<Entry>> {
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
        let Some(handle) = entry.handle() else { return entry.run(py, self.native()) };
        let done = self.native().run_in_debug.get(py)?.call(py, [this.object(), handle]).map(drop);
        match done {
            Ok(()) => entry.forget(py),
            // The exception is on its way out; the callback goes with the handle.
            Err(raised) => Err(raised),
        }
    }
}
