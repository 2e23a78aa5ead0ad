//! What transports need of their interpreter: names, signatures, and what is imported. Part of the module's state.

use std::ffi::CStr;

use pyrt::{
    Attached, Imported, Params, PyResult, Signature, Traverse, Visit, Visited, confined, import_from,
    interned,
};

interned! {
    pub(crate) struct Names {
        attach = "_attach",
        buffer_updated,
        call_connection_lost = "_call_connection_lost",
        close,
        connection_lost,
        connection_made,
        create_future,
        data_received,
        datagram_received,
        decref_io = "_decref_socketios",
        detach = "_detach",
        done,
        eof_received,
        family,
        error_received,
        fileno,
        get_buffer,
        getpeername,
        getsockname,
        io_refs = "_io_refs",
        kind = "type",
        listen = "_start_reading",
        pause_writing,
        peername,
        pipe,
        proto,
        resume_writing,
        sendto,
        set_exception,
        set_result,
        socket,
        sockname,
    }
}

/// The rare paths, in Python.
const RARE: &CStr = c"erlang._reports";

const INFO: Signature<2> = Signature::method("BaseTransport.get_extra_info", ["name", "default"]).required(1);
const FATAL: Signature<2> =
    Signature::method("_SelectorTransport._fatal_error", ["exc", "message"]).required(1);

/// One per interpreter.
pub(crate) struct Parts {
    pub(crate) names: Names,
    pub(crate) info: Params<2>,
    pub(crate) fatal: Params<2>,
    pub(crate) report_fatal: Imported,
    pub(crate) report_fatal_read: Imported,
    pub(crate) report: Imported,
    pub(crate) debug: Imported,
    pub(crate) note: Imported,
    pub(crate) lost_write: Imported,
    pub(crate) set_result: Imported,
    pub(crate) slow: Imported,
    pub(crate) transport_socket: Imported,
    /// `sys.hexversion`, for what differs between versions.
    pub(crate) version: i64,
}

confined!(Parts {
    names,
    info,
    fatal,
    report_fatal,
    report_fatal_read,
    report,
    debug,
    note,
    lost_write,
    set_result,
    slow,
    transport_socket,
    version
});

impl Parts {
    pub(crate) fn new(py: Attached<'_>) -> PyResult<Self> {
        Ok(Self {
            names: Names::new(py)?,
            info: Params::new(py, &INFO)?,
            fatal: Params::new(py, &FATAL)?,
            report_fatal: Imported::new(RARE, c"report_fatal"),
            report_fatal_read: Imported::new(RARE, c"report_fatal_read"),
            report: Imported::new(RARE, c"report"),
            debug: Imported::new(RARE, c"debug"),
            note: Imported::new(RARE, c"note"),
            lost_write: Imported::new(RARE, c"lost_write"),
            set_result: Imported::new(c"asyncio.futures", c"_set_result_unless_cancelled"),
            slow: Imported::new(RARE, c"slow"),
            transport_socket: Imported::new(c"asyncio.trsock", c"TransportSocket"),
            version: import_from(py, c"sys", c"hexversion")?.to_i64(py)?,
        })
    }

    fn imported(&self) -> [&Imported; 9] {
        [
            &self.report_fatal,
            &self.report_fatal_read,
            &self.report,
            &self.debug,
            &self.note,
            &self.lost_write,
            &self.set_result,
            &self.slow,
            &self.transport_socket,
        ]
    }
}

impl Traverse for Parts {
    fn traverse(&self, visit: &mut Visit<'_>) -> Visited {
        self.imported().into_iter().try_for_each(|imported| imported.traverse(visit))
    }

    fn clear(&self, py: Attached<'_>) {
        for imported in self.imported() {
            imported.clear(py);
        }
    }
}
