//! What transports need of their interpreter: the type, names, and what is imported. Part of the module's state.

use std::ffi::CStr;

use pyrt::{
    Attached, Borrowed, Fixed, Imported, Owned, Params, PyResult, Signature, Traverse, Type, Visit, Visited,
    confined, import_from, interned,
};

use super::SocketTransport;

interned! {
    pub(crate) struct Names {
        attach = "_attach",
        buffer_updated,
        call_connection_lost = "_call_connection_lost",
        cancelled,
        close,
        connection_lost,
        connection_made,
        create_future,
        data_received,
        decref_io = "_decref_socketios",
        detach = "_detach",
        done,
        eof_received,
        fileno,
        get_buffer,
        getpeername,
        getsockname,
        io_refs = "_io_refs",
        listen = "_start_reading",
        pause_writing,
        peername,
        proto,
        resume_writing,
        set_exception,
        set_result,
        socket,
        sockname,
        transports = "_transports",
    }
}

/// The rare paths, in Python.
const RARE: &CStr = c"erlang._stream";

const OPEN: Signature<7> = Signature::function(
    "socket_transport",
    ["loop", "sock", "protocol", "waiter", "extra", "server", "peername"],
)
.required(3);
const INFO: Signature<2> = Signature::method("BaseTransport.get_extra_info", ["name", "default"]).required(1);
const FATAL: Signature<2> =
    Signature::method("_SelectorTransport._fatal_error", ["exc", "message"]).required(1);

/// One per interpreter.
pub(crate) struct Parts {
    pub(crate) transport: Type<SocketTransport>,
    pub(crate) names: Names,
    pub(crate) open: Params<7>,
    pub(crate) info: Params<2>,
    pub(crate) fatal: Params<2>,
    pub(crate) buffered_protocol: Fixed,
    pub(crate) report_fatal: Imported,
    pub(crate) report: Imported,
    pub(crate) debug: Imported,
    pub(crate) lost_write: Imported,
    pub(crate) set_result: Imported,
    pub(crate) slow: Imported,
    pub(crate) transport_socket: Imported,
    /// 3.12 and later: `writelines` is one vectored write.
    pub(crate) vectored_lines: bool,
    /// 3.13 and later: a server is told which transport comes and goes.
    pub(crate) named_to_server: bool,
}

confined!(Parts {
    transport,
    names,
    open,
    info,
    fatal,
    buffered_protocol,
    report_fatal,
    report,
    debug,
    lost_write,
    set_result,
    slow,
    transport_socket,
    vectored_lines,
    named_to_server
});

impl Parts {
    pub(crate) fn new(py: Attached<'_>, module: Borrowed<'_>) -> PyResult<Self> {
        // Not asyncio.Transport itself: asyncio's sendfile asks for transports with this flow control.
        let base = import_from(py, c"asyncio.transports", c"_FlowControlMixin")?;
        let transport = Type::add_to(py, &module, Some(&base))?;
        transport.set_attr(py, c"max_size", &Owned::int(py, super::read::LARGEST as i64)?)?;
        transport.set_attr(py, c"_start_tls_compatible", &Owned::bool(py, true))?;
        let mode = import_from(py, c"asyncio.constants", c"_SendfileMode")?;
        transport.set_attr(py, c"_sendfile_compatible", &mode.getattr_str(py, c"TRY_NATIVE")?)?;
        let version = import_from(py, c"sys", c"hexversion")?.to_i64(py)?;
        Ok(Self {
            transport,
            names: Names::new(py)?,
            open: Params::new(py, &OPEN)?,
            info: Params::new(py, &INFO)?,
            fatal: Params::new(py, &FATAL)?,
            buffered_protocol: import_from(py, c"asyncio.protocols", c"BufferedProtocol")?.into(),
            report_fatal: Imported::new(RARE, c"report_fatal"),
            report: Imported::new(RARE, c"report"),
            debug: Imported::new(RARE, c"debug"),
            lost_write: Imported::new(RARE, c"lost_write"),
            set_result: Imported::new(c"asyncio.futures", c"_set_result_unless_cancelled"),
            slow: Imported::new(RARE, c"slow"),
            transport_socket: Imported::new(c"asyncio.trsock", c"TransportSocket"),
            vectored_lines: version >= 0x030c_0000,
            named_to_server: version >= 0x030d_0000,
        })
    }

    fn imported(&self) -> [&Imported; 7] {
        [
            &self.report_fatal,
            &self.report,
            &self.debug,
            &self.lost_write,
            &self.set_result,
            &self.slow,
            &self.transport_socket,
        ]
    }
}

impl Traverse for Parts {
    fn traverse(&self, visit: &mut Visit<'_>) -> Visited {
        self.transport.traverse(visit)?;
        self.buffered_protocol.traverse(visit)?;
        self.imported().into_iter().try_for_each(|imported| imported.traverse(visit))
    }

    fn clear(&self, py: Attached<'_>) {
        for imported in self.imported() {
            imported.clear(py);
        }
    }
}
