//! What datagram transports need of their interpreter beyond what all transports do. Part of the module's state.

use pyrt::{
    Attached, Borrowed, Owned, Params, PyResult, Signature, Traverse, Type, Visit, Visited, confined,
    import_from,
};

use super::DatagramTransport;

const OPEN: Signature<6> =
    Signature::function("datagram_transport", ["loop", "sock", "protocol", "address", "waiter", "extra"])
        .required(3);
const SENDTO: Signature<2> =
    Signature::method("_SelectorDatagramTransport.sendto", ["data", "addr"]).required(1);

/// One per interpreter.
pub(crate) struct Parts {
    pub(crate) transport: Type<DatagramTransport>,
    pub(crate) open: Params<6>,
    pub(crate) sendto: Params<2>,
    /// 3.13 and later: an empty datagram is sent like any other.
    pub(crate) sends_nothing: bool,
    /// What a datagram that waits is counted for beyond its content: 3.13 and later count its header.
    pub(crate) header: usize,
}

confined!(Parts { transport, open, sendto, sends_nothing, header });

impl Parts {
    pub(crate) fn new(py: Attached<'_>, module: Borrowed<'_>, version: i64) -> PyResult<Self> {
        let mixin = import_from(py, c"asyncio.transports", c"_FlowControlMixin")?;
        let datagram = import_from(py, c"asyncio.transports", c"DatagramTransport")?;
        // One class with both kinds of bases and no room of its own.
        let name = Owned::str(py, "_DatagramTransport")?;
        let bases = Owned::tuple(py, [mixin, datagram])?;
        let content = Owned::dict(py)?;
        content.dict_set(py, &Owned::interned(py, c"__slots__")?, &Owned::tuple(py, [])?)?;
        let class = import_from(py, c"builtins", c"type")?;
        let base = class.call(py, [name.borrow(), bases.borrow(), content.borrow()])?;
        let transport = Type::add_to(py, &module, Some(&base))?;
        transport.set_attr(py, c"max_size", &Owned::int(py, crate::transport::LARGEST as i64)?)?;
        let has_header = version >= 0x030d_0000;
        Ok(Self {
            transport,
            open: Params::new(py, &OPEN)?,
            sendto: Params::new(py, &SENDTO)?,
            sends_nothing: has_header,
            header: if has_header { 8 } else { 0 },
        })
    }
}

impl Traverse for Parts {
    fn traverse(&self, visit: &mut Visit<'_>) -> Visited {
        self.transport.traverse(visit)
    }
}
