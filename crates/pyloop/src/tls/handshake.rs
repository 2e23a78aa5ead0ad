//! The handshake: from the transport's `connection_made` to the application's.

use pyrt::{Attached, Borrowed, Exception, Instance, Kind, Owned, PyResult};

use super::part::Import;
use super::phase::{AppPhase, Phase};
use super::protocol::SslProtocol;

impl SslProtocol {
    pub(super) fn start_handshake(py: Attached<'_>, this: Instance<'_, Self>) -> PyResult<()> {
        if this.owner.is_debug() {
            this.part().import(py, Import::HandshakeStarts)?.call1(py, &this.object())?;
        }
        this.phases.set(py, Phase::Handshake)?;
        Self::start_timer(py, this, &this.handshake, &this.part().names.check_handshake_timeout)?;
        Self::do_handshake(py, this)
    }

    pub(super) fn check_handshake_timeout(py: Attached<'_>, this: Instance<'_, Self>) -> PyResult<()> {
        if this.phases.get() != Phase::Handshake {
            return Ok(());
        }
        let seconds = this.handshake.seconds.str(py)?.to_string_lossy(py)?;
        let text = format!("SSL handshake is taking longer than {seconds} seconds: aborting the connection");
        let class = Kind::ConnectionAbortedError.class(py);
        let exception = Exception::new(py, &class, [Owned::str(py, &text)?.borrow()])?;
        Self::fatal(py, this, exception.value(), c"Fatal error on transport")
    }

    pub(super) fn do_handshake(py: Attached<'_>, this: Instance<'_, Self>) -> PyResult<()> {
        match this.engine.handshake(py, this.part()) {
            Ok(false) => this.process_outgoing(py, this),
            Ok(true) => Self::handshake_complete(py, this, None),
            Err(raised) if raised.matches(py, &Kind::OSError.class(py)) => {
                let exception = raised.take(py);
                if exception.matches(py, &this.part().import(py, Import::SslError)?) {
                    Self::handshake_complete(py, this, Some(exception))
                } else {
                    Err(exception.raise(py))
                }
            }
            Err(raised) => Err(raised),
        }
    }

    pub(super) fn handshake_complete(
        py: Attached<'_>,
        this: Instance<'_, Self>,
        failure: Option<Exception>,
    ) -> PyResult<()> {
        this.cancel(py, &this.handshake)?;
        let names = &this.part().names;
        let certificate = match failure {
            Some(failure) => Err(failure.raise(py)),
            None => this
                .phases
                .set(py, Phase::Wrapped)
                .and_then(|()| this.engine.object.call_method0(py, &names.getpeercert)),
        };
        let certificate = match certificate {
            Ok(certificate) => certificate,
            Err(raised) if !raised.matches(py, &Kind::Exception.class(py)) => return Err(raised),
            Err(raised) => return Self::handshake_failed(py, this, raised.take(py)),
        };
        if this.owner.is_debug() {
            this.part().import(py, Import::HandshakeTook)?.call1(py, &this.object())?;
        }
        let object = &this.engine.object;
        this.extra.dict_set(py, &names.peercert, &certificate)?;
        this.extra.dict_set(py, &names.cipher, &object.call_method0(py, &names.cipher)?)?;
        this.extra.dict_set(py, &names.compression, &object.call_method0(py, &names.compression)?)?;
        this.extra.dict_set(py, &names.ssl_object, object)?;

        if this.phases.app() == AppPhase::Init {
            this.phases.set_app(AppPhase::Made);
            let transport = Self::transport(py, this)?.unwrap_or_else(|| Owned::none(py));
            if let Some(app) = this.app.get(py) {
                app.call_method1(py, &names.connection_made, &transport)?;
            }
        }
        this.wake_waiter(py, None)?;
        Self::do_read(py, this, false)
    }

    #[cold]
    fn handshake_failed(py: Attached<'_>, this: Instance<'_, Self>, failure: Exception) -> PyResult<()> {
        this.phases.unwrap();
        let certificate = this.part().import(py, Import::CertificateError)?;
        let message = if failure.matches(py, &certificate) {
            c"SSL handshake failed on verifying the certificate"
        } else {
            c"SSL handshake failed"
        };
        let failure: Owned = failure.into_value();
        Self::fatal(py, this, failure.borrow(), message)?;
        this.wake_waiter(py, Some(failure.borrow()))
    }

    /// `ConnectionResetError()`, for a peer that has gone in the middle of a handshake.
    pub(super) fn gone(py: Attached<'_>) -> PyResult<Exception> {
        let none: [Borrowed<'_>; 0] = [];
        Exception::new(py, &Kind::ConnectionResetError.class(py), none)
    }
}
