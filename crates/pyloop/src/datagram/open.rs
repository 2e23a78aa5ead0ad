//! Making a transport over a datagram socket.

use pyrt::{Args, Attached, DictSlot, Fault, Guarded, ObjCell, PyResult, Typed, WeakSlot};
use rustix::net::AddressFamily;

use super::DatagramTransport;
use super::receive::More;
use crate::module::Native;
use crate::transport::{Base, Flow, describe, given, hold_open, start};

/// `datagram_transport(loop, sock, protocol, address=None, waiter=None, extra=None)`.
pub(crate) fn open(py: Attached<'_>, native: &Native, args: Args<'_>) -> PyResult<Typed<DatagramTransport>> {
    let (parts, shared) = (&native.datagram, &native.transport);
    let [Some(owner), Some(sock), Some(protocol), address, waiter, extra] = parts.open.parse(py, &args)?
    else {
        return Err(Fault::system("a required argument was lost").raise(py));
    };
    let owner = native.event_loop.expect(py, owner)?.clone_ref(py);
    let extra = describe(py, shared, sock, given(py, extra), None)?;
    let connected = match extra.dict_get(py, &shared.names.peername)? {
        Some(peername) => peername.is_true(py)?,
        None => false,
    };
    let address = match address {
        Some(address) if address.is_true(py)? => ObjCell::new(address.clone_ref(py)),
        _ => ObjCell::empty(),
    };
    let family = sock.getattr(py, &shared.names.family)?.to_i64(py)?;
    let family = AddressFamily::from_raw(u16::try_from(family).unwrap_or_default());
    let fd = sock.call_method0(py, &shared.names.fileno)?.to_i32(py)?;
    let transport = DatagramTransport {
        base: Base::new(py, owner, fd, sock, extra)?,
        flow: Flow::default(),
        address,
        family,
        connected,
        peers: Guarded::default(),
        queue: Guarded::default(),
        more: More::default(),
        dict: DictSlot::new(),
        weak: WeakSlot::new(),
    };
    let transport = parts.transport.create(py, transport)?;
    hold_open(py, shared, sock)?;
    transport.base.set_protocol(py, protocol);
    transport.base.owner.set_transport(py, fd, Some(transport.object().borrow()))?;
    start(py, transport.instance(), true, given(py, waiter))?;
    Ok(transport)
}
