//! Making a transport: what it knows of its socket, its server told, `connection_made` and the first read scheduled.

use std::sync::atomic::AtomicBool;

use pyrt::{Args, Attached, Borrowed, DictSlot, Fault, Guarded, ObjCell, Owned, PyResult, Typed, WeakSlot};

use super::{SocketTransport, This};
use crate::event_loop::Loop;
use crate::module::Native;
use crate::transport::{Base, Flow, Intake, Socket, describe, given, hold_open, os_error, start};

const IPPROTO_TCP: i64 = 6;

/// `socket_transport(loop, sock, protocol, waiter=None, extra=None, server=None, peername=None)`.
///
/// With a peername there is no `extra`: what is to be known of the socket is found out when somebody asks for it.
pub(crate) fn open(py: Attached<'_>, native: &Native, args: Args<'_>) -> PyResult<Typed<SocketTransport>> {
    let parts = &native.stream;
    let [Some(owner), Some(sock), Some(protocol), waiter, extra, server, peername] =
        parts.open.parse(py, &args)?
    else {
        return Err(Fault::system("a required argument was lost").raise(py));
    };
    let owner = native.event_loop.expect(py, owner)?.clone_ref(py);
    let [waiter, extra, server, peername] = [waiter, extra, server, peername].map(|value| given(py, value));
    make(py, native, Opened { owner, sock, protocol, waiter, extra, server, peername })
}

/// What a transport is made of.
pub(super) struct Opened<'a> {
    pub(super) owner: Typed<Loop>,
    pub(super) sock: Borrowed<'a>,
    pub(super) protocol: Borrowed<'a>,
    pub(super) waiter: Option<Owned>,
    pub(super) extra: Option<Owned>,
    pub(super) server: Option<Owned>,
    pub(super) peername: Option<Owned>,
}

pub(super) fn make(
    py: Attached<'_>,
    native: &Native,
    Opened { owner, sock, protocol, waiter, extra, server, peername }: Opened<'_>,
) -> PyResult<Typed<SocketTransport>> {
    let (parts, shared) = (&native.stream, &native.transport);
    let extra = match peername {
        Some(peername) => peername,
        None => describe(py, shared, sock, extra, None)?,
    };
    let fd = sock.call_method0(py, &shared.names.fileno)?.to_i32(py)?;
    let transport = SocketTransport {
        base: Base::new(py, owner, fd, sock, extra)?,
        flow: Flow::default(),
        server: server.as_ref().map_or_else(ObjCell::empty, |server| ObjCell::new(server.clone_ref(py))),
        empty_waiter: ObjCell::empty(),
        queue: Guarded::default(),
        intake: Intake::default(),
        eof: AtomicBool::new(false),
        buffered: AtomicBool::new(false),
        held: AtomicBool::new(false),
        dict: DictSlot::new(),
        weak: WeakSlot::new(),
    };
    let transport = parts.transport.create(py, transport)?;
    transport.start(py, transport.instance(), sock, protocol, waiter, server)?;
    Ok(transport)
}

impl SocketTransport {
    fn start(
        &self,
        py: Attached<'_>,
        this: This<'_>,
        sock: Borrowed<'_>,
        protocol: Borrowed<'_>,
        waiter: Option<Owned>,
        server: Option<Owned>,
    ) -> PyResult<()> {
        let shared = self.base.parts();
        let names = &shared.names;
        Self::set_protocol(py, this, protocol)?;
        hold_open(py, shared, sock)?;
        if let Some(server) = server {
            match self.parts().named_to_server {
                true => server.call_method1(py, &names.attach, &this.object())?,
                false => server.call_method0(py, &names.attach)?,
            };
        }
        self.base.owner.set_transport(py, self.base.fd, Some(this.object()))?;
        self.send_small_at_once(py, sock)?;
        start(py, this, true, waiter)
    }

    fn send_small_at_once(&self, py: Attached<'_>, sock: Borrowed<'_>) -> PyResult<()> {
        let proto = sock.getattr(py, &self.base.parts().names.proto)?.to_i64(py)?;
        match self.base.socket(py).filter(|_| proto == IPPROTO_TCP).map(Socket::no_delay) {
            Some(Err(error)) => Err(os_error(py, error)),
            _ => Ok(()),
        }
    }
}
