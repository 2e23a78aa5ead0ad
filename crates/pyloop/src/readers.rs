//! `add_reader`, `remove_writer` and kin: callbacks for fds that somebody else owns. Attached threads only.

use evloop::Interest;
use pyrt::{Args, Attached, Borrowed, Instance, Kind, Owned, PyResult, Typed};

use crate::arguments::Request;
use crate::bound::Bound;
use crate::entry::{Listener, Source};
use crate::event_loop::Loop;
use crate::fault;
use crate::handle::Handle;
use crate::listeners::{self, New};
use crate::sources::core_of;
use crate::state::State;

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

    /// A `RuntimeError` if a transport has the fd.
    fn ensure_no_transport(
        &self,
        py: Attached<'_>,
        this: Instance<'_, Self>,
        fd: Option<&Borrowed<'_>>,
    ) -> PyResult<()> {
        let Some(fd) = fd else { return Ok(()) };
        if fd.is_int() {
            return self.ensure_free(py, this, fd.to_i32(py)?);
        }
        this.object().call_method1(py, &self.native().names.ensure_no_transport, fd).map(drop)
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
                Source::Lent(listeners) => {
                    let keep = |listener: &Option<Listener>| {
                        listener.as_ref().map(|listener| listener.object().clone_ref(py))
                    };
                    let both = (keep(&listeners.reader), keep(&listeners.writer));
                    (listeners.wanted() != Interest::NONE).then_some(both)
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
        let listener = Listener::Handle(handle.clone_ref(py));
        self.attach(py, fd, direction, New { listener, sock: None })?;
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
        self.take_away(py, fd, direction, listeners::remove)
    }

    /// Ends what nobody listens for any more: a callback that was cancelled, or a registration that rests.
    pub(crate) fn unlisten(&self, py: Attached<'_>, fd: i32, direction: Interest) -> PyResult<()> {
        self.take_away(py, fd, direction, listeners::take).map(drop)
    }

    /// Takes the callback of one direction away and cancels it. Whether there was one.
    fn take_away(
        &self,
        py: Attached<'_>,
        fd: i32,
        direction: Interest,
        take: fn(&mut State, i32, Interest) -> evloop::Result<Option<Listener>>,
    ) -> PyResult<bool> {
        let (removed, file) = self
            .state
            .with(py, |state| (take(state, fd, direction), state.files.set(fd, direction, None)))?;
        drop(file);
        match removed.map_err(|error| fault::raise(py, error))? {
            Some(listener) => listener.let_go(py).map(|()| true),
            None => Ok(false),
        }
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
