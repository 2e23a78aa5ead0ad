//! `App`: the protocol above, and its methods for buffers if it has them.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use pyrt::{Attached, Borrowed, ObjCell, Owned, PyResult, Traverse, Visit, Visited, confined};

use super::part::{Import, Part};

/// The protocol that is given the data.
#[derive(Default)]
pub(super) struct App {
    protocol: ObjCell,
    is_buffered: AtomicBool,
    get_buffer: ObjCell,
    buffer_updated: ObjCell,
}

confined!(App { protocol, is_buffered, get_buffer, buffer_updated });

impl Traverse for App {
    fn traverse(&self, visit: &mut Visit<'_>) -> Visited {
        self.protocol.traverse(visit)?;
        self.get_buffer.traverse(visit)?;
        self.buffer_updated.traverse(visit)
    }

    fn clear(&self, py: Attached<'_>) {
        self.protocol.clear(py);
        self.get_buffer.clear(py);
        self.buffer_updated.clear(py);
    }
}

impl App {
    pub(super) fn set(&self, py: Attached<'_>, part: &Part, protocol: Borrowed<'_>) -> PyResult<()> {
        self.protocol.set(py, protocol.clone_ref(py));
        let get_buffer = protocol.getattr_opt(py, &part.names.get_buffer)?;
        let is_buffered =
            get_buffer.is_some() && protocol.is_instance(py, &part.import(py, Import::BufferedProtocol)?)?;
        let (get_buffer, buffer_updated) = if is_buffered {
            (get_buffer, Some(protocol.getattr(py, &part.names.buffer_updated)?))
        } else {
            (None, None)
        };
        drop(self.get_buffer.replace(py, get_buffer));
        drop(self.buffer_updated.replace(py, buffer_updated));
        self.is_buffered.store(is_buffered, Relaxed);
        Ok(())
    }

    #[inline]
    pub(super) fn get(&self, py: Attached<'_>) -> Option<Owned> {
        self.protocol.get(py)
    }

    /// Lets go of the protocol.
    pub(super) fn forget(&self, py: Attached<'_>) {
        self.clear(py);
    }

    #[inline]
    pub(super) fn is_buffered(&self) -> bool {
        self.is_buffered.load(Relaxed)
    }

    /// `get_buffer` and `buffer_updated`.
    pub(super) fn buffer_methods(&self, py: Attached<'_>) -> Option<(Owned, Owned)> {
        Some((self.get_buffer.get(py)?, self.buffer_updated.get(py)?))
    }
}
