//! `Peers`: addresses in Python's form and in the kernel's. Lives in a transport, under its guard; runs no Python code.
//!
//! Who sent last and who was sent to last are remembered with both forms. A server that answers hands back the very object it
//! was given, so nothing is looked up; and a peer that sends again costs no new object, also if others did in between.

use std::fmt::Write as _;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddrV4, SocketAddrV6};

use pyrt::{Attached, Borrowed, Owned, PyResult, Traverse, Visit, Visited, confined};
use rustix::net::{AddressFamily, SocketAddrAny};

/// Where the path of a Unix address begins (unix(7)): after its family.
const PATH: usize = 2;

/// An address in both forms.
pub(super) struct Peer {
    pub(super) address: SocketAddrAny,
    pub(super) name: Owned,
}

// SAFETY: a reference, and plain memory.
unsafe impl pyrt::Confined for Peer {}

/// Who sent last, who was sent to last, and what those who sent lately are called.
#[derive(Default)]
pub(super) struct Peers {
    from: Option<Peer>,
    to: Option<Peer>,
    names: Names,
}

confined!(Peers { from, to, names });

impl Traverse for Peers {
    fn traverse(&self, visit: &mut Visit<'_>) -> Visited {
        // The other names are made here, of a str and an int, which refer to nothing.
        [&self.from, &self.to].into_iter().flatten().try_for_each(|peer| peer.name.traverse(visit))
    }
}

impl Peers {
    /// The address that goes by this very object.
    #[inline]
    pub(super) fn find(&self, name: Borrowed<'_>) -> Option<&SocketAddrAny> {
        [&self.from, &self.to]
            .into_iter()
            .flatten()
            .find(|peer| peer.name.is(&name))
            .map(|peer| &peer.address)
    }

    /// The name of a sender, if it has sent before. It is the last one from now on; who was it before comes back, to be dropped
    /// outside of the guard.
    #[inline]
    pub(super) fn recognise(
        &mut self,
        py: Attached<'_>,
        address: &SocketAddrAny,
    ) -> Option<(Owned, Option<Peer>)> {
        if let Some(last) = self.from.as_ref().filter(|peer| peer.address == *address) {
            return Some((last.name.clone_ref(py), None));
        }
        let name = self.names.get(py, address)?;
        let peer = Peer { address: address.clone(), name: name.clone_ref(py) };
        Some((name, self.from.replace(peer)))
    }

    /// Remembers a sender. What was remembered before comes back, likewise.
    #[must_use = "to be dropped outside of the guard"]
    pub(super) fn sent(&mut self, py: Attached<'_>, peer: Peer) -> (Option<Peer>, Option<Owned>) {
        // Who is alone needs no table.
        let forgotten = if self.from.is_some() { self.names.put(py, &peer) } else { None };
        (self.from.replace(peer), forgotten)
    }

    /// Remembers one who was sent to, likewise.
    #[must_use = "to be dropped outside of the guard"]
    pub(super) fn sent_to(&mut self, peer: Peer) -> Option<Peer> {
        self.to.replace(peer)
    }
}

/// A name, and the address it is for.
struct Named {
    number: u64,
    name: Owned,
}

confined!(Named { number, name });

/// Names by address, for IPv4. Two that have the same place take turns.
#[derive(Default)]
struct Names {
    places: Vec<Option<Named>>,
}

confined!(Names { places });

impl Names {
    const BITS: u32 = 8;

    #[inline]
    fn get(&self, py: Attached<'_>, address: &SocketAddrAny) -> Option<Owned> {
        if self.places.is_empty() {
            return None;
        }
        let number = number_of(address)?;
        match self.places.get(Self::place(number)) {
            Some(Some(known)) if known.number == number => Some(known.name.clone_ref(py)),
            _ => None,
        }
    }

    /// Who had the place comes back.
    fn put(&mut self, py: Attached<'_>, peer: &Peer) -> Option<Owned> {
        let number = number_of(&peer.address)?;
        if self.places.is_empty() {
            self.places.resize_with(1 << Self::BITS, || None);
        }
        let place = self.places.get_mut(Self::place(number))?;
        place.replace(Named { number, name: peer.name.clone_ref(py) }).map(|before| before.name)
    }

    /// Neighbours, as ports given out in turn are, get different places (Knuth's multiplicative hash).
    #[inline]
    fn place(number: u64) -> usize {
        (number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (u64::BITS - Self::BITS)) as usize
    }
}

/// An IPv4 address and its port.
#[inline]
fn number_of(address: &SocketAddrAny) -> Option<u64> {
    if address.address_family() != AddressFamily::INET {
        return None;
    }
    let v4 = SocketAddrV4::try_from(address.clone()).ok()?;
    Some(u64::from(v4.ip().to_bits()) << 16 | u64::from(v4.port()))
}

/// An address as Python's sockets tell it.
pub(crate) fn name_of(py: Attached<'_>, address: &SocketAddrAny) -> PyResult<Owned> {
    match address.address_family() {
        AddressFamily::INET => match SocketAddrV4::try_from(address.clone()) {
            Ok(v4) => ipv4(py, v4),
            Err(_) => Ok(Owned::none(py)),
        },
        AddressFamily::INET6 => match SocketAddrV6::try_from(address.clone()) {
            Ok(v6) => ipv6(py, &v6),
            Err(_) => Ok(Owned::none(py)),
        },
        AddressFamily::UNIX => unix(py, address),
        _ => Ok(Owned::none(py)),
    }
}

/// [`name_of`], but for IPv4 a number, a fifth as large: [`full_name`] makes a name of it.
pub(crate) fn small_name(py: Attached<'_>, address: &SocketAddrAny) -> PyResult<Owned> {
    match number_of(address) {
        Some(number) => Owned::uint(py, number),
        None => name_of(py, address),
    }
}

/// The name behind one that was kept small; any other as it is.
pub(crate) fn full_name(py: Attached<'_>, name: Owned) -> PyResult<Owned> {
    if !name.is_int() {
        return Ok(name);
    }
    let number = name.to_i64(py)?;
    ipv4(py, SocketAddrV4::new(Ipv4Addr::from_bits((number >> 16) as u32), number as u16))
}

fn ipv4(py: Attached<'_>, address: SocketAddrV4) -> PyResult<Owned> {
    let mut text = Text::default();
    for (index, octet) in address.ip().octets().into_iter().enumerate() {
        if index > 0 {
            text.push(b'.');
        }
        text.decimal(octet);
    }
    Owned::tuple(py, [text.into_str(py)?, Owned::int(py, address.port().into())?])
}

fn ipv6(py: Attached<'_>, address: &SocketAddrV6) -> PyResult<Owned> {
    let mut text = Text::default();
    // Writing into its room does not fail, and an address never fills it.
    let _ = match address.ip().segments() {
        // inet_ntop(3) writes the low part of such addresses as IPv4.
        [0, 0, 0, 0, 0, 0, high, low] if high != 0 => {
            write!(text, "::{}", Ipv4Addr::from((u32::from(high) << 16) | u32::from(low)))
        }
        _ => write!(text, "{}", address.ip()),
    };
    let host = text.into_str(py)?;
    let port = Owned::int(py, address.port().into())?;
    let flow = Owned::int(py, address.flowinfo().into())?;
    Owned::tuple(py, [host, port, flow, Owned::int(py, address.scope_id().into())?])
}

/// A path, an abstract name as `bytes`, or the empty path of a socket without a name.
fn unix(py: Attached<'_>, address: &SocketAddrAny) -> PyResult<Owned> {
    // SAFETY: an address of that length, in storage of its own; plain bytes.
    let all =
        unsafe { std::slice::from_raw_parts(address.as_ptr().cast::<u8>(), address.addr_len() as usize) };
    match all.get(PATH..).unwrap_or_default() {
        name @ [0, ..] => Owned::bytes(py, name),
        path => Owned::fs_str(py, path.split(|byte| *byte == 0).next().unwrap_or_default()),
    }
}

/// An address given by a program, if it can be told without asking anybody: a literal and numbers. Everything else (names,
/// zones, `<broadcast>`, and what is wrong) is for Python's sockets.
pub(super) fn address_of(
    py: Attached<'_>,
    name: Borrowed<'_>,
    family: AddressFamily,
) -> Option<SocketAddrAny> {
    let (host, port, rest) = match name.as_tuple(py) {
        Ok([host, port, rest @ ..]) if host.is_str() && port.is_int() => (host, port, rest),
        Ok(_) => return None,
        Err(raised) => {
            raised.clear(py);
            return None;
        }
    };
    let host = quiet(py, host.to_str(py))?;
    let port = number(py, *port).and_then(|port| u16::try_from(port).ok())?;
    match (family, rest) {
        (AddressFamily::INET, []) => Some(SocketAddrV4::new(host.parse().ok()?, port).into()),
        (AddressFamily::INET6, [] | [_] | [_, _]) => {
            let host: Ipv6Addr = host.parse().ok()?;
            let mut numbers = rest.iter().map(|part| number(py, *part));
            let flow = numbers.next().unwrap_or(Some(0)).filter(|flow| *flow <= 0xf_ffff)?;
            let scope = numbers.next().unwrap_or(Some(0))?;
            Some(SocketAddrV6::new(host, port, flow, scope).into())
        }
        _ => None,
    }
}

fn number(py: Attached<'_>, value: Borrowed<'_>) -> Option<u32> {
    if !value.is_int() {
        return None;
    }
    quiet(py, value.to_i64(py)).and_then(|value| u32::try_from(value).ok())
}

fn quiet<T>(py: Attached<'_>, result: PyResult<T>) -> Option<T> {
    result.map_err(|raised| raised.clear(py)).ok()
}

/// The text of an address, without an allocation.
struct Text {
    room: [u8; 64],
    length: usize,
}

impl Default for Text {
    fn default() -> Self {
        Self { room: [0; 64], length: 0 }
    }
}

impl Text {
    fn push(&mut self, byte: u8) {
        if let Some(place) = self.room.get_mut(self.length) {
            *place = byte;
            self.length += 1;
        }
    }

    fn decimal(&mut self, number: u8) {
        if number >= 100 {
            self.push(b'0' + number / 100);
        }
        if number >= 10 {
            self.push(b'0' + number / 10 % 10);
        }
        self.push(b'0' + number % 10);
    }

    fn into_str(self, py: Attached<'_>) -> PyResult<Owned> {
        let text = self.room.get(..self.length).unwrap_or_default();
        Owned::str(py, std::str::from_utf8(text).unwrap_or_default())
    }
}

impl std::fmt::Write for Text {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        text.bytes().for_each(|byte| self.push(byte));
        Ok(())
    }
}
