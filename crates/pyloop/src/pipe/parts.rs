//! What pipe transports need of their interpreter beyond what all transports do. Part of the module's state.

use pyrt::{
    Attached, Borrowed, Owned, Params, PyResult, Signature, Traverse, Type, Visit, Visited, confined,
    import_from,
};

use super::read::ReadPipeTransport;
use super::write::WritePipeTransport;

const OPEN: [&str; 5] = ["loop", "pipe", "protocol", "waiter", "extra"];
const OPEN_READ: Signature<5> = Signature::function("read_pipe_transport", OPEN).required(3);
const OPEN_WRITE: Signature<5> = Signature::function("write_pipe_transport", OPEN).required(3);

/// One per interpreter.
pub(crate) struct Parts {
    pub(super) reading: Type<ReadPipeTransport>,
    pub(super) writing: Type<WritePipeTransport>,
    pub(super) open_read: Params<5>,
    pub(super) open_write: Params<5>,
}

confined!(Parts { reading, writing, open_read, open_write });

impl Parts {
    pub(crate) fn new(py: Attached<'_>, module: Borrowed<'_>) -> PyResult<Self> {
        let reads = import_from(py, c"asyncio.transports", c"ReadTransport")?;
        let writes = import_from(py, c"asyncio.transports", c"_FlowControlMixin")?;
        let reading = Type::add_to(py, &module, Some(&reads))?;
        reading.set_attr(py, c"max_size", &Owned::int(py, crate::transport::LARGEST as i64)?)?;
        Ok(Self {
            reading,
            writing: Type::add_to(py, &module, Some(&writes))?,
            open_read: Params::new(py, &OPEN_READ)?,
            open_write: Params::new(py, &OPEN_WRITE)?,
        })
    }
}

impl Traverse for Parts {
    fn traverse(&self, visit: &mut Visit<'_>) -> Visited {
        self.reading.traverse(visit)?;
        self.writing.traverse(visit)
    }
}
