//! `Connection`: the asyncio protocol of one connection. Bytes become requests, which are served one after the other.
//!
//! How it ends: 1. the client goes, and whoever is served hears of it; 2. a response was the last one, or a request was refused: the
//! transport is closed when all is written; 3. its time is over (see `ending`). What has come in and is not taken is in `intake`.

use std::ffi::CStr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use pyrt::{
    Attached, Borrowed, Class, Guarded, Instance, Method, ObjCell, Owned, Property, PyResult, Traverse,
    Typed, Visit, Visited, confined,
};

use crate::body::Body;
use crate::exchange::Exchange;
use crate::head::{self, Facts, Read};
use crate::intake::Wire;
use crate::scope;
use crate::site::Site;
use crate::socket::{Offer, Socket};

pub(crate) struct Connection {
    pub(crate) site: Typed<Site>,
    pub(crate) transport: ObjCell,
    client: ObjCell,
    server: ObjCell,
    /// What the scopes of all its requests have alike.
    scope: ObjCell,
    /// The request or the WebSocket that is served.
    serving: ObjCell,
    pub(crate) wire: Guarded<Wire>,
    /// When it is over, in nanoseconds of the loop's clock; 0 for never.
    pub(crate) deadline: AtomicU64,
    /// The transport has enough to write.
    pub(crate) is_full: AtomicBool,
    pub(crate) is_gone: AtomicBool,
    /// No request is served after this one.
    pub(crate) is_last: AtomicBool,
    /// Nothing is read any more: it is being closed.
    pub(crate) is_shut: AtomicBool,
    is_pumping: AtomicBool,
    pub(crate) is_paused: AtomicBool,
}

confined!(Connection {
    site,
    transport,
    client,
    server,
    scope,
    serving,
    wire,
    deadline,
    is_full,
    is_gone,
    is_last,
    is_shut,
    is_pumping,
    is_paused
});

impl Traverse for Connection {
    fn traverse(&self, visit: &mut Visit<'_>) -> Visited {
        self.site.traverse(visit)?;
        [&self.transport, &self.client, &self.server, &self.scope, &self.serving]
            .into_iter()
            .try_for_each(|cell| cell.traverse(visit))
    }

    fn clear(&self, py: Attached<'_>) {
        self.transport.clear(py);
        self.serving.clear(py);
    }
}

pub(crate) type This<'a> = Instance<'a, Connection>;

impl Class for Connection {
    const NAME: &'static CStr = c"erlang._web.Connection";
    const DOC: &'static CStr = c"The protocol of a connection.";
    const METHODS: &'static [Method<Self>] = &[
        Method::one(
            c"connection_made",
            Self::connection_made,
            c"connection_made($self, transport, /)\n--\n\n",
        ),
        Method::one(c"data_received", Self::data_received, c"data_received($self, data, /)\n--\n\n"),
        Method::<Self>::noargs(c"eof_received", |_, _| Ok(false), c"eof_received($self)\n--\n\n"),
        Method::one(c"connection_lost", Self::connection_lost, c"connection_lost($self, exc, /)\n--\n\n"),
        Method::<Self>::noargs(c"pause_writing", Self::pause_writing, c"pause_writing($self)\n--\n\n"),
        Method::<Self>::noargs(c"resume_writing", Self::resume_writing, c"resume_writing($self)\n--\n\n"),
        Method::<Self>::noargs(c"pump", Self::pump, c"pump($self)\n--\n\nServes what waits."),
        Method::<Self>::noargs(c"expire", Self::expire, c"expire($self)\n--\n\nIts time is over."),
        Method::<Self>::noargs(
            c"shutdown",
            Self::shutdown,
            c"shutdown($self)\n--\n\nServes no further request.",
        ),
        Method::<Self>::noargs(
            c"cancel",
            Self::cancel,
            c"cancel($self)\n--\n\nCancels what is served, and closes.",
        ),
        Method::END,
    ];
    const PROPERTIES: &'static [Property<Self>] = &[
        Property::<Self>::read(c"deadline", |_, this| Ok(this.deadline.load(Relaxed) as f64 / 1e9), c""),
        Property::<Self>::read(c"is_busy", |py, this| Ok(this.serving.is_set(py)), c""),
        Property::END,
    ];
}

/// What a connection serves.
pub(crate) enum Serving<'a> {
    Exchange(Instance<'a, Exchange>),
    Socket(Instance<'a, Socket>),
}

impl Connection {
    pub(crate) fn new(site: Typed<Site>) -> Self {
        let no = || AtomicBool::new(false);
        Self {
            site,
            transport: ObjCell::empty(),
            client: ObjCell::empty(),
            server: ObjCell::empty(),
            scope: ObjCell::empty(),
            serving: ObjCell::empty(),
            wire: Guarded::default(),
            deadline: AtomicU64::new(0),
            is_full: no(),
            is_gone: no(),
            is_last: no(),
            is_shut: no(),
            is_pumping: no(),
            is_paused: no(),
        }
    }

    fn connection_made(py: Attached<'_>, this: This<'_>, transport: Borrowed<'_>) -> PyResult<()> {
        let (names, texts) = (&this.site.web.names, &this.site.web.texts);
        for (cell, name) in [(&this.client, &texts.peername), (&this.server, &texts.sockname)] {
            cell.set(py, address(py, transport.call_method1(py, &names.get_extra_info, name)?)?);
        }
        this.transport.set(py, transport.clone_ref(py));
        this.site.connections.call_method1(py, &names.add, &this.object())?;
        this.deadline.store(this.site.after(this.site.for_head), Relaxed);
        Ok(())
    }

    fn connection_lost(py: Attached<'_>, this: This<'_>, _exception: Borrowed<'_>) -> PyResult<()> {
        this.is_gone.store(true, Relaxed);
        this.deadline.store(0, Relaxed);
        this.site.connections.call_method1(py, &this.site.web.names.discard, &this.object())?;
        drop(this.transport.take(py));
        let Some(object) = this.serving.take(py) else { return Ok(()) };
        match this.kind_of(&object) {
            Some(Serving::Exchange(exchange)) => exchange.disconnect(py),
            Some(Serving::Socket(socket)) => socket.disconnect(py),
            None => Ok(()),
        }
    }

    pub(crate) fn kind_of<'a>(&self, object: &'a Owned) -> Option<Serving<'a>> {
        let web = &self.site.web;
        let exchange = web.exchange.downcast(object.borrow()).map(Serving::Exchange);
        exchange.or_else(|| web.socket.downcast(object.borrow()).map(Serving::Socket))
    }

    pub(crate) fn client(&self, py: Attached<'_>) -> Owned {
        self.client.get(py).unwrap_or_else(|| Owned::none(py))
    }

    pub(crate) fn server(&self, py: Attached<'_>) -> Owned {
        self.server.get(py).unwrap_or_else(|| Owned::none(py))
    }

    /// What its scopes have alike, made for the first one.
    pub(crate) fn common_scope(
        &self,
        py: Attached<'_>,
        make: impl FnOnce() -> PyResult<Owned>,
    ) -> PyResult<Owned> {
        if let Some(scope) = self.scope.get(py) {
            return Ok(scope);
        }
        let scope = make()?;
        self.scope.set(py, scope.clone_ref(py));
        Ok(scope)
    }

    fn data_received(py: Attached<'_>, this: This<'_>, data: Borrowed<'_>) -> PyResult<()> {
        if this.is_shut.load(Relaxed) {
            return Ok(());
        }
        let bytes = data.to_bytes(py)?;
        if let Some(object) = this.serving.get(py)
            && let Some(Serving::Socket(socket)) = this.kind_of(&object)
        {
            return socket.feed(py, socket, bytes);
        }
        this.wire.with(py, |wire| wire.buffer.extend_from_slice(bytes))?;
        Self::pump(py, this)
    }

    /// Serves what is there. To be called on the loop's thread, and not by a task: requests are begun here.
    pub(crate) fn pump(py: Attached<'_>, this: This<'_>) -> PyResult<()> {
        if this.is_pumping.swap(true, Relaxed) {
            return Ok(());
        }
        let pumped = this.turn(py, this);
        this.is_pumping.store(false, Relaxed);
        pumped
    }

    fn turn(&self, py: Attached<'_>, this: This<'_>) -> PyResult<()> {
        loop {
            if self.is_shut.load(Relaxed) || self.is_gone.load(Relaxed) {
                return Ok(());
            }
            let more = match self.serving.get(py) {
                None => self.begin(py, this)?,
                Some(object) => match self.kind_of(&object) {
                    Some(Serving::Exchange(exchange)) => self.go_on(py, exchange)?,
                    _ => false,
                },
            };
            if !more {
                return self.flow(py);
            }
        }
    }

    /// Begins the next request, if its head is there.
    fn begin(&self, py: Attached<'_>, this: This<'_>) -> PyResult<bool> {
        let buffer = self.take_buffer(py)?;
        if buffer.is_empty() {
            self.give_buffer(py, buffer, 0)?;
            self.rest(py)?;
            return Ok(false);
        }
        let read = head::read(&buffer, &self.site.limits, |head| {
            let offer = head.facts.upgrade.then(|| Offer::of(head));
            scope::new(py, self, head, offer.is_some()).map(|scope| (scope, head.facts, offer))
        });
        match read {
            Read::Partial => {
                self.give_buffer(py, buffer, 0)?;
                if !self.wire.with(py, |wire| std::mem::replace(&mut wire.begun, true))? {
                    self.deadline.store(self.site.after(self.site.for_head), Relaxed);
                }
                Ok(false)
            }
            Read::Refused(refusal) => {
                self.refuse(py, refusal.0, &[])?;
                Ok(false)
            }
            Read::Whole(made, length) => {
                self.give_buffer(py, buffer, length)?;
                self.wire.with(py, |wire| wire.begun = false)?;
                self.deadline.store(0, Relaxed);
                let (scope, facts, offer) = made?;
                match offer {
                    Some(offer) => Socket::open(py, this, offer, scope),
                    None => self.serve(py, this, facts, scope).map(|()| true),
                }
            }
        }
    }

    fn serve(&self, py: Attached<'_>, this: This<'_>, facts: Facts, scope: Owned) -> PyResult<()> {
        let body = Body::new(facts.framing, self.site.limits.body);
        let is_over = body.is_over();
        let exchange =
            self.site.web.exchange.create(py, Exchange::new(this.clone_ref(py), facts, is_over))?;
        self.serving.set(py, exchange.object().clone_ref(py));
        if !is_over {
            self.wire.with(py, |wire| wire.body = Some(body))?;
            self.feed(py, exchange.instance())?;
        }
        Exchange::start(py, exchange.instance(), scope)
    }

    /// Makes a WebSocket what is served.
    pub(crate) fn serve_socket(&self, py: Attached<'_>, socket: &Typed<Socket>) -> PyResult<Vec<u8>> {
        self.serving.set(py, socket.object().clone_ref(py));
        self.take_buffer(py)
    }

    /// More of the body, or the end of the exchange. Whether the next request may come.
    fn go_on(&self, py: Attached<'_>, exchange: Instance<'_, Exchange>) -> PyResult<bool> {
        self.feed(py, exchange)?;
        let has_body = self.wire.with(py, |wire| wire.body.is_some())?;
        if !exchange.is_ended(py)? || has_body {
            return Ok(false);
        }
        self.retire(py, exchange)
    }

    /// The exchange is over on both sides.
    fn retire(&self, py: Attached<'_>, exchange: Instance<'_, Exchange>) -> PyResult<bool> {
        drop(self.serving.take(py));
        if self.is_last.load(Relaxed) || !exchange.keeps_alive(py)? {
            self.close(py)?;
            return Ok(false);
        }
        Ok(true)
    }

    /// The response is complete. Within `pump` that is seen to there.
    pub(crate) fn ended(
        &self,
        py: Attached<'_>,
        this: This<'_>,
        exchange: Instance<'_, Exchange>,
    ) -> PyResult<()> {
        if self.is_pumping.load(Relaxed) || self.is_gone.load(Relaxed) {
            return Ok(());
        }
        let waits = self.wire.with(py, |wire| wire.body.is_some() || !wire.buffer.is_empty())?;
        if waits {
            // Not by the task that is at it.
            return self.soon(py, this);
        }
        if !self.retire(py, exchange)? {
            return Ok(());
        }
        self.rest(py)?;
        self.flow(py)
    }

    fn soon(&self, py: Attached<'_>, this: This<'_>) -> PyResult<()> {
        let pump = this.object().getattr_str(py, c"pump")?;
        self.site.owner.call_method1(py, &self.site.web.names.call_soon, &pump).map(drop)
    }

    pub(crate) fn write(&self, py: Attached<'_>, data: &Owned) -> PyResult<()> {
        match self.transport.get(py) {
            Some(transport) => transport.call_method1(py, &self.site.web.names.write, data).map(drop),
            None => Ok(()),
        }
    }

    fn pause_writing(_py: Attached<'_>, this: This<'_>) -> PyResult<()> {
        this.is_full.store(true, Relaxed);
        Ok(())
    }

    fn resume_writing(py: Attached<'_>, this: This<'_>) -> PyResult<()> {
        this.is_full.store(false, Relaxed);
        let Some(object) = this.serving.get(py) else { return Ok(()) };
        match this.kind_of(&object) {
            Some(Serving::Exchange(exchange)) => exchange.waiters.wake(py, &this.site),
            Some(Serving::Socket(socket)) => socket.waiters.wake(py, &this.site),
            None => Ok(()),
        }
    }

    /// What is served, if anything.
    pub(crate) fn serving(&self, py: Attached<'_>) -> Option<Owned> {
        self.serving.get(py)
    }
}

/// Host and port of a socket's name; the path of a Unix socket.
fn address(py: Attached<'_>, name: Owned) -> PyResult<Owned> {
    if name.is_tuple()
        && let [host, port, ..] = name.as_tuple(py)?
    {
        return Owned::tuple_of(py, &[*host, *port]);
    }
    if name.is_str() && name.is_true(py)? {
        return Owned::tuple(py, [name, Owned::none(py)]);
    }
    Ok(Owned::none(py))
}
