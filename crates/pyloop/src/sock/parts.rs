//! What `sock_*` calls need of their interpreter: the type, names, and what is imported. Part of the module's state.

use pyrt::{
    Attached, Borrowed, Fixed, Imported, Params, PyResult, Signature, Traverse, Type, Visit, Visited,
    confined, import_from, interned,
};

use super::Operation;

interned! {
    pub(crate) struct Names {
        accept,
        connect,
        fileno,
        recvfrom,
        recvfrom_into,
        sendto,
        setblocking,
        sock_accept,
        sock_recv,
        sock_recv_into,
        sock_recvfrom,
        sock_recvfrom_into,
        sock_sendall,
        sock_sendto,
        with_traceback,
    }
}

const RECV: Signature<2> = Signature::method("BaseSelectorEventLoop.sock_recv", ["sock", "n"]);
const RECV_INTO: Signature<2> = Signature::method("BaseSelectorEventLoop.sock_recv_into", ["sock", "buf"]);
const RECVFROM: Signature<2> = Signature::method("BaseSelectorEventLoop.sock_recvfrom", ["sock", "bufsize"]);
const RECVFROM_INTO: Signature<3> =
    Signature::method("BaseSelectorEventLoop.sock_recvfrom_into", ["sock", "buf", "nbytes"]).required(2);
const SENDALL: Signature<2> = Signature::method("BaseSelectorEventLoop.sock_sendall", ["sock", "data"]);
const SENDTO: Signature<3> =
    Signature::method("BaseSelectorEventLoop.sock_sendto", ["sock", "data", "address"]);
const ACCEPT: Signature<1> = Signature::method("BaseSelectorEventLoop.sock_accept", ["sock"]);
const CONNECT: Signature<2> = Signature::method("_sock_connect_to", ["sock", "address"]);
const THROW: Signature<3> =
    Signature::method("throw", ["type", "value", "traceback"]).positional_only(3).required(1);
const ADD_DONE_CALLBACK: Signature<2> = Signature::method("add_done_callback", ["fn", "context"])
    .positional_only(1)
    .keyword_only_after(1)
    .optional_keywords();
const CANCEL: Signature<1> = Signature::method("cancel", ["msg"]).required(0);

/// One per interpreter.
pub(crate) struct Parts {
    pub(super) operation: Type<Operation>,
    pub(super) names: Names,
    pub(super) recv: Params<2>,
    pub(super) recv_into: Params<2>,
    pub(super) recvfrom: Params<2>,
    pub(super) recvfrom_into: Params<3>,
    pub(super) sendall: Params<2>,
    pub(super) sendto: Params<3>,
    pub(super) accept: Params<1>,
    pub(super) connect: Params<2>,
    pub(super) throw: Params<3>,
    pub(super) add_done_callback: Params<2>,
    pub(super) cancel: Params<1>,
    /// The class whose instances are known to have the fd they say.
    pub(crate) socket: Fixed,
    pub(super) task: Fixed,
    /// Whose `sock_*` coroutines serve everything else.
    pub(super) stdlib: Imported,
    pub(super) cancelled_error: Imported,
    pub(super) invalid_state: Imported,
    pub(super) connect_failed: Imported,
}

confined!(Parts {
    operation,
    names,
    recv,
    recv_into,
    recvfrom,
    recvfrom_into,
    sendall,
    sendto,
    accept,
    connect,
    throw,
    add_done_callback,
    cancel,
    socket,
    task,
    stdlib,
    cancelled_error,
    invalid_state,
    connect_failed
});

impl Parts {
    pub(crate) fn new(py: Attached<'_>, module: Borrowed<'_>) -> PyResult<Self> {
        Ok(Self {
            operation: Type::add_to(py, &module, None)?,
            names: Names::new(py)?,
            recv: Params::new(py, &RECV)?,
            recv_into: Params::new(py, &RECV_INTO)?,
            recvfrom: Params::new(py, &RECVFROM)?,
            recvfrom_into: Params::new(py, &RECVFROM_INTO)?,
            sendall: Params::new(py, &SENDALL)?,
            sendto: Params::new(py, &SENDTO)?,
            accept: Params::new(py, &ACCEPT)?,
            connect: Params::new(py, &CONNECT)?,
            throw: Params::new(py, &THROW)?,
            add_done_callback: Params::new(py, &ADD_DONE_CALLBACK)?,
            cancel: Params::new(py, &CANCEL)?,
            socket: import_from(py, c"socket", c"socket")?.into(),
            task: import_from(py, c"asyncio.tasks", c"Task")?.into(),
            stdlib: Imported::new(c"erlang._stdlib", c"StdlibLoop"),
            cancelled_error: Imported::new(c"asyncio.exceptions", c"CancelledError"),
            invalid_state: Imported::new(c"asyncio.exceptions", c"InvalidStateError"),
            connect_failed: Imported::new(c"erlang._sock", c"connect_failed"),
        })
    }

    fn imported(&self) -> [&Imported; 4] {
        [&self.stdlib, &self.cancelled_error, &self.invalid_state, &self.connect_failed]
    }
}

impl Traverse for Parts {
    fn traverse(&self, visit: &mut Visit<'_>) -> Visited {
        self.operation.traverse(visit)?;
        self.socket.traverse(visit)?;
        self.task.traverse(visit)?;
        self.imported().into_iter().try_for_each(|imported| imported.traverse(visit))
    }

    fn clear(&self, py: Attached<'_>) {
        for imported in self.imported() {
            imported.clear(py);
        }
    }
}
