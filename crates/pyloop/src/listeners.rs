//! Listeners: who is told of an fd that somebody else owns, one per direction: a callback or a `sock_*` call. They replace one
//! another as the stdlib's readers and writers do. Attached threads only.
//!
//! A `sock_*` call that is done leaves epoll listening for the next one, which then costs no system call: the registration
//! rests. So does that of a reader that is removed: many are added for one event at a time, and to change a registration costs
//! half of what it does to end and to begin one. Three things keep that correct. What becomes ready while it rests takes the
//! registration out. It counts for the very socket it was made for, known by a weak reference, as the number of one that was
//! closed may have a new owner: for anybody else the kernel is asked. And only reading rests, for most sockets can be written to
//! at any time.

use evloop::{Error, Fd, Interest};
use pyrt::{Attached, Kind, Obj, Owned, PyResult, Raised};

use crate::entry::{Listener, Listeners, Source};
use crate::event_loop::Loop;
use crate::sources::core_of;
use crate::state::{PyCore, State};
use crate::{bound, fault};

impl Listener {
    pub(crate) fn object(&self) -> &Owned {
        match self {
            Self::Handle(handle) => handle.object(),
            Self::Operation(operation) => operation.object(),
        }
    }

    /// It was replaced or removed. A call that waits then waits for ever, as in the stdlib, where it is a reader too.
    pub(crate) fn let_go(self, py: Attached<'_>) -> PyResult<()> {
        match self {
            Self::Handle(handle) => bound::cancel(py, handle.instance()),
            Self::Operation(_) => Ok(()),
        }
    }
}

impl Loop {
    /// Listens to an fd in one direction, in place of whoever did so before.
    pub(crate) fn attach(&self, py: Attached<'_>, fd: i32, direction: Interest, new: New) -> PyResult<()> {
        let mut new = Some(new);
        let replaced = self.state.with(py, |state| put(state, fd, direction, &mut new))?;
        match replaced {
            Ok(Some(before)) => before.let_go(py),
            Ok(None) => Ok(()),
            Err(Refused::Core(error)) => Err(fault::raise(py, error)),
            Err(Refused::Taken) => Err(taken(py, fd)),
        }
    }

    /// A `sock_*` call is done with an fd. Whether it goes on to `rest`, or is forgotten unless others listen.
    pub(crate) fn detach(
        &self,
        py: Attached<'_>,
        fd: i32,
        direction: Interest,
        operation: &Obj,
        rest: bool,
    ) -> PyResult<()> {
        let removed = self.state.with(py, |state| leave(state, fd, direction, operation, rest))?;
        removed.map(drop).map_err(|error| fault::raise(py, error))
    }
}

/// Why a listener was not registered.
enum Refused {
    Core(Error),
    /// A native object has the fd.
    Taken,
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        Self::Core(error)
    }
}

/// Who comes to listen.
pub(crate) struct New {
    pub(crate) listener: Listener,
    /// The weak reference to the socket, if it is known to be one.
    pub(crate) sock: Option<Owned>,
}

/// Registers a listener; the one it replaces comes back.
fn put(
    state: &mut State,
    fd: i32,
    direction: Interest,
    new: &mut Option<New>,
) -> Result<Option<Listener>, Refused> {
    if let Some(token) = state.token_of(fd) {
        let core = core_of(state)?;
        if let Ok(source) = core.source(token) {
            let listeners = source.listeners().ok_or(Refused::Taken)?;
            let wanted = listeners.wanted();
            let resting = listeners.resting && !wanted.contains(Interest::READ);
            let known = same_socket(listeners.sock.as_ref(), new);
            let told = if resting { wanted.with(Interest::READ) } else { wanted };
            // Of callbacks alone the stdlib asks as little.
            let sockets = listeners.sock.is_some() || matches!(new, Some(New { sock: Some(_), .. }));
            let changed = match () {
                () if known && told.contains(direction) => Ok(()),
                () if known => core.set_interest(token, told.with(direction)),
                () if sockets || resting => core.renew_interest(token, wanted.with(direction)),
                () => core.set_interest(token, wanted.with(direction)),
            };
            match changed {
                Ok(()) => {
                    let listeners = core.source(token)?.listeners().ok_or(Refused::Taken)?;
                    listeners.resting &= known && direction != Interest::READ;
                    let Some(New { listener, sock }) = new.take() else { return Ok(None) };
                    if !known {
                        // The old one is a weak reference: to drop it runs no code.
                        listeners.sock = sock;
                    }
                    return Ok(listeners.place(direction).replace(listener));
                }
                // Closed without a word, and the number has a new owner, whom the kernel takes as new.
                Err(Error::BadFd { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    let mut listeners = Listeners::new(fd);
    if let Some(New { listener, sock }) = new.take() {
        *listeners.place(direction) = Some(listener);
        listeners.sock = sock;
    }
    let forgotten = state.token_of(fd);
    let core = core_of(state)?;
    let token = core.register(Fd::Lent(fd), direction, Source::Lent(listeners))?;
    state.remember(fd, Some(token));
    // What was left of a registration of a closed fd: its callbacks are never called again, and go with it.
    let old = forgotten.and_then(|token| core_of(state).ok()?.deregister(token).ok());
    Ok(match old {
        Some((_, Source::Lent(Listeners { reader, writer, .. }))) => reader.or(writer),
        _ => None,
    })
}

/// Whether a registration was made for the very socket that is now to be listened to.
fn same_socket(known: Option<&Owned>, new: &Option<New>) -> bool {
    matches!((known, new), (Some(known), Some(New { sock: Some(sock), .. })) if known.is(sock))
}

/// Takes a listener out.
pub(crate) fn take(state: &mut State, fd: i32, direction: Interest) -> evloop::Result<Option<Listener>> {
    let (Some(token), Some(PyCore(core))) = (state.token_of(fd), &mut state.core) else { return Ok(None) };
    let Ok(source) = core.source(token) else { return Ok(None) };
    let Some(listeners) = source.listeners() else { return Ok(None) };
    let removed = listeners.place(direction).take();
    listeners.resting &= direction != Interest::READ;
    let wanted = listeners.wanted();
    let wanted = if listeners.resting { wanted.with(Interest::READ) } else { wanted };
    if wanted == Interest::NONE {
        state.remember(fd, None);
        core_of(state)?.deregister(token)?;
        return Ok(removed);
    }
    match core.set_interest(token, wanted) {
        // Closed before: there is nothing to listen to any more.
        Ok(()) | Err(Error::BadFd { .. }) => Ok(removed),
        Err(error) => Err(error),
    }
}

/// Takes a callback out. One for reading is likely to come back: until then the registration rests.
pub(crate) fn remove(state: &mut State, fd: i32, direction: Interest) -> evloop::Result<Option<Listener>> {
    if direction == Interest::READ
        && let (Some(token), Some(PyCore(core))) = (state.token_of(fd), &mut state.core)
        && let Ok(Source::Lent(listeners)) = core.source(token)
        && matches!(listeners.reader, Some(Listener::Handle(_)))
    {
        listeners.resting = true;
        return Ok(listeners.reader.take());
    }
    take(state, fd, direction)
}

/// Takes a `sock_*` call out, if it is still the one that listens. With `rest` epoll goes on listening.
fn leave(
    state: &mut State,
    fd: i32,
    direction: Interest,
    operation: &Obj,
    rest: bool,
) -> evloop::Result<Option<Listener>> {
    let (Some(token), Some(PyCore(core))) = (state.token_of(fd), &mut state.core) else { return Ok(None) };
    let Ok(Source::Lent(listeners)) = core.source(token) else { return Ok(None) };
    let place = listeners.place(direction);
    if !place.as_ref().is_some_and(|listener| listener.object().is(operation)) {
        return Ok(None);
    }
    if rest && direction == Interest::READ {
        let removed = place.take();
        listeners.resting = true;
        return Ok(removed);
    }
    take(state, fd, direction)
}

/// Ends a registration that nobody waits for, so that a native object can have the fd.
pub(crate) fn end_rest(state: &mut State, fd: i32) -> evloop::Result<()> {
    let Some(token) = state.token_of(fd) else { return Ok(()) };
    let core = core_of(state)?;
    if core.source(token).is_ok_and(|source| source.is_idle()) {
        core.deregister(token)?;
        state.remember(fd, None);
    }
    Ok(())
}

#[cold]
fn taken(py: Attached<'_>, fd: i32) -> Raised {
    Kind::RuntimeError.raise(py, &format!("File descriptor {fd} is used by a transport"))
}
