//! `Socket`: one WebSocket. What the app receives is here, what it sends in `speech`.

use std::collections::VecDeque;
use std::ffi::CStr;
use std::sync::atomic::Ordering::Relaxed;

use pyrt::{
    Attached, Borrowed, Class, Fault, Guarded, Instance, Method, ObjCell, Owned, Property, PyResult,
    Traverse, Typed, Visit, Visited, confined,
};
use tungstenite::handshake::derive_accept_key;

use crate::connection::{self, Connection};
use crate::exchange::{begin_task, ends_the_loop};
use crate::frames::{Event, Frames};
use crate::head::Head;
use crate::intake::PLENTY;
use crate::message::dict;
use crate::now::Now;
use crate::respond::Start;
use crate::site::Site;
use crate::waiters::Waiters;

/// What a client says when it asks for a WebSocket (RFC 6455, 4.2.1).
pub(crate) struct Offer {
    /// What its key is answered by.
    accept: Option<String>,
    has_version: bool,
}

impl Offer {
    pub(crate) fn of(head: &Head<'_>) -> Self {
        let value = |name: &str| {
            let mut found = head.headers.iter().filter(|header| header.name.eq_ignore_ascii_case(name));
            found.next().filter(|_| found.next().is_none()).map(|header| header.value)
        };
        // 16 bytes in base64.
        let is_key = |key: &&[u8]| key.len() == 24 && key.ends_with(b"==");
        let key = value("sec-websocket-key").filter(is_key).filter(|_| head.method == "GET");
        Self {
            accept: key.map(derive_accept_key),
            has_version: value("sec-websocket-version") == Some(b"13"),
        }
    }
}

/// How far it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Phase {
    #[default]
    Connecting,
    /// The app refuses, by a response of its own.
    Refusing,
    Open,
    /// The app has closed or refused it.
    Ended,
    /// The client has closed it, or is gone.
    Lost,
}

#[derive(Default)]
pub(crate) struct State {
    pub(crate) phase: Phase,
    pub(crate) frames: Option<Frames>,
    pub(crate) accept: String,
    messages: VecDeque<(Owned, usize)>,
    size: usize,
    /// The app has received `websocket.connect`.
    is_told: bool,
    pub(crate) code: u16,
    pub(crate) reason: String,
    pub(crate) refusal: Option<Start>,
    pub(crate) pieces: Vec<u8>,
}

// SAFETY: references and plain data, dropped attached.
unsafe impl pyrt::Confined for State {}

impl Traverse for State {
    fn traverse(&self, visit: &mut Visit<'_>) -> Visited {
        self.messages.iter().try_for_each(|(message, _)| message.traverse(visit))
    }
}

pub(crate) struct Socket {
    pub(crate) connection: Typed<Connection>,
    pub(crate) state: Guarded<State>,
    pub(crate) waiters: Waiters,
    pub(crate) task: ObjCell,
    path: ObjCell,
}

confined!(Socket { connection, state, waiters, task, path });

impl Traverse for Socket {
    fn traverse(&self, visit: &mut Visit<'_>) -> Visited {
        self.connection.traverse(visit)?;
        self.state.traverse(visit)?;
        self.waiters.traverse(visit)?;
        self.task.traverse(visit)
    }

    fn clear(&self, py: Attached<'_>) {
        self.waiters.clear(py);
        self.task.clear(py);
    }
}

pub(crate) type This<'a> = Instance<'a, Socket>;

impl Class for Socket {
    const NAME: &'static CStr = c"erlang._web.Socket";
    const DOC: &'static CStr = c"A WebSocket.";
    const METHODS: &'static [Method<Self>] = &[
        Method::<Self>::noargs(
            c"receive",
            Self::receive,
            c"receive($self)\n--\n\nThe next message, to be awaited.",
        ),
        Method::one(c"send", Self::send, c"send($self, message, /)\n--\n\nSends a message, to be awaited."),
        Method::<Self>::noargs(c"poll", Self::poll, c"poll($self)\n--\n\nThe next message, if it is there."),
        Method::<Self>::noargs(
            c"news",
            |py, this: This<'_>| this.waiters.join(py, this.site()),
            c"news($self)\n--\n\nA future that is done when there is something new.",
        ),
        Method::one(c"ended", Self::ended, c"ended($self, task, /)\n--\n\nThe task of the app has ended."),
        Method::END,
    ];
    const PROPERTIES: &'static [Property<Self>] = &[
        Property::<Self>::read(
            c"is_full",
            |_, this| Ok(this.connection.is_full.load(Relaxed) && !this.connection.is_gone.load(Relaxed)),
            c"Whether the client is slower than the app.",
        ),
        Property::END,
    ];
}

impl Socket {
    pub(crate) fn site(&self) -> &Site {
        self.connection.site.payload()
    }

    /// Offers a WebSocket to the app.
    pub(crate) fn open(
        py: Attached<'_>,
        connection: connection::This<'_>,
        offer: Offer,
        scope: Owned,
    ) -> PyResult<bool> {
        if !offer.has_version {
            let version = ("sec-websocket-version", "13");
            return connection.refuse(py, 426, &[version, ("upgrade", "websocket")]).map(|()| false);
        }
        let Some(accept) = offer.accept else { return connection.refuse(py, 400, &[]).map(|()| false) };
        let site = &connection.site;
        let state = State { frames: Some(Frames::new(site.message)), accept, code: 1006, ..State::default() };
        let path = scope.dict_get(py, &site.web.names.path)?;
        let socket = site.web.socket.create(
            py,
            Self {
                connection: connection.clone_ref(py),
                state: Guarded::new(state),
                waiters: Waiters::default(),
                task: ObjCell::empty(),
                path: path.map_or_else(ObjCell::empty, ObjCell::new),
            },
        )?;
        let early = connection.serve_socket(py, &socket)?;
        let this = socket.instance();
        this.feed(py, this, &early)?;
        match begin_task(py, site, this.object(), scope) {
            Ok(task) if task.call_method0(py, &site.web.names.done)?.is_true(py)? => {
                Self::ended(py, this, task.borrow())?
            }
            Ok(task) => {
                let ended = this.object().getattr_str(py, c"ended")?;
                task.call_method1(py, &site.web.names.add_done_callback, &ended)?;
                this.task.set(py, task);
            }
            Err(raised) if ends_the_loop(py, &raised) => return Err(raised),
            Err(raised) => this.failed(py, this, &raised.take(py).into_value())?,
        }
        Ok(false)
    }

    /// Bytes of the client.
    pub(crate) fn feed(&self, py: Attached<'_>, this: This<'_>, bytes: &[u8]) -> PyResult<()> {
        self.state.with(py, |state| {
            if let Some(frames) = &mut state.frames {
                frames.push(bytes);
            }
        })?;
        self.listen(py, this)
    }

    /// Makes messages of what has come, once it is accepted.
    pub(crate) fn listen(&self, py: Attached<'_>, this: This<'_>) -> PyResult<()> {
        loop {
            let event = self.state.with(py, |state| match (state.phase, &mut state.frames) {
                (Phase::Open | Phase::Ended, Some(frames)) => frames.next(),
                _ => None,
            })?;
            let Some(event) = event else { break };
            self.take(py, event)?;
        }
        self.write(py)?;
        let _ = this;
        self.connection.flow(py)
    }

    fn take(&self, py: Attached<'_>, event: Event) -> PyResult<()> {
        let (code, reason, is_broken) = match event {
            Event::Text(text) => return self.push(py, text.len(), true, &Owned::str(py, &text)?),
            Event::Binary(data) => return self.push(py, data.len(), false, &Owned::bytes(py, &data)?),
            Event::Closed(code, reason) => (code, reason, false),
            Event::Broken(code) => (code, String::new(), true),
        };
        self.state.with(py, |state| {
            if state.phase == Phase::Open {
                state.phase = Phase::Lost;
                (state.code, state.reason) = (code, reason);
            }
        })?;
        self.write(py)?;
        if is_broken {
            self.connection.linger(py)?;
        } else {
            self.connection.close(py)?;
        }
        self.waiters.wake(py, self.site())
    }

    fn push(&self, py: Attached<'_>, size: usize, is_text: bool, content: &Owned) -> PyResult<()> {
        let web = &self.site().web;
        let none = Owned::none(py);
        let (text, bytes) = if is_text { (content, &none) } else { (&none, content) };
        let names = &web.names;
        let message =
            dict(py, [(&names.kind, &web.texts.ws_receive), (&names.text, text), (&names.bytes, bytes)])?;
        self.state.with(py, |state| {
            state.size += size + 1;
            state.messages.push_back((message, size + 1));
        })?;
        self.waiters.wake(py, self.site())
    }

    /// Writes the frames that wait for it.
    pub(crate) fn write(&self, py: Attached<'_>) -> PyResult<()> {
        let bytes = self.state.with(py, |state| state.frames.as_mut().map(Frames::take))?.unwrap_or_default();
        if bytes.is_empty() { Ok(()) } else { self.connection.write(py, &Owned::bytes(py, &bytes)?) }
    }

    /// The client is gone.
    pub(crate) fn disconnect(&self, py: Attached<'_>) -> PyResult<()> {
        self.state.with(py, |state| {
            if state.phase != Phase::Ended {
                state.phase = Phase::Lost;
            }
        })?;
        self.waiters.wake(py, self.site())
    }

    pub(crate) fn waiting(&self, py: Attached<'_>) -> PyResult<usize> {
        self.state.with(py, |state| state.size)
    }

    fn receive(py: Attached<'_>, this: This<'_>) -> PyResult<Owned> {
        let web = &this.site().web;
        match Self::poll(py, this)? {
            Some(message) => Ok(web.now.create(py, Now::new(message))?.into_object()),
            None => web.receive.get(py)?.call1(py, &this.object()),
        }
    }

    fn poll(py: Attached<'_>, this: This<'_>) -> PyResult<Option<Owned>> {
        let site = this.site();
        let (names, texts) = (&site.web.names, &site.web.texts);
        if !this.state.with(py, |state| std::mem::replace(&mut state.is_told, true))? {
            return dict(py, [(&names.kind, &texts.ws_connect)]).map(Some);
        }
        let (message, was_plenty, end) = this.state.with(py, |state| {
            let was_plenty = state.size > PLENTY;
            let message = state.messages.pop_front();
            state.size -= message.as_ref().map_or(0, |(_, size)| *size);
            let is_over = matches!(state.phase, Phase::Ended | Phase::Lost);
            (message, was_plenty, is_over.then(|| (state.code, state.reason.clone())))
        })?;
        if was_plenty {
            this.connection.flow(py)?;
        }
        match (message, end) {
            (Some((message, _)), _) => Ok(Some(message)),
            (None, Some((code, reason))) => {
                let (code, reason) = (Owned::int(py, code.into())?, Owned::str(py, &reason)?);
                dict(
                    py,
                    [(&names.kind, &texts.ws_disconnect), (&names.code, &code), (&names.reason, &reason)],
                )
                .map(Some)
            }
            (None, None) => Ok(None),
        }
    }

    /// The app has returned, raised, or was cancelled.
    fn ended(py: Attached<'_>, this: This<'_>, task: Borrowed<'_>) -> PyResult<()> {
        let names = &this.site().web.names;
        drop(this.task.take(py));
        if task.call_method0(py, &names.cancelled)?.is_true(py)? {
            return this.give_up(py);
        }
        let exception = task.call_method0(py, &names.exception)?;
        if !exception.is_none() {
            return this.failed(py, this, &exception);
        }
        match this.state.with(py, |state| state.phase)? {
            Phase::Open => this.close_with(py, 1000, ""),
            Phase::Connecting | Phase::Refusing => {
                let raised =
                    Fault::runtime("the app returned before it accepted or closed the WebSocket").raise(py);
                this.failed(py, this, &raised.take(py).into_value())
            }
            Phase::Ended | Phase::Lost => Ok(()),
        }
    }

    #[cold]
    fn failed(&self, py: Attached<'_>, this: This<'_>, exception: &Owned) -> PyResult<()> {
        let site = self.site();
        let is_lost = self.state.with(py, |state| state.phase == Phase::Lost)?;
        if !(is_lost && exception.is_instance(py, &site.web.disconnected.get(py)?)?) {
            let path = self.path.get(py).unwrap_or_else(|| Owned::none(py));
            site.failed(py, exception, &path)?;
        }
        let _ = this;
        self.give_up(py)
    }

    fn give_up(&self, py: Attached<'_>) -> PyResult<()> {
        match self.state.with(py, |state| state.phase)? {
            Phase::Open => self.close_with(py, 1011, ""),
            Phase::Connecting | Phase::Refusing => {
                self.state.with(py, |state| state.phase = Phase::Ended)?;
                self.connection.refuse(py, 500, &[])
            }
            Phase::Ended | Phase::Lost => Ok(()),
        }
    }
}
