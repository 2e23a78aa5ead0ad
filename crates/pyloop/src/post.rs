//! `Poster`: the way into a loop for threads that are not attached, and so may not wait to be. Any thread.

use std::sync::Arc;

use evloop::inbox::{Inbox, Wake};
use evloop::os::Poller;
use pyrt::{Attached, Borrowed, Instance, PyResult};

use crate::entry::Posted;
use crate::event_loop::Loop;
use crate::fault;
use crate::module::MODULE;
use crate::state::PyCore;

/// Hands work to a loop, which runs it in its order, attached. Accepted work is run, or dropped when the loop is closed.
#[derive(Clone)]
pub struct Poster {
    inbox: Inbox<Posted>,
    poller: Arc<Poller>,
}

impl Poster {
    /// The way into a loop. A `RuntimeError` if it was closed, a `TypeError` if it is none of ours.
    pub fn of(py: Attached<'_>, event_loop: Borrowed<'_>) -> PyResult<Self> {
        let parts = Loop::expect(py, event_loop)?.state.with(py, |state| {
            state.core.as_ref().map(|PyCore(core)| (core.inbox().clone(), core.poller().clone()))
        })?;
        let (inbox, poller) = parts.ok_or_else(|| fault::closed(py))?;
        Ok(Self { inbox, poller })
    }

    /// Queues work, and wakes the loop if it sleeps. Given back if the loop was closed.
    pub fn post(&self, work: Posted) -> Result<(), Posted> {
        if self.push(work)? {
            self.poller.wake();
        }
        Ok(())
    }

    /// Queues work without waking the loop. Whether it sleeps, so that the caller is to see to it.
    #[must_use = "the loop may sleep"]
    pub fn push(&self, work: Posted) -> Result<bool, Posted> {
        Ok(self.inbox.push(work)? == Wake::Needed)
    }

    /// What the loop is waited for by.
    pub fn poller(&self) -> &Arc<Poller> {
        &self.poller
    }
}

impl Loop {
    /// A loop among objects; a `TypeError` for others.
    pub fn expect<'a>(py: Attached<'_>, object: Borrowed<'a>) -> PyResult<Instance<'a, Self>> {
        let class = object.class(py);
        let native = MODULE.state_of_type(py, &class)?;
        native.event_loop.expect(py, object)
    }
}
