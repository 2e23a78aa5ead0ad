//! `SslProtocol`: the class. A `BufferedProtocol` towards the transport below, made wherever asyncio makes its own.

use std::ffi::CStr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use pyrt::{
    Args, Attached, Borrowed, Class, Fixed, Guarded, Instance, Kind, Method, ObjCell, Offset, Owned,
    Property, PyResult, Raised, Signature, StateRef, Traverse, TypeSlot, Typed, Visit, Visited, WeakSlot,
    confined, import_from, offset,
};

use super::app::App;
use super::engine::Engine;
use super::framing::Framing;
use super::limits::Limits;
use super::outgoing::Backlog;
use super::part::{Import, Part};
use super::phase::{AppPhase, Phases};
use super::transport::SslTransport;
use super::wire::Wire;
use crate::event_loop::Loop;
use crate::module::{MODULE, Native};

/// A TLS connection.
pub(crate) struct SslProtocol {
    pub(super) native: StateRef<Native>,
    pub(super) owner: Typed<Loop>,
    pub(super) engine: Engine,
    pub(super) extra: Fixed,
    pub(super) app: App,
    pub(super) wire: Wire,
    pub(super) phases: Phases,
    pub(super) framing: Guarded<Framing>,
    pub(super) backlog: Guarded<Backlog>,
    pub(super) incoming: Limits,
    pub(super) outgoing: Limits,
    pub(super) waiter: ObjCell,
    pub(super) handshake: Timeout,
    pub(super) shutdown: Timeout,
    /// A buffer of its own, for when the shared one is in use.
    pub(super) buffer: ObjCell,
    transport: ObjCell,
    transport_made: AtomicBool,
    weak: WeakSlot,
}

/// How long something may take, and the timer while it does.
pub(super) struct Timeout {
    pub(super) seconds: Fixed,
    pub(super) timer: ObjCell,
}

confined!(Timeout { seconds, timer });

confined!(SslProtocol {
    native,
    owner,
    engine,
    extra,
    app,
    wire,
    phases,
    framing,
    backlog,
    incoming,
    outgoing,
    waiter,
    handshake,
    shutdown,
    buffer,
    transport,
    transport_made,
    weak
});

impl Traverse for SslProtocol {
    fn traverse(&self, visit: &mut Visit<'_>) -> Visited {
        self.native.traverse(visit)?;
        self.owner.traverse(visit)?;
        self.engine.traverse(visit)?;
        self.extra.traverse(visit)?;
        self.app.traverse(visit)?;
        self.wire.traverse(visit)?;
        self.backlog.traverse(visit)?;
        self.waiter.traverse(visit)?;
        self.handshake.timer.traverse(visit)?;
        self.shutdown.timer.traverse(visit)?;
        self.transport.traverse(visit)
    }

    fn clear(&self, py: Attached<'_>) {
        self.app.clear(py);
        self.wire.clear(py);
        self.backlog.clear(py);
        self.waiter.clear(py);
        self.handshake.timer.clear(py);
        self.shutdown.timer.clear(py);
        self.transport.clear(py);
    }
}

pub(super) const NEW: Signature<9> = Signature::method(
    "SSLProtocol.__init__",
    [
        "loop",
        "app_protocol",
        "sslcontext",
        "waiter",
        "server_side",
        "server_hostname",
        "call_connection_made",
        "ssl_handshake_timeout",
        "ssl_shutdown_timeout",
    ],
)
.required(4);

impl Class for SslProtocol {
    const NAME: &'static CStr = c"erlang._native.SSLProtocol";
    const DOC: &'static CStr = c"TLS between a transport and a protocol.";
    const WEAKREFS: Option<Offset<Self, WeakSlot>> = Some(offset!(SslProtocol, weak));
    const METHODS: &'static [Method<Self>] = &[
        Method::one(
            c"connection_made",
            Self::connection_made,
            c"connection_made($self, transport, /)\n--\n\n",
        ),
        Method::one(c"connection_lost", Self::connection_lost, c"connection_lost($self, exc, /)\n--\n\n"),
        Method::one(c"get_buffer", Self::get_buffer, c"get_buffer($self, sizehint, /)\n--\n\n"),
        Method::one(c"buffer_updated", Self::buffer_updated, c"buffer_updated($self, nbytes, /)\n--\n\n"),
        Method::noargs(c"eof_received", Self::eof_received, c"eof_received($self)\n--\n\n"),
        Method::noargs(c"pause_writing", Self::pause_writing, c"pause_writing($self)\n--\n\n"),
        Method::noargs(c"resume_writing", Self::resume_writing, c"resume_writing($self)\n--\n\n"),
        Method::<Self>::noargs(
            c"_do_read",
            |py, this| Self::do_read(py, this, false),
            c"_do_read($self)\n--\n\n",
        ),
        Method::noargs(c"_resume", Self::resume, c"_resume($self)\n--\n\n"),
        Method::noargs(
            c"_check_handshake_timeout",
            Self::check_handshake_timeout,
            c"_check_handshake_timeout($self)\n--\n\n",
        ),
        Method::noargs(
            c"_check_shutdown_timeout",
            Self::check_shutdown_timeout,
            c"_check_shutdown_timeout($self)\n--\n\n",
        ),
        Method::END,
    ];
    const PROPERTIES: &'static [Property<Self>] = &[
        Property::read(c"_app_transport", Self::transport, c"What the application holds."),
        Property::<Self>::read(c"_app_protocol", |py, this| Ok(this.app.get(py)), c""),
        Property::<Self>::read(c"_transport", |py, this| Ok(this.wire.get(py)), c"The transport below."),
        Property::<Self>::read(c"_loop", |py, this| Ok(this.owner.clone_ref(py)), c""),
        Property::<Self>::read(c"_sslobj", |py, this| Ok(this.engine.object.clone_ref(py)), c""),
        Property::<Self>::read(
            c"_sslcontext",
            |py, this| this.extra.dict_get(py, &this.part().names.sslcontext),
            c"Users of asyncio look for it here.",
        ),
        Property::<Self>::read(
            c"_own_bio",
            |_, this| Ok(this.engine.line().is_some()),
            c"Whether OpenSSL reads and writes without memory BIOs.",
        ),
        Property::<Self>::read(
            c"_direct",
            |py, this| Ok(this.engine.is_direct(py)),
            c"Whether data passes the SSL object by, as nobody else has that.",
        ),
        Property::<Self>::read(c"_extra", |py, this| Ok(this.extra.clone_ref(py)), c""),
        Property::<Self>::read(
            c"_state",
            |py, this| Owned::str(py, this.phases.get().name()),
            c"The name of the state it is in.",
        ),
        Property::END,
    ];
    const SLOTS: &'static [TypeSlot<Self>] = &[TypeSlot::new(Self::new)];
}

impl SslProtocol {
    fn new(py: Attached<'_>, class: Borrowed<'_>, args: Args<'_>) -> PyResult<Self> {
        let native = MODULE.state_ref(py, &class)?;
        let part = &native.tls;
        let [Some(owner), Some(app), Some(context), Some(waiter), side, hostname, made, handshake, shutdown] =
            part.new.parse(py, &args)?
        else {
            return Err(pyrt::Fault::system("a required argument was lost").raise(py));
        };
        let owner = native.event_loop.expect(py, owner)?.clone_ref(py);
        let handshake = timeout(py, handshake, "ssl_handshake_timeout", c"SSL_HANDSHAKE_TIMEOUT")?;
        let shutdown = timeout(py, shutdown, "ssl_shutdown_timeout", c"SSL_SHUTDOWN_TIMEOUT")?;
        let none = Borrowed::none(py);
        let is_server = side.map_or(Ok(false), |side| side.is_true(py))?;
        let hostname = hostname.unwrap_or(none);
        let context = if context.is_true(py)? {
            context.clone_ref(py)
        } else {
            let side = Owned::bool(py, is_server);
            part.import(py, Import::DefaultContext)?.call(py, [side.borrow(), hostname])?
        };
        let hostname = if !is_server && hostname.is_true(py)? { hostname } else { none };
        let side = Owned::bool(py, is_server);
        let engine = Engine::new(py, part, context.borrow(), side.borrow(), hostname)?;
        let extra = Owned::dict(py)?;
        extra.dict_set(py, &part.names.sslcontext, &context)?;
        let made = made.map_or(Ok(true), |made| made.is_true(py))?;
        let this = Self {
            owner,
            framing: Guarded::new(if engine.is_plain { Framing::default() } else { Framing::lost() }),
            engine,
            extra: extra.into(),
            app: App::default(),
            wire: Wire::default(),
            phases: Phases::new(if made { AppPhase::Init } else { AppPhase::Made }),
            backlog: Guarded::default(),
            incoming: Limits::new(256),
            outgoing: Limits::new(512),
            waiter: if waiter.is_none() { ObjCell::empty() } else { ObjCell::new(waiter.clone_ref(py)) },
            handshake,
            shutdown,
            buffer: ObjCell::empty(),
            transport: ObjCell::empty(),
            transport_made: AtomicBool::new(false),
            weak: WeakSlot::new(),
            native,
        };
        this.app.set(py, this.part(), app)?;
        Ok(this)
    }

    /// What TLS has in the state of the module.
    #[inline]
    pub(super) fn part(&self) -> &Part {
        &self.native.tls
    }

    /// What the application holds: made when first asked for, and let go of when the connection is lost.
    pub(super) fn transport(py: Attached<'_>, this: Instance<'_, Self>) -> PyResult<Option<Owned>> {
        if !this.transport_made.swap(true, Relaxed) {
            let made = this.part().transport.create(py, SslTransport::new(this.clone_ref(py)))?;
            this.transport.set(py, made.into_object());
        }
        Ok(this.transport.get(py))
    }

    /// Marks what the application holds as closed.
    pub(super) fn close_transport(&self, py: Attached<'_>) {
        if let Some(transport) = self.transport.get(py) {
            if let Some(transport) = self.part().transport.downcast(transport.borrow()) {
                transport.mark_closed();
            }
        }
    }

    fn connection_made(py: Attached<'_>, this: Instance<'_, Self>, transport: Borrowed<'_>) -> PyResult<()> {
        this.wire.set(py, transport);
        Self::start_handshake(py, this)
    }

    fn connection_lost(py: Attached<'_>, this: Instance<'_, Self>, reason: Borrowed<'_>) -> PyResult<()> {
        let names = &this.part().names;
        drop(this.backlog.with(py, std::mem::take)?);
        drop(this.engine.take(py)?);
        this.phases.late.fetch_add(1, Relaxed);
        this.owner.tls.forgets(this.object());
        this.close_transport(py);

        let (phase, app_phase) = (this.phases.get(), this.phases.app());
        if phase != super::phase::Phase::Handshake && matches!(app_phase, AppPhase::Made | AppPhase::Eof) {
            this.phases.set_app(AppPhase::Lost);
            if let Some(app) = this.app.get(py) {
                let told = app.getattr(py, &names.connection_lost)?;
                this.call_soon(py, told.borrow(), &[reason])?;
            }
        }
        this.phases.unwrap();
        this.wire.forget(py);
        drop(this.transport.take(py));
        // Even one that is made from now on would have nobody to tell it that the connection is over.
        this.transport_made.store(true, Relaxed);
        this.app.forget(py);
        drop(this.buffer.take(py));
        this.wake_waiter(py, (!reason.is_none()).then_some(reason))?;
        this.cancel(py, &this.shutdown)?;
        this.cancel(py, &this.handshake)
    }

    pub(super) fn wake_waiter(&self, py: Attached<'_>, failure: Option<Borrowed<'_>>) -> PyResult<()> {
        let names = &self.part().names;
        let Some(waiter) = self.waiter.take(py) else { return Ok(()) };
        if waiter.call_method0(py, &names.cancelled)?.is_true(py)? {
            return Ok(());
        }
        let (name, value) = match failure {
            Some(failure) => (&names.set_exception, failure),
            None => (&names.set_result, Borrowed::none(py)),
        };
        waiter.call_method1(py, name, &value).map(drop)
    }

    /// `loop.call_soon(callback, *args)`.
    pub(super) fn call_soon(
        &self,
        py: Attached<'_>,
        callback: Borrowed<'_>,
        args: &[Borrowed<'_>],
    ) -> PyResult<()> {
        let call_soon = self.owner.object().getattr(py, &self.part().names.call_soon)?;
        let all: Vec<Borrowed<'_>> = std::iter::once(callback).chain(args.iter().copied()).collect();
        call_soon.call_slice(py, &all).map(drop)
    }

    /// Starts a timeout that calls a method of this object.
    pub(super) fn start_timer(
        py: Attached<'_>,
        this: Instance<'_, Self>,
        timeout: &Timeout,
        method: &Fixed,
    ) -> PyResult<()> {
        let callback = this.object().getattr(py, method)?;
        let args = [timeout.seconds.borrow(), callback.borrow()];
        let timer = this.owner.object().call_method(py, &this.part().names.call_later, args)?;
        timeout.timer.set(py, timer);
        Ok(())
    }

    pub(super) fn cancel(&self, py: Attached<'_>, timeout: &Timeout) -> PyResult<()> {
        match timeout.timer.take(py) {
            Some(timer) => timer.call_method0(py, &self.part().names.cancel).map(drop),
            None => Ok(()),
        }
    }

    /// An error that ends the connection.
    #[cold]
    pub(super) fn fatal(
        py: Attached<'_>,
        this: Instance<'_, Self>,
        exception: Borrowed<'_>,
        message: &CStr,
    ) -> PyResult<()> {
        this.flush_unseen(py)?;
        let wire = this.wire.get(py);
        this.wire.force_close(py, this.part(), Some(exception))?;
        let message = Owned::interned(py, message)?;
        let wire = wire.unwrap_or_else(|| Owned::none(py));
        let report = this.part().import(py, Import::Report)?;
        report.call(py, [this.object(), wire.borrow(), exception, message.borrow()]).map(drop)
    }

    /// [`fatal`](Self::fatal) for what an `except Exception` would catch; the rest is passed on.
    #[cold]
    pub(super) fn failed(
        py: Attached<'_>,
        this: Instance<'_, Self>,
        raised: Raised,
        message: &CStr,
    ) -> PyResult<()> {
        if !raised.matches(py, &Kind::Exception.class(py)) {
            return Err(raised);
        }
        let exception = raised.take(py);
        Self::fatal(py, this, exception.value(), message)
    }
}

/// A timeout as given, or asyncio's default; what is not above zero is refused.
fn timeout(py: Attached<'_>, given: Option<Borrowed<'_>>, name: &str, default: &CStr) -> PyResult<Timeout> {
    let seconds = match given.filter(|given| !given.is_none()) {
        None => import_from(py, c"asyncio.constants", default)?,
        Some(given) => {
            if given.to_f64(py)? <= 0.0 {
                let text = given.str(py)?.to_string_lossy(py)?;
                let text = format!("{name} should be a positive number, got {text}");
                return Err(Kind::ValueError.raise(py, &text));
            }
            given.clone_ref(py)
        }
    };
    Ok(Timeout { seconds: seconds.into(), timer: ObjCell::empty() })
}
