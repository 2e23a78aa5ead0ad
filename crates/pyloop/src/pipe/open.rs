//! Making transports over pipes.

use pyrt::{Args, Attached, PyResult, Typed};
use rustix::fs::FileType;

use super::end::{Pipe, describe, missing};
use super::read::ReadPipeTransport;
use super::write::WritePipeTransport;
use crate::module::Native;
use crate::transport::{Base, given, start};

/// `read_pipe_transport(loop, pipe, protocol, waiter=None, extra=None)`.
pub(crate) fn open_read(
    py: Attached<'_>,
    native: &Native,
    args: Args<'_>,
) -> PyResult<Typed<ReadPipeTransport>> {
    let (parts, shared) = (&native.pipe, &native.transport);
    let [Some(owner), Some(file), Some(protocol), waiter, extra] = parts.open_read.parse(py, &args)? else {
        return Err(missing(py));
    };
    let owner = native.event_loop.expect(py, owner)?.clone_ref(py);
    let extra = describe(py, shared, file, given(py, extra))?;
    let (pipe, fd) = Pipe::open(py, shared, file, "Pipe transport is for pipes/sockets only.")?;
    let base = Base::new(py, owner, fd, file, extra)?;
    let transport = parts.reading.create(py, ReadPipeTransport::new(base, pipe))?;
    transport.base.set_protocol(py, protocol);
    start(py, transport.instance(), true, given(py, waiter))?;
    Ok(transport)
}

/// `write_pipe_transport(loop, pipe, protocol, waiter=None, extra=None)`.
pub(crate) fn open_write(
    py: Attached<'_>,
    native: &Native,
    args: Args<'_>,
) -> PyResult<Typed<WritePipeTransport>> {
    let (parts, shared) = (&native.pipe, &native.transport);
    let [Some(owner), Some(file), Some(protocol), waiter, extra] = parts.open_write.parse(py, &args)? else {
        return Err(missing(py));
    };
    let owner = native.event_loop.expect(py, owner)?.clone_ref(py);
    let extra = describe(py, shared, file, given(py, extra))?;
    let refused = "Pipe transport is only for pipes, sockets and character devices";
    let (pipe, fd) = Pipe::open(py, shared, file, refused)?;
    // Of these epoll tells when nobody reads them any more.
    let listens = matches!(pipe.kind, FileType::Fifo | FileType::Socket);
    let base = Base::new(py, owner, fd, file, extra)?;
    let transport = parts.writing.create(py, WritePipeTransport::new(base, pipe))?;
    transport.base.set_protocol(py, protocol);
    start(py, transport.instance(), listens, given(py, waiter))?;
    Ok(transport)
}
