//! What stream transports need of their interpreter beyond what all transports do. Part of the module's state.

use std::ffi::CStr;

use pyrt::{
    Attached, Borrowed, Fixed, Imported, Owned, Params, PyResult, Signature, Traverse, Type, Visit, Visited,
    confined, import_from,
};

use super::SocketTransport;

const OPEN: Signature<7> = Signature::function(
    "socket_transport",
    ["loop", "sock", "protocol", "waiter", "extra", "server", "peername"],
)
.required(3);

const ACCEPT: Signature<6> =
    Signature::function("accept", ["loop", "protocol_factory", "sock", "server", "backlog", "secure"])
        .required(5);

/// The rare paths, in Python.
const RARE: &CStr = c"erlang._reports";

/// One per interpreter.
pub(crate) struct Parts {
    pub(crate) transport: Type<SocketTransport>,
    pub(crate) open: Params<7>,
    pub(crate) accept: Params<6>,
    pub(crate) accepted: Imported,
    pub(crate) not_accepted: Imported,
    pub(crate) buffered_protocol: Fixed,
    /// 3.12 and later: `writelines` is one vectored write.
    pub(crate) vectored_lines: bool,
    /// 3.13 and later: a server is told which transport comes and goes.
    pub(crate) named_to_server: bool,
}

confined!(Parts {
    transport,
    open,
    accept,
    accepted,
    not_accepted,
    buffered_protocol,
    vectored_lines,
    named_to_server
});

impl Parts {
    pub(crate) fn new(py: Attached<'_>, module: Borrowed<'_>, version: i64) -> PyResult<Self> {
        // Not asyncio.Transport itself: asyncio's sendfile asks for transports with this flow control.
        let base = import_from(py, c"asyncio.transports", c"_FlowControlMixin")?;
        let transport = Type::add_to(py, &module, Some(&base))?;
        transport.set_attr(py, c"max_size", &Owned::int(py, crate::transport::LARGEST as i64)?)?;
        transport.set_attr(py, c"_start_tls_compatible", &Owned::bool(py, true))?;
        let mode = import_from(py, c"asyncio.constants", c"_SendfileMode")?;
        transport.set_attr(py, c"_sendfile_compatible", &mode.getattr_str(py, c"TRY_NATIVE")?)?;
        Ok(Self {
            transport,
            open: Params::new(py, &OPEN)?,
            accept: Params::new(py, &ACCEPT)?,
            accepted: Imported::new(RARE, c"accepted"),
            not_accepted: Imported::new(RARE, c"not_accepted"),
            buffered_protocol: import_from(py, c"asyncio.protocols", c"BufferedProtocol")?.into(),
            vectored_lines: version >= 0x030c_0000,
            named_to_server: version >= 0x030d_0000,
        })
    }
}

impl Traverse for Parts {
    fn traverse(&self, visit: &mut Visit<'_>) -> Visited {
        self.transport.traverse(visit)?;
        self.buffered_protocol.traverse(visit)?;
        self.accepted.traverse(visit)?;
        self.not_accepted.traverse(visit)
    }

    fn clear(&self, py: Attached<'_>) {
        self.accepted.clear(py);
        self.not_accepted.clear(py);
    }
}
