//! `Wire`: the transport below. Any transport will do; a native one can be told apart here and called directly.

use pyrt::{Attached, Borrowed, ObjCell, Owned, PyResult, Traverse, Visit, Visited, confined};

use super::part::Part;

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
