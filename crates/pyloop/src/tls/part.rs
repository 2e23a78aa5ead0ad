//! `Part`: what TLS has in the state of the module. Types, names and imports, one set per interpreter.

use std::ffi::CStr;

use pyrt::{
    Attached, Borrowed, Imported, Params, PyResult, Traverse, Type, Visit, Visited, confined, import_from,
    interned,
};

use super::aim::Aim;
use super::protocol::{NEW, SslProtocol};
use super::transport::{LIMITS, SslTransport};
use super::window::Window;

interned! {
    pub(crate) struct Names {
        // The SSL object, its context and its BIOs.
        wrap_bio,
        inner = "_sslobj",
        msg_callback = "_msg_callback",
        keylog_filename,
        read,
        write,
        do_handshake,
        shutdown,
        unwrap,
        pending,
        getpeercert,
        cipher,
        compression,
        // Extra information.
        sslcontext,
        peercert,
        ssl_object,
        // The protocol above.
        get_buffer,
        buffer_updated,
        connection_made,
        data_received,
        eof_received,
        connection_lost,
        pause_writing,
        resume_writing,
        // The transport below.
        get_extra_info,
        pause_reading,
        resume_reading,
        close,
        abort,
        force_close = "_force_close",
        // The loop and its futures.
        call_soon,
        call_later,
        cancel,
        cancelled,
        set_result,
        set_exception,
        // Our own, for callbacks.
        do_read = "_do_read",
        resume = "_resume",
        check_handshake_timeout = "_check_handshake_timeout",
        check_shutdown_timeout = "_check_shutdown_timeout",
    }
}

/// The state of the module, as far as TLS goes.
pub(crate) struct Part {
    pub(super) names: Names,
    pub(super) new: Params<9>,
    pub(super) limits: Params<2>,
    pub(crate) protocol: Type<SslProtocol>,
    pub(super) transport: Type<SslTransport>,
    pub(super) window: Type<Window>,
    pub(super) aim: Type<Aim>,
    pub(super) imports: [Imported; 19],
}

confined!(Part { names, new, limits, protocol, transport, window, aim, imports });

/// What is imported when first needed: a program without TLS never loads `ssl`.
#[derive(Clone, Copy)]
pub(super) enum Import {
    SslObject,
    MemoryBio,
    SslError,
    CertificateError,
    /// The errors that mean "not yet".
    Again,
    BufferedProtocol,
    DefaultContext,
    FlowDefaults,
    // Rare paths, in Python.
    Report,
    FlowFailed,
    ClosedWrite,
    EofIgnored,
    HandshakeStarts,
    HandshakeTook,
    EofSeen,
    IsData,
    TimedOut,
    ByteArray,
    MemoryView,
}

const RARE: &CStr = c"erlang._tls";
const STDLIB: &CStr = c"asyncio.sslproto";

impl Part {
    pub(crate) fn new(py: Attached<'_>, module: Borrowed<'_>) -> PyResult<Self> {
        let buffered = import_from(py, c"asyncio.protocols", c"BufferedProtocol")?;
        // sendfile() wants transports that are of this class.
        let flow_control = import_from(py, c"asyncio.transports", c"_FlowControlMixin")?;
        let transport: Type<SslTransport> = Type::add_to(py, &module, Some(&flow_control))?;
        let modes = import_from(py, c"asyncio.constants", c"_SendfileMode")?;
        transport.set_attr(py, c"_sendfile_compatible", &modes.getattr_str(py, c"FALLBACK")?)?;
        Ok(Self {
            names: Names::new(py)?,
            new: Params::new(py, &NEW)?,
            limits: Params::new(py, &LIMITS)?,
            protocol: Type::add_to(py, &module, Some(&buffered))?,
            transport,
            window: Type::new(py, &module, None)?,
            aim: Type::new(py, &module, None)?,
            // In the order of `Import`.
            imports: [
                Imported::new(c"ssl", c"SSLObject"),
                Imported::new(c"ssl", c"MemoryBIO"),
                Imported::new(c"ssl", c"SSLError"),
                Imported::new(c"ssl", c"CertificateError"),
                Imported::new(STDLIB, c"SSLAgainErrors"),
                Imported::new(c"asyncio.protocols", c"BufferedProtocol"),
                Imported::new(STDLIB, c"_create_transport_context"),
                Imported::new(STDLIB, c"add_flowcontrol_defaults"),
                Imported::new(RARE, c"report"),
                Imported::new(RARE, c"flow_failed"),
                Imported::new(RARE, c"closed_write"),
                Imported::new(RARE, c"eof_ignored"),
                Imported::new(RARE, c"handshake_starts"),
                Imported::new(RARE, c"handshake_took"),
                Imported::new(RARE, c"eof_seen"),
                Imported::new(RARE, c"is_data"),
                Imported::new(RARE, c"timed_out"),
                Imported::new(c"builtins", c"bytearray"),
                Imported::new(c"builtins", c"memoryview"),
            ],
        })
    }

    pub(super) fn import(&self, py: Attached<'_>, which: Import) -> PyResult<pyrt::Owned> {
        match self.imports.get(which as usize) {
            Some(imported) => imported.get(py),
            None => Err(pyrt::Fault::system("no such import").raise(py)),
        }
    }
}

impl Traverse for Part {
    fn traverse(&self, visit: &mut Visit<'_>) -> Visited {
        self.protocol.traverse(visit)?;
        self.transport.traverse(visit)?;
        self.window.traverse(visit)?;
        self.aim.traverse(visit)?;
        self.imports.iter().try_for_each(|imported| imported.traverse(visit))
    }

    fn clear(&self, py: Attached<'_>) {
        self.imports.iter().for_each(|imported| imported.clear(py));
    }
}
