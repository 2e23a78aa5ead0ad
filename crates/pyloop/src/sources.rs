//! Registrations of native objects, for transports and servers: an fd, what it is listened for, and whom to tell.
//!
//! The loop's thread only, attached.

use evloop::{Error, Fd, Interest, SourceToken};
use pyrt::{Attached, Owned, PyResult};

use crate::entry::{Entry, ReadyFn, Source};
use crate::event_loop::Loop;
use crate::fault;
use crate::listeners::end_rest;
use crate::state::{PyCore, State};

impl Loop {
    /// Listens to `fd` for a native object: `ready(py, target, what)` is called in the turn that finds it ready, after the
    /// callbacks queued before it. An owned fd stays open until [`deregister`](Self::deregister) gives it back.
    pub fn register(
        &self,
        py: Attached<'_>,
        fd: Fd,
        number: i32,
        interest: Interest,
        target: Owned,
        ready: ReadyFn,
    ) -> PyResult<SourceToken> {
        let source = Source::Native(target, ready);
        let registered = self.state.with(py, |state| {
            end_rest(state, number)?;
            let core = core_of(state)?;
            let token = core.register(fd, interest, source)?;
            state.remember(number, Some(token));
            Ok(token)
        })?;
        registered.map_err(|error| fault::raise(py, error))
    }

    /// Changes what a native object listens for; nothing at all takes it out of epoll and keeps the registration.
    pub fn set_interest(&self, py: Attached<'_>, token: SourceToken, interest: Interest) -> PyResult<()> {
        let changed = self.state.with(py, |state| core_of(state)?.set_interest(token, interest))?;
        changed.map_err(|error| fault::raise(py, error))
    }

    /// Ends a registration. The fd comes back when epoll has forgotten it, so closing it then is safe. Nothing if the loop
    /// was closed before: it then closed what it owned.
    pub fn deregister(&self, py: Attached<'_>, token: SourceToken, number: i32) -> PyResult<Option<Fd>> {
        let ended = self.state.with(py, |state| {
            if state.token_of(number) == Some(token) {
                state.remember(number, None);
            }
            match &mut state.core {
                Some(PyCore(core)) => core.deregister(token).map(Some),
                None => Ok(None),
            }
        })?;
        match ended {
            // The payload is dropped here, outside of the guard.
            Ok(Some((fd, _payload))) => Ok(Some(fd)),
            Ok(None) | Err(Error::StaleToken) => Ok(None),
            Err(error) => Err(fault::raise(py, error)),
        }
    }

    /// Calls `run(py, target, Interest::NONE)` in the next turn.
    pub fn soon(&self, py: Attached<'_>, target: Owned, run: ReadyFn) -> PyResult<()> {
        self.queue(py, Entry::Native(target, run, Interest::NONE))
    }
}

/// The core of a loop that is not closed.
pub(crate) fn core_of(
    state: &mut State,
) -> evloop::Result<&mut evloop::Core<Source, pyrt::Typed<crate::timer::TimerHandle>, crate::entry::Posted>> {
    match &mut state.core {
        Some(PyCore(core)) => Ok(core),
        None => Err(Error::StaleToken),
    }
}
