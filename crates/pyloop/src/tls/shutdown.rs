//! The end of a connection: by `close()`, by EOF, by `abort()` or by a timeout.

use std::sync::atomic::Ordering::Relaxed;

use pyrt::{Attached, Borrowed, Instance, Kind, Owned, PyResult};

use super::part::Import;
use super::phase::{AppPhase, Phase};
use super::protocol::SslProtocol;

impl SslProtocol {
    pub(super) fn start_shutdown(py: Attached<'_>, this: Instance<'_, Self>) -> PyResult<()> {
        match this.phases.get() {
            Phase::Flushing | Phase::Shutdown | Phase::Unwrapped => Ok(()),
            Phase::Handshake => {
                this.close_transport(py);
                this.abort(py, None)
            }
            Phase::Wrapped => {
                this.close_transport(py);
                this.phases.set(py, Phase::Flushing)?;
                Self::start_timer(py, this, &this.shutdown, &this.part().names.check_shutdown_timeout)?;
                Self::do_flush(py, this)
            }
        }
    }

    pub(super) fn check_shutdown_timeout(py: Attached<'_>, this: Instance<'_, Self>) -> PyResult<()> {
        if !matches!(this.phases.get(), Phase::Flushing | Phase::Shutdown) {
            return Ok(());
        }
        let reason = this.part().import(py, Import::TimedOut)?.call0(py)?;
        this.wire.force_close(py, this.part(), Some(reason.borrow()))
    }

    /// Hands over what is there, then says goodbye.
    pub(super) fn do_flush(py: Attached<'_>, this: Instance<'_, Self>) -> PyResult<()> {
        Self::do_read(py, this, false)?;
        if this.phases.get() != Phase::Flushing {
            // The application has aborted meanwhile, or the goodbye was said inside.
            return Ok(());
        }
        this.phases.set(py, Phase::Shutdown)?;
        Self::do_shutdown(py, this)
    }

    pub(super) fn do_shutdown(py: Attached<'_>, this: Instance<'_, Self>) -> PyResult<()> {
        let done = if this.phases.eof.load(Relaxed) { Ok(true) } else { this.engine.unwrap(py, this.part()) };
        match done {
            Ok(false) => this.process_outgoing(py, this),
            Ok(true) => {
                this.process_outgoing(py, this)?;
                Self::tell_eof(py, this)?;
                this.cancel(py, &this.shutdown)?;
                match this.wire.get(py) {
                    Some(wire) => {
                        let close = wire.getattr(py, &this.part().names.close)?;
                        this.call_soon(py, close.borrow(), &[])
                    }
                    None => Ok(()),
                }
            }
            Err(raised) => {
                let exception = raised.take(py);
                if !exception.matches(py, &this.part().import(py, Import::SslError)?) {
                    return Err(exception.raise(py));
                }
                this.cancel(py, &this.shutdown)?;
                Self::fatal(py, this, exception.value(), c"Fatal error on transport")
            }
        }
    }

    /// Ends it at once, for a reason or for none.
    pub(super) fn abort(&self, py: Attached<'_>, reason: Option<Borrowed<'_>>) -> PyResult<()> {
        self.flush_unseen(py)?;
        self.phases.unwrap();
        self.wire.force_close(py, self.part(), reason)
    }

    /// Tells the application that no more data will come, once.
    pub(super) fn tell_eof(py: Attached<'_>, this: Instance<'_, Self>) -> PyResult<()> {
        if this.phases.app() != AppPhase::Made {
            return Ok(());
        }
        this.phases.set_app(AppPhase::Eof);
        let Some(app) = this.app.get(py) else { return Ok(()) };
        let told = app.call_method0(py, &this.part().names.eof_received).and_then(|open| open.is_true(py));
        match told {
            Ok(false) => Ok(()),
            Ok(true) => this.part().import(py, Import::EofIgnored)?.call0(py).map(drop),
            Err(raised) => {
                if raised.matches(py, &Kind::SystemExit.class(py))
                    || raised.matches(py, &Kind::KeyboardInterrupt.class(py))
                {
                    return Err(raised);
                }
                let exception = raised.take(py);
                Self::fatal(py, this, exception.value(), c"Error calling eof_received()")
            }
        }
    }

    /// The peer has closed its direction below TLS. True keeps the transport open.
    pub(super) fn eof_received(py: Attached<'_>, this: Instance<'_, Self>) -> PyResult<Owned> {
        this.phases.eof.store(true, Relaxed);
        this.owner.tls.forgets(this.object());
        match Self::end_of_wire(py, this) {
            Ok(true) => Ok(Owned::bool(py, true)),
            Ok(false) => Ok(Owned::none(py)),
            Err(raised) if raised.matches(py, &Kind::Exception.class(py)) => {
                let exception = raised.take(py);
                this.wire.close(py, this.part())?;
                Err(exception.raise(py))
            }
            Err(raised) => Err(raised),
        }
    }

    fn end_of_wire(py: Attached<'_>, this: Instance<'_, Self>) -> PyResult<bool> {
        if this.owner.is_debug() {
            this.part().import(py, Import::EofSeen)?.call1(py, &this.object())?;
        }
        match this.phases.get() {
            Phase::Unwrapped => Ok(false),
            Phase::Handshake => Self::handshake_complete(py, this, Some(Self::gone(py)?)).map(|()| false),
            Phase::Wrapped => {
                this.phases.set(py, Phase::Flushing)?;
                if this.phases.app_paused.load(Relaxed) {
                    // What has come is handed over when the application wants it; until then nothing is closed.
                    return Ok(true);
                }
                Self::do_flush(py, this).map(|()| false)
            }
            Phase::Flushing => {
                Self::do_write(py, this)?;
                this.phases.set(py, Phase::Shutdown)?;
                Self::do_shutdown(py, this).map(|()| false)
            }
            Phase::Shutdown => Self::do_shutdown(py, this).map(|()| false),
        }
    }
}
