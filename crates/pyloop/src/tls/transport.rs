//! `SslTransport`: what the application holds of a TLS connection. An `asyncio.Transport`.

use std::ffi::CStr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use pyrt::{
    Args, Attached, Borrowed, Class, Guarded, Instance, Kind, Method, Offset, Owned, Property, PyResult,
    Signature, Traverse, TypeSlot, Typed, Visit, Visited, WeakSlot, confined, offset, warn,
};

use super::limits::Limits;
use super::part::{Import, Part};
use super::protocol::SslProtocol;

/// The upper side of a TLS connection.
pub(crate) struct SslTransport {
    /// Let go of by a second `close()`, as the stdlib does: an application that keeps its transport makes no cycle then.
    ssl: Guarded<Option<Typed<SslProtocol>>>,
    closed: AtomicBool,
    weak: WeakSlot,
}

confined!(SslTransport { ssl, closed, weak });

impl Traverse for SslTransport {
    fn traverse(&self, visit: &mut Visit<'_>) -> Visited {
        self.ssl.traverse(visit)
    }

    fn clear(&self, py: Attached<'_>) {
        self.ssl.clear(py);
    }
}

pub(super) const LIMITS: Signature<2> =
    Signature::method("_SSLProtocolTransport.set_write_buffer_limits", ["high", "low"]).required(0);
const EXTRA: Signature<2> =
    Signature::method("_SSLProtocolTransport.get_extra_info", ["name", "default"]).required(1);

impl Class for SslTransport {
    const NAME: &'static CStr = c"erlang._native.SSLTransport";
    const DOC: &'static CStr = c"What an application holds of a TLS connection.";
    const BASE_SLOTS: usize = 5;
    const WEAKREFS: Option<Offset<Self, WeakSlot>> = Some(offset!(SslTransport, weak));
    const METHODS: &'static [Method<Self>] = &[
        Method::one(c"write", Self::write, c"write($self, data, /)\n--\n\nWrites some data; never blocks."),
        Method::<Self>::one(
            c"writelines",
            |py, this, list| this.with(py, (), |ssl| SslProtocol::write_all(py, ssl.instance(), list)),
            c"writelines($self, list_of_data, /)\n--\n\nWrites an iterable of data.",
        ),
        Method::<Self>::noargs(
            c"write_eof",
            |py, _this| -> PyResult<()> { Err(Kind::NotImplementedError.raise(py, "")) },
            c"write_eof($self)\n--\n\nTLS cannot close one direction.",
        ),
        Method::<Self>::noargs(
            c"can_write_eof",
            |_, _| Ok(false),
            c"can_write_eof($self)\n--\n\nFalse: TLS cannot close one direction.",
        ),
        Method::noargs(c"close", Self::close, c"close($self)\n--\n\nCloses when all is sent."),
        Method::<Self>::noargs(
            c"abort",
            |py, this| this.force_close(py, None),
            c"abort($self)\n--\n\nCloses at once.",
        ),
        Method::<Self>::one(
            c"_force_close",
            |py, this, reason| this.force_close(py, (!reason.is_none()).then_some(reason)),
            c"_force_close($self, exc, /)\n--\n\n",
        ),
        Method::<Self>::noargs(
            c"is_closing",
            |_, this| Ok(this.closed.load(Relaxed)),
            c"is_closing($self)\n--\n\nWhether it is closed or about to be.",
        ),
        Method::<Self>::noargs(
            c"is_reading",
            |py, this| this.with(py, false, |ssl| Ok(!ssl.phases.app_paused.load(Relaxed))),
            c"is_reading($self)\n--\n\nWhether data is handed to the protocol.",
        ),
        Method::<Self>::noargs(
            c"pause_reading",
            |py, this| {
                this.with(py, (), |ssl| {
                    ssl.phases.app_paused.store(true, Relaxed);
                    Ok(())
                })
            },
            c"pause_reading($self)\n--\n\nNo data until resume_reading().",
        ),
        Method::<Self>::noargs(
            c"resume_reading",
            |py, this| this.with(py, (), |ssl| SslProtocol::resume_reading(py, ssl.instance())),
            c"resume_reading($self)\n--\n\nData is welcome again.",
        ),
        Method::fast(
            c"get_extra_info",
            Self::get_extra_info,
            c"get_extra_info($self, name, default=None)\n--\n\nFacts about the connection.",
        ),
        Method::<Self>::one(
            c"set_protocol",
            |py, this, protocol| this.with(py, (), |ssl| ssl.app.set(py, ssl.part(), protocol)),
            c"set_protocol($self, protocol, /)\n--\n\nWho is given the data.",
        ),
        Method::<Self>::noargs(
            c"get_protocol",
            |py, this| this.with(py, None, |ssl| Ok(ssl.app.get(py))),
            c"get_protocol($self)\n--\n\nWho is given the data.",
        ),
        Method::fast(
            c"set_write_buffer_limits",
            Self::set_write_limits,
            c"set_write_buffer_limits($self, high=None, low=None)\n--\n\nWhen the protocol is told to pause.",
        ),
        Method::<Self>::noargs(
            c"get_write_buffer_limits",
            |py, this| this.with(py, None, |ssl| ssl.outgoing.get(py).map(Some)),
            c"get_write_buffer_limits($self)\n--\n\nThe low and the high mark.",
        ),
        Method::noargs(
            c"get_write_buffer_size",
            Self::write_buffer_size,
            c"get_write_buffer_size($self)\n--\n\nHow much waits to be sent.",
        ),
        Method::fast(
            c"set_read_buffer_limits",
            Self::set_read_limits,
            c"set_read_buffer_limits($self, high=None, low=None)\n--\n\nWhen the transport below pauses.",
        ),
        Method::<Self>::noargs(
            c"get_read_buffer_limits",
            |py, this| this.with(py, None, |ssl| ssl.incoming.get(py).map(Some)),
            c"get_read_buffer_limits($self)\n--\n\nThe low and the high mark.",
        ),
        Method::<Self>::noargs(
            c"get_read_buffer_size",
            |py, this| this.with(py, 0, |ssl| ssl.engine.pending_in(py, ssl.part()).map(|size| size as i64)),
            c"get_read_buffer_size($self)\n--\n\nHow much waits to be decrypted.",
        ),
        Method::one(
            c"_test__append_write_backlog",
            Self::append_for_test,
            c"_test__append_write_backlog($self, data, /)\n--\n\n",
        ),
        Method::END,
    ];
    const PROPERTIES: &'static [Property<Self>] = &[
        Property::<Self>::read(c"_ssl_protocol", |py, this| this.ssl(py), c""),
        Property::<Self>::read(
            c"_loop",
            |py, this| this.with(py, None, |ssl| Ok(Some(ssl.owner.clone_ref(py)))),
            c"",
        ),
        Property::<Self>::read(c"_closed", |_, this| Ok(this.closed.load(Relaxed)), c""),
        Property::<Self>::read(
            c"_protocol_paused",
            |py, this| this.with(py, false, |ssl| Ok(ssl.phases.app_full.load(Relaxed))),
            c"Whether the protocol was told to pause writing.",
        ),
        Property::<Self>::read(c"_start_tls_compatible", |_, _| Ok(true), c""),
        Property::END,
    ];
    const SLOTS: &'static [TypeSlot<Self>] = &[TypeSlot::finalize(Self::finalize)];
}

impl SslTransport {
    pub(super) fn new(ssl: Typed<SslProtocol>) -> Self {
        Self { ssl: Guarded::new(Some(ssl)), closed: AtomicBool::new(false), weak: WeakSlot::new() }
    }

    /// Nobody needs to close it any more.
    pub(super) fn mark_closed(&self) {
        self.closed.store(true, Relaxed);
    }

    fn ssl(&self, py: Attached<'_>) -> PyResult<Option<Typed<SslProtocol>>> {
        self.ssl.with(py, |ssl| ssl.as_ref().map(|ssl| ssl.clone_ref(py)))
    }

    /// Does something with the connection; nothing, with that answer, if it was let go of.
    #[inline]
    fn with<R>(
        &self,
        py: Attached<'_>,
        gone: R,
        f: impl FnOnce(&Typed<SslProtocol>) -> PyResult<R>,
    ) -> PyResult<R> {
        match self.ssl(py)? {
            Some(ssl) => f(&ssl),
            None => Ok(gone),
        }
    }

    #[inline]
    fn write(py: Attached<'_>, this: Instance<'_, Self>, data: Borrowed<'_>) -> PyResult<()> {
        this.with(py, (), |ssl| {
            if !data.is_bytes() {
                check_data(py, ssl.part(), data)?;
            }
            if data.len(py)? == 0 {
                return Ok(());
            }
            SslProtocol::write(py, ssl.instance(), data)
        })
    }

    fn close(py: Attached<'_>, this: Instance<'_, Self>) -> PyResult<()> {
        if this.closed.swap(true, Relaxed) {
            drop(this.ssl.with(py, Option::take)?);
            return Ok(());
        }
        this.with(py, (), |ssl| SslProtocol::start_shutdown(py, ssl.instance()))
    }

    fn force_close(&self, py: Attached<'_>, reason: Option<Borrowed<'_>>) -> PyResult<()> {
        self.mark_closed();
        self.with(py, (), |ssl| ssl.abort(py, reason))
    }

    fn get_extra_info(py: Attached<'_>, this: Instance<'_, Self>, args: Args<'_>) -> PyResult<Owned> {
        let [Some(name), default] = EXTRA.parse(py, &args)? else { return Ok(Owned::none(py)) };
        let default = default.unwrap_or(Borrowed::none(py));
        let Some(ssl) = this.ssl(py)? else { return Ok(default.clone_ref(py)) };
        if let Some(found) = ssl.extra.dict_get(py, &name)? {
            return Ok(found);
        }
        match ssl.wire.get(py) {
            Some(wire) => wire.call_method(py, &ssl.part().names.get_extra_info, [name, default]),
            None => Ok(default.clone_ref(py)),
        }
    }

    fn set_write_limits(py: Attached<'_>, this: Instance<'_, Self>, args: Args<'_>) -> PyResult<()> {
        this.with(py, (), |ssl| {
            set_limits(py, ssl.part(), &ssl.outgoing, args, 512)?;
            ssl.flush_unseen(py)?;
            SslProtocol::control_app_writing(py, ssl.instance())
        })
    }

    fn set_read_limits(py: Attached<'_>, this: Instance<'_, Self>, args: Args<'_>) -> PyResult<()> {
        this.with(py, (), |ssl| {
            set_limits(py, ssl.part(), &ssl.incoming, args, 256)?;
            ssl.control_wire_reading(py)
        })
    }

    fn write_buffer_size(py: Attached<'_>, this: Instance<'_, Self>) -> PyResult<i64> {
        this.with(py, 0, |ssl| {
            ssl.flush_unseen(py)?;
            ssl.buffered(py).map(|size| size as i64)
        })
    }

    fn append_for_test(py: Attached<'_>, this: Instance<'_, Self>, data: Borrowed<'_>) -> PyResult<()> {
        let size = data.len(py)?;
        this.with(py, (), |ssl| ssl.append(py, data, size))
    }

    fn finalize(py: Attached<'_>, this: Instance<'_, Self>) -> PyResult<()> {
        if this.closed.swap(true, Relaxed) {
            return Ok(());
        }
        let text = c"unclosed transport <asyncio._SSLProtocolTransport object>";
        warn(py, Kind::ResourceWarning, text, 1)
    }
}

/// Sets water marks to what the stdlib makes of the arguments.
fn set_limits(py: Attached<'_>, part: &Part, limits: &Limits, args: Args<'_>, kib: i64) -> PyResult<()> {
    let [high, low] = part.limits.parse(py, &args)?;
    let none = Borrowed::none(py);
    let kib = Owned::int(py, kib)?;
    let defaults = part.import(py, Import::FlowDefaults)?;
    let checked = defaults.call(py, [high.unwrap_or(none), low.unwrap_or(none), kib.borrow()])?;
    match checked.as_tuple(py)? {
        [high, low] => limits.set(py, high.clone_ref(py), low.clone_ref(py)),
        _ => Ok(()),
    }
}

/// Refuses what is no bytes, bytearray or memoryview.
fn check_data(py: Attached<'_>, part: &Part, data: Borrowed<'_>) -> PyResult<()> {
    for class in [Import::MemoryView, Import::ByteArray] {
        let class = part.import(py, class)?;
        if data.class(py).is(&class) {
            return Ok(());
        }
    }
    part.import(py, Import::IsData)?.call1(py, &data).map(drop)
}
