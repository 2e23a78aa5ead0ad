//! `Engine`: an SSL object with its methods at hand, and the two directions between it and the wire.
//!
//! `ssl.SSLObject` is a thin Python class around a native object; its methods are taken from the latter. A subclass set as
//! `SSLContext.sslobject_class` is asked itself.
//!
//! It is made with two memory BIOs, as the stdlib does it. Where OpenSSL can be reached they are replaced by a [`Line`] at once;
//! the methods stay the same, and so does all that they return and raise. Those that read and write are passed by where nobody can
//! tell ([`Direct`]).

use std::ops::Range;
use std::sync::Arc;

use pyrt::{
    Attached, Borrowed, Fault, Fixed, Owned, PyResult, Raised, Room, Traverse, Visit, Visited, confined,
};

use super::aim::Aim;
use super::bio;
use super::caught::Catch;
use super::direct::Direct;
use super::line::Line;
use super::openssl::OpenSsl;
use super::part::{Import, Part};
use super::window::Shared;

/// An SSL object and its ends.
pub(super) struct Engine {
    pub(super) object: Fixed,
    /// Nobody has put a class of his own in between.
    pub(super) is_plain: bool,
    read: Fixed,
    write: Fixed,
    handshake: Fixed,
    unwrap: Fixed,
    ends: Ends,
}

/// By what an SSL object reads and writes.
enum Ends {
    Line(Arc<Line>, Option<Direct>),
    Memory(Memory),
}

/// Two memory BIOs.
struct Memory {
    incoming: Fixed,
    incoming_write: Fixed,
    outgoing: Fixed,
    outgoing_read: Fixed,
}

/// What is to go out.
pub(super) enum Outgoing {
    Bytes(Owned),
    Memory(Vec<u8>),
}

confined!(Memory { incoming, incoming_write, outgoing, outgoing_read });

// SAFETY: a line is shared with threads of any kind, the others are `Confined`.
unsafe impl pyrt::Confined for Ends {}

confined!(Engine { object, is_plain, read, write, handshake, unwrap, ends });

impl Traverse for Engine {
    fn traverse(&self, visit: &mut Visit<'_>) -> Visited {
        [&self.object, &self.read, &self.write, &self.handshake, &self.unwrap]
            .into_iter()
            .try_for_each(|object| object.traverse(visit))?;
        match &self.ends {
            Ends::Line(_, direct) => direct.traverse(visit),
            Ends::Memory(memory) => {
                [&memory.incoming, &memory.incoming_write, &memory.outgoing, &memory.outgoing_read]
                    .into_iter()
                    .try_for_each(|object| object.traverse(visit))
            }
        }
    }
}

impl Engine {
    pub(super) fn new(
        py: Attached<'_>,
        part: &Part,
        context: Borrowed<'_>,
        server_side: Borrowed<'_>,
        hostname: Borrowed<'_>,
    ) -> PyResult<Self> {
        let names = &part.names;
        let bio = part.import(py, Import::MemoryBio)?;
        let (incoming, outgoing) = (bio.call0(py)?, bio.call0(py)?);
        let args = [incoming.borrow(), outgoing.borrow(), server_side, hostname];
        let openssl = OpenSsl::get(py);
        let catch = openssl.and_then(Catch::begin);
        let object = context.call_method(py, &names.wrap_bio, args)?;
        let ssl = catch.and_then(Catch::end);
        let plain_class = part.import(py, Import::SslObject)?;
        let is_plain = object.class(py).is(&plain_class);
        let inner = if is_plain { object.getattr(py, &names.inner)? } else { object.clone_ref(py) };
        let may_be_direct = !is_listened_to(py, part, context);
        let line = match (openssl, ssl) {
            // SAFETY: made by the call above and not freed until it had returned; `fit` makes sure that it is the one of `inner`,
            // which keeps it and which nobody else has seen yet.
            (Some(openssl), Some(ssl)) if is_plain => unsafe {
                bio::fit(openssl, ssl, &inner).map(|line| {
                    let direct = may_be_direct.then(|| Direct::new(openssl, ssl, inner.clone_ref(py).into()));
                    (line, direct)
                })
            },
            _ => None,
        };
        let unwrap = if is_plain { &names.shutdown } else { &names.unwrap };
        Ok(Self {
            is_plain,
            read: inner.getattr(py, &names.read)?.into(),
            write: inner.getattr(py, &names.write)?.into(),
            handshake: inner.getattr(py, &names.do_handshake)?.into(),
            unwrap: inner.getattr(py, unwrap)?.into(),
            object: object.into(),
            ends: match line {
                Some((line, direct)) => Ends::Line(line, direct),
                None => Ends::Memory(Memory {
                    incoming_write: incoming.getattr(py, &names.write)?.into(),
                    outgoing_read: outgoing.getattr(py, &names.read)?.into(),
                    incoming: incoming.into(),
                    outgoing: outgoing.into(),
                }),
            },
        })
    }

    /// What it reads and writes, if those are no memory BIOs.
    #[inline]
    pub(super) fn line(&self) -> Option<&Line> {
        match &self.ends {
            Ends::Line(line, _) => Some(line),
            Ends::Memory(_) => None,
        }
    }

    /// Takes what came over the wire: the content of `data`, which is a buffer.
    #[inline]
    pub(super) fn put(&self, py: Attached<'_>, data: Borrowed<'_>) -> PyResult<()> {
        match &self.ends {
            Ends::Memory(memory) => memory.incoming_write.call(py, [data]).map(drop),
            Ends::Line(line, _) => {
                let kept = line.put(pyrt::Buffer::read(py, &data)?.as_slice());
                if kept { Ok(()) } else { Err(Fault::Memory.raise(py)) }
            }
        }
    }

    /// How much of that nobody has read yet.
    #[inline]
    pub(super) fn pending_in(&self, py: Attached<'_>, part: &Part) -> PyResult<usize> {
        match &self.ends {
            Ends::Line(line, _) => Ok(line.incoming()),
            Ends::Memory(memory) => memory.incoming.getattr(py, &part.names.pending)?.to_usize(py),
        }
    }

    /// How much waits to go out.
    #[inline]
    pub(super) fn pending_out(&self, py: Attached<'_>, part: &Part) -> PyResult<usize> {
        match &self.ends {
            Ends::Line(line, _) => Ok(line.outgoing()),
            Ends::Memory(memory) => memory.outgoing.getattr(py, &part.names.pending)?.to_usize(py),
        }
    }

    /// Everything that is to go out.
    #[inline]
    pub(super) fn take(&self, py: Attached<'_>) -> PyResult<Outgoing> {
        match &self.ends {
            Ends::Line(line, _) => Ok(Outgoing::Memory(line.take())),
            Ends::Memory(memory) => memory.outgoing_read.call0(py).map(Outgoing::Bytes),
        }
    }

    /// Decrypts into a buffer, of which at most `room` bytes are used; 0 for all of it. Nothing if more has to come over the
    /// wire first, 0 if the peer has closed.
    #[inline]
    pub(super) fn read(
        &self,
        py: Attached<'_>,
        part: &Part,
        room: usize,
        buffer: Borrowed<'_>,
    ) -> PyResult<Option<usize>> {
        let room = Owned::uint(py, room as u64)?;
        match self.read.call(py, [room.borrow(), buffer]) {
            Ok(count) => count.to_usize(py).map(Some),
            Err(raised) => again(py, part, raised).map(|()| None),
        }
    }

    /// [`read`](Self::read) into what is left of some room, beginning at `filled`.
    #[inline]
    pub(super) fn read_into(
        &self,
        py: Attached<'_>,
        part: &Part,
        shared: &Shared,
        room: &mut Room,
        filled: usize,
    ) -> PyResult<Option<usize>> {
        if let Some(direct) = self.direct() {
            let rest = room.space().get_mut(filled..).unwrap_or_default();
            if let Some(count) = direct.read(py, &self.object, rest) {
                return Ok(Some(count));
            }
        }
        let aim = shared.aim(py, &part.aim)?;
        Aim::at(aim.instance(), room, filled, |buffer| self.read(py, part, 0, buffer))
    }

    /// Encrypts. How much was taken; nothing if something has to come over the wire first.
    #[inline]
    pub(super) fn write(&self, py: Attached<'_>, part: &Part, data: Borrowed<'_>) -> PyResult<Option<usize>> {
        if data.is_exact_bytes()
            && let Some(count) = self.write_directly(py, data.to_bytes(py)?)
        {
            return Ok(Some(count));
        }
        match self.write.call(py, [data]) {
            Ok(count) => count.to_usize(py).map(Some),
            Err(raised) => again(py, part, raised).map(|()| None),
        }
    }

    /// [`write`](Self::write) for a part of a `bytes`.
    pub(super) fn write_part(
        &self,
        py: Attached<'_>,
        part: &Part,
        data: Borrowed<'_>,
        which: Range<usize>,
    ) -> PyResult<Option<usize>> {
        let bytes = data.to_bytes(py)?.get(which.clone()).unwrap_or_default();
        if let Some(count) = self.write_directly(py, bytes) {
            return Ok(Some(count));
        }
        // Without a copy.
        let view = Owned::memoryview(py, &data)?;
        let slice = Owned::slice(py, which.start as isize, which.end as isize)?;
        self.write(py, part, view.get_item(py, &slice)?.borrow())
    }

    #[inline]
    fn write_directly(&self, py: Attached<'_>, data: &[u8]) -> Option<usize> {
        self.direct().and_then(|direct| direct.write(py, &self.object, data))
    }

    /// Whether data passes the SSL object by, as things are.
    pub(super) fn is_direct(&self, py: Attached<'_>) -> bool {
        self.direct().is_some_and(|direct| direct.is_unseen(py, &self.object))
    }

    #[inline]
    fn direct(&self) -> Option<&Direct> {
        match &self.ends {
            Ends::Line(_, direct) => direct.as_ref(),
            Ends::Memory(_) => None,
        }
    }

    /// A step of the handshake. Whether it is complete.
    pub(super) fn handshake(&self, py: Attached<'_>, part: &Part) -> PyResult<bool> {
        match self.handshake.call0(py) {
            Ok(_) => Ok(true),
            Err(raised) => again(py, part, raised).map(|()| false),
        }
    }

    /// A step of the closing handshake. Whether it is complete.
    pub(super) fn unwrap(&self, py: Attached<'_>, part: &Part) -> PyResult<bool> {
        match self.unwrap.call0(py) {
            Ok(_) => Ok(true),
            Err(raised) => again(py, part, raised).map(|()| false),
        }
    }
}

/// Whether OpenSSL calls Python while it reads and writes data: with all messages, or to write down keys. The GIL may be given up
/// then, and what is raised goes out by the SSL object's methods. A context that does not say may have somebody to call.
fn is_listened_to(py: Attached<'_>, part: &Part, context: Borrowed<'_>) -> bool {
    [&part.names.msg_callback, &part.names.keylog_filename].into_iter().any(|name| {
        match context.getattr(py, name) {
            Ok(listener) => !listener.is_none(),
            Err(raised) => {
                raised.clear(py);
                true
            }
        }
    })
}

/// Forgets an exception that means "not yet", and passes any other on.
#[inline]
fn again(py: Attached<'_>, part: &Part, raised: Raised) -> PyResult<()> {
    let exception = raised.take(py);
    if exception.matches(py, &part.import(py, Import::Again)?) {
        return Ok(());
    }
    Err(exception.raise(py))
}
