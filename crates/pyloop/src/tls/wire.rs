//! `Wire`: the transport below. Any transport will do; one of our own is told apart here, and written to without an object in between.

use pyrt::{Attached, Borrowed, ObjCell, Owned, PyResult, Traverse, Visit, Visited, confined};

use super::part::Part;
use crate::module::Native;
use crate::stream::SocketTransport;

/// The transport below, while there is one.
#[derive(Default)]
pub(super) struct Wire {
    transport: ObjCell,
}

confined!(Wire { transport });

impl Traverse for Wire {
    fn traverse(&self, visit: &mut Visit<'_>) -> Visited {
        self.transport.traverse(visit)
    }

    fn clear(&self, py: Attached<'_>) {
        self.transport.clear(py);
    }
}

impl Wire {
    pub(super) fn set(&self, py: Attached<'_>, transport: Borrowed<'_>) {
        self.transport.set(py, transport.clone_ref(py));
    }

    pub(super) fn forget(&self, py: Attached<'_>) {
        drop(self.transport.take(py));
    }

    pub(super) fn get(&self, py: Attached<'_>) -> Option<Owned> {
        self.transport.get(py)
    }

    #[inline]
    pub(super) fn write(&self, py: Attached<'_>, part: &Part, data: &Owned) -> PyResult<()> {
        match self.transport.get(py) {
            Some(transport) => transport.call_method1(py, &part.names.write, data).map(drop),
            None => Ok(()),
        }
    }

    /// [`write`](Self::write) for memory that is used again afterwards: what a transport of ours cannot send at once it copies.
    #[inline]
    pub(super) fn write_slice(&self, py: Attached<'_>, native: &Native, data: &[u8]) -> PyResult<()> {
        let Some(transport) = self.transport.get(py) else { return Ok(()) };
        match native.stream.transport.downcast(transport.borrow()) {
            Some(ours) if native.stream.transport.is_exact(&transport) && ours.is_untouched(py) => {
                SocketTransport::write_slice(py, ours, data)
            }
            _ => {
                let data = Owned::bytes(py, data)?;
                transport.call_method1(py, &native.tls.names.write, &data).map(drop)
            }
        }
    }

    /// Whether it is one of our own.
    #[inline]
    pub(super) fn is_ours(&self, py: Attached<'_>, native: &Native) -> bool {
        self.transport.get(py).is_some_and(|transport| native.stream.transport.is_exact(&transport))
    }

    pub(super) fn pause_reading(&self, py: Attached<'_>, part: &Part) -> PyResult<()> {
        match self.transport.get(py) {
            Some(transport) => transport.call_method0(py, &part.names.pause_reading).map(drop),
            None => Ok(()),
        }
    }

    pub(super) fn resume_reading(&self, py: Attached<'_>, part: &Part) -> PyResult<()> {
        match self.transport.get(py) {
            Some(transport) => transport.call_method0(py, &part.names.resume_reading).map(drop),
            None => Ok(()),
        }
    }

    pub(super) fn close(&self, py: Attached<'_>, part: &Part) -> PyResult<()> {
        match self.transport.get(py) {
            Some(transport) => transport.call_method0(py, &part.names.close).map(drop),
            None => Ok(()),
        }
    }

    /// Ends it at once, for a reason or for none.
    pub(super) fn force_close(
        &self,
        py: Attached<'_>,
        part: &Part,
        reason: Option<Borrowed<'_>>,
    ) -> PyResult<()> {
        let Some(transport) = self.transport.get(py) else { return Ok(()) };
        match reason {
            Some(reason) => transport.call_method1(py, &part.names.force_close, &reason).map(drop),
            None => transport.call_method0(py, &part.names.abort).map(drop),
        }
    }
}
