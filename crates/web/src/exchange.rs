//! `Exchange`: one request and its response. What the app receives is here, what it sends in `outgoing`.

use std::collections::VecDeque;
use std::ffi::CStr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use pyloop::Loop;
use pyrt::{
    Attached, Borrowed, Class, Guarded, Instance, Kind, Method, ObjCell, Owned, Property, PyResult, Raised,
    Traverse, Typed, Visit, Visited, confined,
};

use crate::connection::Connection;
use crate::head::Facts;
use crate::intake::PLENTY;
use crate::message::dict;
use crate::now::Now;
use crate::outgoing::Response;
use crate::site::Site;
use crate::waiters::Waiters;

/// What of the request the app has not received.
#[derive(Default)]
struct Incoming {
    pieces: VecDeque<Owned>,
    size: usize,
    /// All of the body is there.
    is_whole: bool,
    /// The app has been told so.
    is_told: bool,
    /// The client waits to be told to go on.
    expects: bool,
}

// SAFETY: references and plain data; dropped attached.
unsafe impl pyrt::Confined for Incoming {}

impl Traverse for Incoming {
    fn traverse(&self, visit: &mut Visit<'_>) -> Visited {
        self.pieces.traverse(visit)
    }
}

pub(crate) struct Exchange {
    pub(crate) connection: Typed<Connection>,
    pub(crate) facts: Facts,
    path: ObjCell,
    incoming: Guarded<Incoming>,
    pub(crate) response: Guarded<Response>,
    pub(crate) waiters: Waiters,
    /// The task, if it was not over after its first step.
    pub(crate) task: ObjCell,
    /// The client is gone.
    is_gone: AtomicBool,
    /// The first step of the task is being taken.
    pub(crate) is_first: AtomicBool,
}

confined!(Exchange { connection, facts, path, incoming, response, waiters, task, is_gone, is_first });

impl Traverse for Exchange {
    fn traverse(&self, visit: &mut Visit<'_>) -> Visited {
        self.connection.traverse(visit)?;
        self.incoming.traverse(visit)?;
        self.waiters.traverse(visit)?;
        self.task.traverse(visit)
    }

    fn clear(&self, py: Attached<'_>) {
        self.waiters.clear(py);
        self.task.clear(py);
    }
}

pub(crate) type This<'a> = Instance<'a, Exchange>;

const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

impl Class for Exchange {
    const NAME: &'static CStr = c"erlang._web.Exchange";
    const DOC: &'static CStr = c"A request and its response.";
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
        Method::<Self>::noargs(
            c"flush",
            Self::flush,
            c"flush($self)\n--\n\nSends a head whose body does not come.",
        ),
        Method::END,
    ];
    const PROPERTIES: &'static [Property<Self>] = &[
        Property::<Self>::read(
            c"is_full",
            |_, this| Ok(this.connection.is_full.load(Relaxed) && !this.is_gone.load(Relaxed)),
            c"Whether the client is slower than the app.",
        ),
        Property::END,
    ];
}

impl Exchange {
    pub(crate) fn new(connection: Typed<Connection>, facts: Facts, is_whole: bool) -> Self {
        let incoming = Incoming { is_whole, expects: facts.expects && !is_whole, ..Incoming::default() };
        Self {
            connection,
            facts,
            path: ObjCell::empty(),
            incoming: Guarded::new(incoming),
            response: Guarded::default(),
            waiters: Waiters::default(),
            task: ObjCell::empty(),
            is_gone: AtomicBool::new(false),
            is_first: AtomicBool::new(false),
        }
    }

    pub(crate) fn site(&self) -> &Site {
        self.connection.site.payload()
    }

    /// Gives the request to the app, whose task takes its first step at once.
    pub(crate) fn start(py: Attached<'_>, this: This<'_>, scope: Owned) -> PyResult<()> {
        let site = this.site();
        let names = &site.web.names;
        if let Some(path) = scope.dict_get(py, &names.path)? {
            this.path.set(py, path);
        }
        this.is_first.store(true, Relaxed);
        let begun = begin_task(py, site, this.object(), scope);
        this.is_first.store(false, Relaxed);
        let task = match begun {
            Ok(task) => task,
            Err(raised) if ends_the_loop(py, &raised) => return Err(raised),
            Err(raised) => return this.failed(py, this, &raised.take(py).into_value()),
        };
        if task.call_method0(py, &names.done)?.is_true(py)? {
            return Self::ended(py, this, task.borrow());
        }
        Self::flush(py, this)?;
        let ended = this.object().getattr_str(py, c"ended")?;
        task.call_method1(py, &names.add_done_callback, &ended)?;
        this.task.set(py, task);
        Ok(())
    }

    /// The app has returned, raised, or was cancelled.
    fn ended(py: Attached<'_>, this: This<'_>, task: Borrowed<'_>) -> PyResult<()> {
        let names = &this.site().web.names;
        drop(this.task.take(py));
        if task.call_method0(py, &names.cancelled)?.is_true(py)? {
            return this.give_up(py, this);
        }
        let exception = task.call_method0(py, &names.exception)?;
        if !exception.is_none() {
            return this.failed(py, this, &exception);
        }
        if this.is_ended(py)? || this.is_gone.load(Relaxed) {
            return Ok(());
        }
        let raised = pyrt::Fault::runtime("the app returned before its response was complete").raise(py);
        this.failed(py, this, &raised.take(py).into_value())
    }

    #[cold]
    fn failed(&self, py: Attached<'_>, this: This<'_>, exception: &Owned) -> PyResult<()> {
        let site = self.site();
        // One that was told that the client is gone, and did not care.
        let is_told =
            self.is_gone.load(Relaxed) && exception.is_instance(py, &site.web.disconnected.get(py)?)?;
        if !is_told {
            let path = self.path.get(py).unwrap_or_else(|| Owned::none(py));
            site.failed(py, exception, &path)?;
        }
        self.give_up(py, this)
    }

    /// There will be no more of the response.
    fn give_up(&self, py: Attached<'_>, this: This<'_>) -> PyResult<()> {
        if self.is_ended(py)? || self.is_gone.load(Relaxed) {
            return Ok(());
        }
        let is_sent = self.response.with(py, |response| {
            response.is_ended = true;
            response.is_sent
        })?;
        if is_sent {
            self.connection.abort(py)?
        } else {
            self.connection.refuse(py, 500, &[])?
        }
        let _ = this;
        Ok(())
    }

    /// A piece of the body has come.
    pub(crate) fn push(&self, py: Attached<'_>, piece: &[u8]) -> PyResult<()> {
        if self.is_ended(py)? {
            return Ok(());
        }
        let bytes = Owned::bytes(py, piece)?;
        self.incoming.with(py, |incoming| {
            incoming.size += piece.len();
            incoming.pieces.push_back(bytes);
            incoming.expects = false;
        })?;
        self.waiters.wake(py, self.site())
    }

    /// All of the body has come.
    pub(crate) fn end_body(&self, py: Attached<'_>) -> PyResult<()> {
        self.incoming.with(py, |incoming| incoming.is_whole = true)?;
        self.waiters.wake(py, self.site())
    }

    pub(crate) fn disconnect(&self, py: Attached<'_>) -> PyResult<()> {
        self.is_gone.store(true, Relaxed);
        self.waiters.wake(py, self.site())
    }

    pub(crate) fn is_gone(&self) -> bool {
        self.is_gone.load(Relaxed)
    }

    pub(crate) fn is_ended(&self, py: Attached<'_>) -> PyResult<bool> {
        self.response.with(py, |response| response.is_ended)
    }

    /// Something of the response has been written.
    pub(crate) fn is_started(&self, py: Attached<'_>) -> PyResult<bool> {
        self.response.with(py, |response| response.is_sent)
    }

    pub(crate) fn keeps_alive(&self, py: Attached<'_>) -> PyResult<bool> {
        Ok(self.facts.keep_alive && !self.response.with(py, |response| response.closes)?)
    }

    /// How much waits for the app.
    pub(crate) fn waiting(&self, py: Attached<'_>) -> PyResult<usize> {
        if self.is_ended(py)? { Ok(0) } else { self.incoming.with(py, |incoming| incoming.size) }
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
        if this.is_ended(py)? {
            return dict(py, [(&names.kind, &texts.disconnect)]).map(Some);
        }
        let (piece, is_last, was_plenty) = this.incoming.with(py, |incoming| {
            let was_plenty = incoming.size > PLENTY;
            let piece = incoming.pieces.pop_front();
            incoming.size -= piece.as_ref().and_then(|piece| piece.to_bytes(py).ok()).map_or(0, <[u8]>::len);
            let is_last = incoming.is_whole && incoming.pieces.is_empty() && !incoming.is_told;
            incoming.is_told |= is_last;
            (piece, is_last, was_plenty)
        })?;
        if was_plenty {
            this.connection.flow(py)?;
        }
        if piece.is_none() && !is_last {
            if this.is_gone.load(Relaxed) {
                return dict(py, [(&names.kind, &texts.disconnect)]).map(Some);
            }
            if this.incoming.with(py, |incoming| std::mem::take(&mut incoming.expects))? {
                this.connection.write(py, &Owned::bytes(py, CONTINUE)?)?;
            }
            return Ok(None);
        }
        let more = Owned::bool(py, !is_last);
        let body = piece.unwrap_or_else(|| site.web.empty.clone_ref(py));
        dict(py, [(&names.kind, &texts.request), (&names.body, &body), (&names.more_body, &more)]).map(Some)
    }
}

/// Calls the app with `receive` and `send` of an object; its task takes the first step.
pub(crate) fn begin_task(
    py: Attached<'_>,
    site: &Site,
    object: Borrowed<'_>,
    scope: Owned,
) -> PyResult<Owned> {
    let names = &site.web.names;
    let receive = object.getattr(py, &names.receive)?;
    let send = object.getattr(py, &names.send)?;
    let coroutine = site.app.call(py, [scope.borrow(), receive.borrow(), send.borrow()])?;
    Loop::start_task(py, Loop::expect(py, site.owner.borrow())?, coroutine.borrow())
}

/// Whether an exception is meant for whoever runs the loop.
pub(crate) fn ends_the_loop(py: Attached<'_>, raised: &Raised) -> bool {
    raised.matches(py, &Kind::KeyboardInterrupt.class(py)) || raised.matches(py, &Kind::SystemExit.class(py))
}
