//! Making a transport: what it knows of its socket, its server told, `connection_made` and the first read scheduled.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicUsize};

use evloop::Interest;
use pyrt::{
    Args, Attached, Borrowed, Context, DictSlot, Fault, Guarded, ObjCell, Owned, PyResult, Typed, WeakSlot,
};

use super::socket::Socket;
use super::{Parts, SocketTransport, This, flow};
use crate::arguments::Request;
use crate::event_loop::Loop;
use crate::module::Native;

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
    let given =
        |value: Option<Borrowed<'_>>| value.filter(|value| !value.is_none()).map(|value| value.clone_ref(py));
    let owner = native.event_loop.expect(py, owner)?.clone_ref(py);
    let (waiter, server) = (given(waiter), given(server));
    let extra = match given(peername) {
        Some(peername) => peername,
        None => describe(py, parts, sock, given(extra), None)?,
    };
    let fd = sock.call_method0(py, &parts.names.fileno)?.to_i32(py)?;
    let context = Context::copy_current(py)?.into_object();
    let transport = SocketTransport {
        owner,
        fd,
        sock: ObjCell::new(sock.clone_ref(py)),
        protocol: ObjCell::empty(),
        server: server.as_ref().map_or_else(ObjCell::empty, |server| ObjCell::new(server.clone_ref(py))),
        extra: ObjCell::new(extra),
        empty_waiter: ObjCell::empty(),
        reading_in: ObjCell::new(context),
        writing_in: ObjCell::empty(),
        registration: Guarded::default(),
        queue: Guarded::default(),
        expected: AtomicUsize::new(0),
        conn_lost: AtomicU32::new(0),
        closing: AtomicBool::new(false),
        paused: AtomicBool::new(false),
        eof: AtomicBool::new(false),
        buffered: AtomicBool::new(false),
        protocol_connected: AtomicBool::new(false),
        protocol_paused: AtomicBool::new(false),
        high: AtomicI64::new(flow::HIGH),
        low: AtomicI64::new(flow::LOW),
        high_given: ObjCell::empty(),
        low_given: ObjCell::empty(),
        dict: DictSlot::new(),
        weak: WeakSlot::new(),
    };
    let transport = parts.transport.create(py, transport)?;
    transport.start(py, transport.instance(), sock, protocol, waiter, server)?;
    Ok(transport)
}

/// `_extra`: what `get_extra_info` tells.
fn describe(
    py: Attached<'_>,
    parts: &Parts,
    sock: Borrowed<'_>,
    extra: Option<Owned>,
    peername: Option<Owned>,
) -> PyResult<Owned> {
    let names = &parts.names;
    let extra = match extra {
        Some(extra) => extra,
        None => Owned::dict(py)?,
    };
    let seen = parts.transport_socket.get(py)?.call1(py, &sock)?;
    extra.dict_set(py, &names.socket, &seen)?;
    extra.dict_set(py, &names.sockname, &address(py, sock, &names.getsockname)?)?;
    if let Some(peername) = peername {
        extra.dict_set(py, &names.peername, &peername)?;
    } else if extra.dict_get(py, &names.peername)?.is_none() {
        extra.dict_set(py, &names.peername, &address(py, sock, &names.getpeername)?)?;
    }
    Ok(extra)
}

/// An address, or `None` if the socket has none.
fn address(py: Attached<'_>, sock: Borrowed<'_>, method: &pyrt::Fixed) -> PyResult<Owned> {
    sock.call_method0(py, method).or_else(|raised| {
        if !raised.matches(py, &pyrt::Kind::OSError.class(py)) {
            return Err(raised);
        }
        raised.clear(py);
        Ok(Owned::none(py))
    })
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
        let (parts, names) = (self.parts(), &self.parts().names);
        Self::set_protocol(py, this, protocol)?;
        self.hold_open(py, sock)?;
        if let Some(server) = server {
            match parts.named_to_server {
                true => server.call_method1(py, &names.attach, &this.object())?,
                false => server.call_method0(py, &names.attach)?,
            };
        }
        let owner = self.owner.instance();
        let transports = owner.object().getattr(py, &names.transports)?;
        transports.set_item(py, &Owned::int(py, i64::from(self.fd))?, &this.object())?;
        self.send_small_at_once(py, sock)?;

        owner.check_open(py)?;
        let soon = |callback: Owned, args: &[Borrowed<'_>]| {
            Loop::schedule(py, owner, Request { callback: callback.borrow(), args, context: None }).map(drop)
        };
        soon(protocol.getattr(py, &names.connection_made)?, &[this.object()])?;
        // Reading starts only when connection_made() has been called, and the waiter is woken after that.
        soon(this.object().getattr(py, &names.listen)?, &[])?;
        if let Some(waiter) = waiter {
            soon(parts.set_result.get(py)?, &[waiter.borrow(), Borrowed::none(py)])?;
        }
        Ok(())
    }

    /// The dict of `get_extra_info`, made now if it was not asked for before.
    pub(super) fn extra(&self, py: Attached<'_>) -> PyResult<Option<Owned>> {
        let Some(kept) = self.extra.get(py) else { return Ok(None) };
        if kept.is_dict() {
            return Ok(Some(kept));
        }
        // The name of the peer, kept until somebody asks. `end` does, so the socket is still open here.
        let Some(sock) = self.sock.get(py) else { return Ok(None) };
        let extra = describe(py, self.parts(), sock.borrow(), None, Some(kept))?;
        self.extra.set(py, extra.clone_ref(py));
        Ok(Some(extra))
    }

    fn send_small_at_once(&self, py: Attached<'_>, sock: Borrowed<'_>) -> PyResult<()> {
        let proto = sock.getattr(py, &self.parts().names.proto)?.to_i64(py)?;
        match self.socket(py).filter(|_| proto == IPPROTO_TCP).map(Socket::no_delay) {
            Some(Err(error)) => Err(Fault::Os(error.raw_os_error()).raise(py)),
            _ => Ok(()),
        }
    }

    pub(super) fn start_reading(py: Attached<'_>, this: This<'_>) -> PyResult<()> {
        if this.is_reading() {
            this.listen_also(py, this, Interest::READ)?;
        }
        Ok(())
    }

    /// Counts as a file made of the socket, so that the socket's own `close()` waits for us.
    fn hold_open(&self, py: Attached<'_>, sock: Borrowed<'_>) -> PyResult<()> {
        let names = &self.parts().names;
        if let Some(count) = sock.getattr_opt(py, &names.io_refs)? {
            sock.setattr(py, &names.io_refs, &Owned::int(py, count.to_i64(py)? + 1)?)?;
        }
        Ok(())
    }
}
