//! `Engine`: an SSL object between two memory BIOs, with its methods at hand.
//!
//! `ssl.SSLObject` is a thin Python class around a native object; its methods are taken from the latter. A subclass set as
//! `SSLContext.sslobject_class` is asked itself.

use pyrt::{Attached, Borrowed, Fixed, Owned, PyResult, Raised, Traverse, Visit, Visited, confined};

use super::part::{Import, Part};

/// An SSL object and its BIOs.
pub(super) struct Engine {
    pub(super) object: Fixed,
    /// Nobody has put a class of his own in between.
    pub(super) is_plain: bool,
    read: Fixed,
    write: Fixed,
    handshake: Fixed,
    unwrap: Fixed,
    incoming: Fixed,
    incoming_write: Fixed,
    outgoing: Fixed,
    outgoing_read: Fixed,
}

confined!(Engine {
    object,
    is_plain,
    read,
    write,
    handshake,
    unwrap,
    incoming,
    incoming_write,
    outgoing,
    outgoing_read
});

impl Traverse for Engine {
    fn traverse(&self, visit: &mut Visit<'_>) -> Visited {
        [
            &self.object,
            &self.read,
            &self.write,
            &self.handshake,
            &self.unwrap,
            &self.incoming,
            &self.incoming_write,
            &self.outgoing,
            &self.outgoing_read,
        ]
        .into_iter()
        .try_for_each(|object| object.traverse(visit))
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
        let object = context.call_method(py, &names.wrap_bio, args)?;
        let plain_class = part.import(py, Import::SslObject)?;
        let is_plain = object.class(py).is(&plain_class);
        let inner = if is_plain { object.getattr(py, &names.inner)? } else { object.clone_ref(py) };
        let unwrap = if is_plain { &names.shutdown } else { &names.unwrap };
        Ok(Self {
            is_plain,
            read: inner.getattr(py, &names.read)?.into(),
            write: inner.getattr(py, &names.write)?.into(),
            handshake: inner.getattr(py, &names.do_handshake)?.into(),
            unwrap: inner.getattr(py, unwrap)?.into(),
            incoming_write: incoming.getattr(py, &names.write)?.into(),
            outgoing_read: outgoing.getattr(py, &names.read)?.into(),
            object: object.into(),
            incoming: incoming.into(),
            outgoing: outgoing.into(),
        })
    }

    /// Takes what came over the wire.
    #[inline]
    pub(super) fn put(&self, py: Attached<'_>, data: Borrowed<'_>) -> PyResult<()> {
        self.incoming_write.call(py, [data]).map(drop)
    }

    /// How much of that nobody has read yet.
    #[inline]
    pub(super) fn pending_in(&self, py: Attached<'_>, part: &Part) -> PyResult<usize> {
        self.incoming.getattr(py, &part.names.pending)?.to_usize(py)
    }

    /// How much waits to go out.
    #[inline]
    pub(super) fn pending_out(&self, py: Attached<'_>, part: &Part) -> PyResult<usize> {
        self.outgoing.getattr(py, &part.names.pending)?.to_usize(py)
    }

    /// Everything that is to go out.
    #[inline]
    pub(super) fn take(&self, py: Attached<'_>) -> PyResult<Owned> {
        self.outgoing_read.call0(py)
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

    /// Decrypts at most `size` bytes into a `bytes` of its own. Nothing if more has to come over the wire first, an empty one if
    /// the peer has closed.
    #[inline]
    pub(super) fn read_new(&self, py: Attached<'_>, part: &Part, size: usize) -> PyResult<Option<Owned>> {
        match self.read.call(py, [Owned::uint(py, size as u64)?.borrow()]) {
            Ok(data) => Ok(Some(data)),
            Err(raised) => again(py, part, raised).map(|()| None),
        }
    }

    /// Encrypts. How much was taken; nothing if something has to come over the wire first.
    #[inline]
    pub(super) fn write(&self, py: Attached<'_>, part: &Part, data: Borrowed<'_>) -> PyResult<Option<usize>> {
        match self.write.call(py, [data]) {
            Ok(count) => count.to_usize(py).map(Some),
            Err(raised) => again(py, part, raised).map(|()| None),
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

/// Forgets an exception that means "not yet", and passes any other on.
#[inline]
fn again(py: Attached<'_>, part: &Part, raised: Raised) -> PyResult<()> {
    let exception = raised.take(py);
    if exception.matches(py, &part.import(py, Import::Again)?) {
        return Ok(());
    }
    Err(exception.raise(py))
}
