//! `add_reader`, `remove_writer` and kin: callbacks for fds that somebody else owns. Attached threads only.

use evloop::{Error, Fd, Interest};
use pyrt::{Args, Attached, Borrowed, Instance, Kind, Owned, PyResult, Raised, Typed};

use crate::arguments::Request;
use crate::bound::{self, Bound};
use crate::entry::Source;
use crate::event_loop::Loop;
use crate::fault;
use crate::handle::Handle;
use crate::sources::core_of;
use crate::state::{PyCore, State};

impl Loop {
    pub(crate) fn add_reader(
        py: Attached<'_>,
        this: Instance<'_, Self>,
        args: Args<'_>,
    ) -> PyResult<Typed<Handle>> {
        let (fd, request) = Request::io(py, "add_reader", &args)?;
        this.payload().listen(py, this, fd, request, Interest::READ)
    }

    pub(crate) fn add_writer(
        py: Attached<'_>,
        this: Instance<'_, Self>,
        args: Args<'_>,
    ) -> PyResult<Typed<Handle>> {
        let (fd, request) = Request::io(py, "add_writer", &args)?;
        this.payload().listen(py, this, fd, request, Interest::WRITE)
    }

    pub(crate) fn remove_reader(
        py: Attached<'_>,
        this: Instance<'_, Self>,
        fd: Borrowed<'_>,
    ) -> PyResult<bool> {
        this.payload().unlisten_object(py, fd, Interest::READ)
    }

    pub(crate) fn remove_writer(
        py: Attached<'_>,
        this: Instance<'_, Self>,
        fd: Borrowed<'_>,
    ) -> PyResult<bool> {
        this.payload().unlisten_object(py, fd, Interest::WRITE)
    }

    /// `add_reader` as users call it: not for the fd of a transport.
    pub(crate) fn add_user_reader(
        py: Attached<'_>,
        this: Instance<'_, Self>,
        args: Args<'_>,
    ) -> PyResult<()> {
        this.ensure_no_transport(py, this, args.positional().first())?;
        Self::add_reader(py, this, args).map(drop)
    }

    pub(crate) fn add_user_writer(
        py: Attached<'_>,
        this: Instance<'_, Self>,
        args: Args<'_>,
    ) -> PyResult<()> {
        this.ensure_no_transport(py, this, args.positional().first())?;
        Self::add_writer(py, this, args).map(drop)
    }

    pub(crate) fn remove_user_reader(
        py: Attached<'_>,
        this: Instance<'_, Self>,
        fd: Borrowed<'_>,
    ) -> PyResult<bool> {
        this.ensure_no_transport(py, this, Some(&fd))?;
        Self::remove_reader(py, this, fd)
    }

    pub(crate) fn remove_user_writer(
        py: Attached<'_>,
        this: Instance<'_, Self>,
        fd: Borrowed<'_>,
    ) -> PyResult<bool> {
        this.ensure_no_transport(py, this, Some(&fd))?;
        Self::remove_writer(py, this, fd)
    }

    /// A `RuntimeError` if a transport has the fd. asyncio keeps its transports in a weak dictionary; with none in it, which
    /// is what programs with readers of their own mostly have, there is nothing to ask.
    fn ensure_no_transport(
        &self,
        py: Attached<'_>,
        this: Instance<'_, Self>,
        fd: Option<&Borrowed<'_>>,
    ) -> PyResult<()> {
        let names = &self.native().names;
        let data = this.object().getattr(py, &names.transports)?.getattr(py, &names.data)?;
        match fd {
            Some(fd) if !fd.is_int() || data.len(py)? > 0 => {
                this.object().call_method1(py, &names.ensure_no_transport, fd).map(drop)
            }
            _ => Ok(()),
        }
    }

    /// What is listened for on an fd and by whom: `(reading, writing, reader, writer)`, or `None`.
    pub(crate) fn registration(
        py: Attached<'_>,
        this: Instance<'_, Self>,
        fd: Borrowed<'_>,
    ) -> PyResult<Option<Owned>> {
        let fd = number(py, this.payload(), fd)?;
        let found = this.state.with(py, |state| {
            let token = state.token_of(fd)?;
            match core_of(state).ok()?.source(token).ok()? {
                Source::Callbacks { reader, writer, .. } => {
                    let keep = |handle: &Option<Typed<Handle>>| {
                        handle.as_ref().map(|handle| handle.object().clone_ref(py))
                    };
                    Some((keep(reader), keep(writer)))
                }
                Source::Native(..) => Some((None, None)),
            }
        })?;
        let Some((reader, writer)) = found else { return Ok(None) };
        let flags = [Owned::bool(py, reader.is_some()), Owned::bool(py, writer.is_some())];
        let [reading, writing] = flags;
        let or_none = |handle: Option<Owned>| handle.unwrap_or_else(|| Owned::none(py));
        Owned::tuple(py, [reading, writing, or_none(reader), or_none(writer)]).map(Some)
    }

    fn listen(
        &self,
        py: Attached<'_>,
        this: Instance<'_, Self>,
        fd: Borrowed<'_>,
        request: Request<'_>,
        direction: Interest,
    ) -> PyResult<Typed<Handle>> {
        self.check_open(py)?;
        let file = (!fd.is_int()).then(|| fd.clone_ref(py));
        let fd = number(py, self, fd)?;
        let handle = self.native().handle.create(py, Handle::new(Bound::new(py, this, request)?))?;
        let mut waiting = Some(handle.clone_ref(py));
        let replaced = self.state.with(py, |state| put(state, fd, direction, &mut waiting))?;
        match replaced {
            Ok(Some(before)) => bound::cancel(py, before.instance())?,
            Ok(None) => {}
            Err(Refused::Core(error)) => return Err(fault::raise(py, error)),
            Err(Refused::Taken) => return Err(taken(py, fd)),
        }
        drop(self.state.with(py, |state| state.files.set(fd, direction, file))?);
        self.rouse(py)?;
        Ok(handle)
    }

    fn unlisten_object(&self, py: Attached<'_>, fd: Borrowed<'_>, direction: Interest) -> PyResult<bool> {
        if self.is_closed() {
            return Ok(false);
        }
        let fd = match number(py, self, fd) {
            Err(raised) if raised.matches(py, &Kind::ValueError.class(py)) => {
                let Some(known) = self.state.with(py, |state| state.files.find(fd))? else {
                    return Err(raised);
                };
                raised.clear(py);
                known
            }
            number => number?,
        };
        self.unlisten(py, fd, direction)
    }

    /// Takes the callback of one direction away and cancels it. Whether there was one.
    pub(crate) fn unlisten(&self, py: Attached<'_>, fd: i32, direction: Interest) -> PyResult<bool> {
        let (removed, file) = self
            .state
            .with(py, |state| (take(state, fd, direction), state.files.set(fd, direction, None)))?;
        drop(file);
        match removed.map_err(|error| fault::raise(py, error))? {
            Some(handle) => bound::cancel(py, handle.instance()).map(|()| true),
            None => Ok(false),
        }
    }
}

/// Why a callback was not registered.
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

/// Registers a callback; the one it replaces comes back.
fn put(
    state: &mut State,
    fd: i32,
    direction: Interest,
    handle: &mut Option<Typed<Handle>>,
) -> Result<Option<Typed<Handle>>, Refused> {
    if let Some(token) = state.token_of(fd) {
        let core = core_of(state)?;
        if let Ok(source) = core.source(token) {
            let wanted = source.wanted().with(direction);
            if source.callback(direction).is_none() {
                return Err(Refused::Taken);
            }
            match core.set_interest(token, wanted) {
                Ok(()) => {
                    let place = core.source(token)?.callback(direction).ok_or(Refused::Taken)?;
                    return Ok(std::mem::replace(place, handle.take()));
                }
                // Closed without a word, and the number has a new owner, whom the kernel takes as new.
                Err(Error::BadFd { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    let source = if direction == Interest::READ {
        Source::Callbacks { fd, reader: handle.take(), writer: None }
    } else {
        Source::Callbacks { fd, reader: None, writer: handle.take() }
    };
    let forgotten = state.token_of(fd);
    let core = core_of(state)?;
    let token = core.register(Fd::Lent(fd), direction, source)?;
    state.remember(fd, Some(token));
    // What was left of a registration of a closed fd: its callbacks are never called again, and go with it.
    let old = forgotten.and_then(|token| core_of(state).ok()?.deregister(token).ok());
    Ok(match old {
        Some((_, Source::Callbacks { reader, writer, .. })) => reader.or(writer),
        _ => None,
    })
}

/// Takes a callback out.
fn take(state: &mut State, fd: i32, direction: Interest) -> evloop::Result<Option<Typed<Handle>>> {
    let (Some(token), Some(PyCore(core))) = (state.token_of(fd), &mut state.core) else { return Ok(None) };
    let Ok(source) = core.source(token) else { return Ok(None) };
    let Some(place) = source.callback(direction) else { return Ok(None) };
    let removed = place.take();
    let wanted = source.wanted();
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

/// The number of an fd or of an object with one, and the complaints of the stdlib's selectors.
fn number(py: Attached<'_>, this: &Loop, object: Borrowed<'_>) -> PyResult<i32> {
    let fd = if object.is_int() { object.to_i32(py)? } else { fileno(py, this, object)? };
    if fd < 0 {
        return Err(Kind::ValueError.raise(py, &format!("Invalid file descriptor: {fd}")));
    }
    Ok(fd)
}

#[cold]
fn fileno(py: Attached<'_>, this: &Loop, object: Borrowed<'_>) -> PyResult<i32> {
    let asked = object.call_method0(py, &this.native().names.fileno).and_then(|fd| fd.to_i32(py));
    asked.map_err(|raised| {
        let expected = [Kind::AttributeError, Kind::TypeError, Kind::ValueError];
        if !expected.iter().any(|kind| raised.matches(py, &kind.class(py))) {
            return raised;
        }
        raised.clear(py);
        let text = object.repr(py).and_then(|text| text.to_string_lossy(py));
        match text {
            Ok(text) => Kind::ValueError.raise(py, &format!("Invalid file object: {text}")),
            Err(raised) => raised,
        }
    })
}

#[cold]
fn taken(py: Attached<'_>, fd: i32) -> Raised {
    Kind::RuntimeError.raise(py, &format!("File descriptor {fd} is used by a transport"))
}
