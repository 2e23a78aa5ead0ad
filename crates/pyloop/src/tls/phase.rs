//! The state machines of a TLS connection: its own, and the one of the protocol above; and its flags.
//!
//! ```text
//!   Unwrapped ─▶ Handshake ─▶ Wrapped ─▶ Flushing ─▶ Shutdown      from each back to Unwrapped, which is the end
//!   Init ─connection_made─▶ Made [─eof_received─▶ Eof] ─connection_lost─▶ Lost
//! ```

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicUsize, Ordering::Relaxed};

use pyrt::{Attached, Fault, PyResult, confined};

/// Where the connection is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Unwrapped,
    Handshake,
    Wrapped,
    Flushing,
    Shutdown,
}

impl Phase {
    const ALL: [Self; 5] = [Self::Unwrapped, Self::Handshake, Self::Wrapped, Self::Flushing, Self::Shutdown];

    /// Its name in the stdlib's enumeration.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Unwrapped => "UNWRAPPED",
            Self::Handshake => "DO_HANDSHAKE",
            Self::Wrapped => "WRAPPED",
            Self::Flushing => "FLUSHING",
            Self::Shutdown => "SHUTDOWN",
        }
    }

    fn may_become(self, next: Self) -> bool {
        matches!(
            (self, next),
            (_, Self::Unwrapped)
                | (Self::Unwrapped, Self::Handshake)
                | (Self::Handshake, Self::Wrapped)
                | (Self::Wrapped, Self::Flushing)
                | (Self::Flushing, Self::Shutdown)
        )
    }
}

/// What the protocol above has been told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AppPhase {
    Init,
    Made,
    Eof,
    Lost,
}

impl AppPhase {
    const ALL: [Self; 4] = [Self::Init, Self::Made, Self::Eof, Self::Lost];
}

/// Both machines, and what else is true or not.
pub(super) struct Phases {
    phase: AtomicU8,
    app: AtomicU8,
    /// The transport below has enough to send.
    pub(super) wire_full: AtomicBool,
    /// The application wants no data now.
    pub(super) app_paused: AtomicBool,
    /// The transport below was told to read nothing.
    pub(super) wire_paused: AtomicBool,
    /// The application was told to write nothing.
    pub(super) app_full: AtomicBool,
    /// The peer has closed its direction below TLS.
    pub(super) eof: AtomicBool,
    /// The SSL object may have more of a record that it has decrypted.
    pub(super) inside: AtomicBool,
    /// The application is being handed data: what it writes leaves when it returns.
    pub(super) handing: AtomicBool,
    /// How much was encrypted since the last flush.
    pub(super) unflushed: AtomicUsize,
    /// How often something was done to a connection that is over.
    pub(super) late: AtomicU32,
}

confined!(Phases {
    phase,
    app,
    wire_full,
    app_paused,
    wire_paused,
    app_full,
    eof,
    inside,
    handing,
    unflushed,
    late
});

impl Phases {
    pub(super) fn new(app: AppPhase) -> Self {
        Self {
            phase: AtomicU8::new(Phase::Unwrapped as u8),
            app: AtomicU8::new(app as u8),
            wire_full: AtomicBool::new(false),
            app_paused: AtomicBool::new(false),
            wire_paused: AtomicBool::new(false),
            app_full: AtomicBool::new(false),
            eof: AtomicBool::new(false),
            inside: AtomicBool::new(false),
            handing: AtomicBool::new(false),
            unflushed: AtomicUsize::new(0),
            late: AtomicU32::new(0),
        }
    }

    #[inline]
    pub(super) fn get(&self) -> Phase {
        let value = self.phase.load(Relaxed);
        Phase::ALL.get(usize::from(value)).copied().unwrap_or(Phase::Unwrapped)
    }

    pub(super) fn set(&self, py: Attached<'_>, next: Phase) -> PyResult<()> {
        let now = self.get();
        if !now.may_become(next) {
            let text = format!(
                "cannot switch state from SSLProtocolState.{} to SSLProtocolState.{}",
                now.name(),
                next.name()
            );
            return Err(Fault::runtime(text).raise(py));
        }
        self.phase.store(next as u8, Relaxed);
        Ok(())
    }

    /// The end, which can be reached from anywhere.
    pub(super) fn unwrap(&self) {
        self.phase.store(Phase::Unwrapped as u8, Relaxed);
    }

    pub(super) fn app(&self) -> AppPhase {
        let value = self.app.load(Relaxed);
        AppPhase::ALL.get(usize::from(value)).copied().unwrap_or(AppPhase::Lost)
    }

    pub(super) fn set_app(&self, next: AppPhase) {
        self.app.store(next as u8, Relaxed);
    }
}
