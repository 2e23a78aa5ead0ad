//! Accepting: all connections that wait, up to the backlog, each with its protocol and transport.

use std::os::fd::{AsRawFd, BorrowedFd, IntoRawFd, OwnedFd};

use pyrt::{Args, Attached, Borrowed, Context, Fault, Instance, Owned, PyResult};
use rustix::io::Errno;
use rustix::net::{SocketAddrAny, SocketFlags, acceptfrom_with};

use super::open::{Opened, make};
use crate::bound::ends_the_loop;
use crate::datagram::{name_of, small_name};
use crate::event_loop::Loop;
use crate::module::Native;
use crate::transport::{is_later, os_error};

/// Python's sockets take it among the bits of the type: the fd does not block already (socket(2), SOCK_NONBLOCK).
const NOT_BLOCKING: i64 = 0o4000;

/// Where connections come from, and what becomes of them.
struct Door<'a> {
    owner: Instance<'a, Loop>,
    factory: Borrowed<'a>,
    sock: Borrowed<'a>,
    server: Borrowed<'a>,
    /// Makes the transport where a handshake comes first.
    secure: Option<Borrowed<'a>>,
    /// Family, type and protocol of the sockets.
    kind: [Owned; 3],
}

/// `accept(loop, protocol_factory, sock, server, backlog, secure=None)`: `secure(protocol, connection, peername)`. What accept(2) fails with is raised, unless there is just nobody
/// there (any more); what a protocol factory raises is reported.
pub(crate) fn accept(py: Attached<'_>, native: &Native, args: Args<'_>) -> PyResult<()> {
    let [Some(owner), Some(factory), Some(sock), Some(server), Some(backlog), secure] =
        native.stream.accept.parse(py, &args)?
    else {
        return Err(Fault::system("a required argument was lost").raise(py));
    };
    let names = &native.transport.names;
    let number = |name| sock.getattr(py, name)?.to_i64(py);
    let kind = [number(&names.family)?, number(&names.kind)? | NOT_BLOCKING, number(&names.proto)?];
    let [family, kind, proto] = kind.map(|number| Owned::int(py, number));
    let owner = native.event_loop.expect(py, owner)?;
    let secure = secure.filter(|secure| !secure.is_none());
    let door = Door { owner, factory, sock, server, secure, kind: [family?, kind?, proto?] };
    for _ in 0..=backlog.to_i64(py)?.max(0) {
        let Some((connection, address)) = door.take(py)? else { return Ok(()) };
        door.open(py, connection, address)?;
    }
    Ok(())
}

impl Door<'_> {
    /// The next connection, if there is one.
    fn take(&self, py: Attached<'_>) -> PyResult<Option<(OwnedFd, Option<SocketAddrAny>)>> {
        let names = &self.owner.native().transport.names;
        // A protocol factory may have closed the server.
        let fd = self.sock.call_method0(py, &names.fileno)?.to_i32(py)?;
        if fd < 0 {
            return Ok(None);
        }
        // SAFETY: the Python socket has just said that it is its fd, and nothing closes it before the call.
        let listening = unsafe { BorrowedFd::borrow_raw(fd) };
        match acceptfrom_with(listening, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
            Ok(accepted) => Ok(Some(accepted)),
            Err(error) if is_later(error) || error == Errno::CONNABORTED => Ok(None),
            Err(error) => Err(os_error(py, error)),
        }
    }

    fn open(&self, py: Attached<'_>, fd: OwnedFd, address: Option<SocketAddrAny>) -> PyResult<()> {
        let native = self.owner.native();
        // Most peers are never asked for their name, so it is kept small where nobody looks at it here.
        let small = !self.owner.is_debug() && self.secure.is_none();
        let peername = match &address {
            Some(address) if small => small_name(py, address)?,
            Some(address) => name_of(py, address)?,
            None => Owned::none(py),
        };
        let number = Owned::int(py, fd.as_raw_fd().into())?;
        let [family, kind, proto] = &self.kind;
        let kind = [family.borrow(), kind.borrow(), proto.borrow(), number.borrow()];
        let connection = native.sock.socket.call(py, kind)?;
        // From here on it is the Python socket's.
        let _number = fd.into_raw_fd();
        if self.owner.is_debug() {
            let said = [self.server, peername.borrow(), connection.borrow()];
            native.stream.accepted.get(py)?.call(py, said)?;
        }
        let mut protocol = None;
        // In a context of its own, as the stdlib has a task for each.
        let opened = Context::copy_current(py)?.run(py, || {
            let protocol = protocol.insert(self.factory.call0(py)?);
            if let Some(secure) = self.secure {
                let what = [protocol.borrow(), connection.borrow(), peername.borrow()];
                return secure.call(py, what).map(drop);
            }
            let what = Opened {
                owner: self.owner.clone_ref(py),
                sock: connection.borrow(),
                protocol: protocol.borrow(),
                waiter: None,
                extra: None,
                server: Some(self.server.clone_ref(py)).filter(|server| !server.is_none()),
                peername: Some(peername).filter(|peername| !peername.is_none()),
            };
            make(py, native, what).map(drop)
        });
        match opened {
            Ok(()) => Ok(()),
            Err(raised) if ends_the_loop(py, &raised) => Err(raised),
            Err(raised) => {
                let exception = raised.take(py).into_value();
                let protocol = protocol.unwrap_or_else(|| Owned::none(py));
                let said = [self.owner.object(), exception.borrow(), protocol.borrow()];
                native.stream.not_accepted.get(py)?.call(py, said).map(drop)
            }
        }
    }
}
