//! The loop's `sock_*` methods. What is not a plain socket, and debug mode with its checks, is left to the stdlib's coroutines,
//! and so is whatever they complain about.

use pyrt::{Args, Attached, Borrowed, Buffer, Fixed, Guarded, Instance, Owned, PyResult};

use super::{Job, Operation, Phase, Progress, given, lost};
use crate::event_loop::Loop;

/// More than any program receives at once; what stands in memory for it is the stdlib's business.
const MOST: i64 = 1 << 30;

type Me<'a> = Instance<'a, Loop>;

impl Loop {
    pub(crate) fn sock_recv(py: Attached<'_>, this: Me<'_>, args: Args<'_>) -> PyResult<Owned> {
        let parts = &this.native().sock;
        let [Some(sock), Some(size)] = parts.recv.parse(py, &args)? else { return Err(lost(py)) };
        match size_of(py, size).filter(|_| this.is_plain(py, sock)) {
            Some(size) => this.begin(py, this, sock, Job::Recv(size), [None, None], None),
            None => this.by_stdlib(py, this, &parts.names.sock_recv, [sock, size]),
        }
    }

    pub(crate) fn sock_recv_into(py: Attached<'_>, this: Me<'_>, args: Args<'_>) -> PyResult<Owned> {
        let parts = &this.native().sock;
        let [Some(sock), Some(buffer)] = parts.recv_into.parse(py, &args)? else { return Err(lost(py)) };
        if this.is_plain(py, sock) && is_writable(py, buffer) {
            return this.begin(py, this, sock, Job::RecvInto, [Some(buffer), None], None);
        }
        this.by_stdlib(py, this, &parts.names.sock_recv_into, [sock, buffer])
    }

    pub(crate) fn sock_recvfrom(py: Attached<'_>, this: Me<'_>, args: Args<'_>) -> PyResult<Owned> {
        let parts = &this.native().sock;
        let [Some(sock), Some(size)] = parts.recvfrom.parse(py, &args)? else { return Err(lost(py)) };
        if this.is_plain(py, sock) {
            return this.begin(py, this, sock, Job::RecvFrom, [Some(size), None], None);
        }
        this.by_stdlib(py, this, &parts.names.sock_recvfrom, [sock, size])
    }

    pub(crate) fn sock_recvfrom_into(py: Attached<'_>, this: Me<'_>, args: Args<'_>) -> PyResult<Owned> {
        let parts = &this.native().sock;
        let [Some(sock), Some(buffer), size] = parts.recvfrom_into.parse(py, &args)? else {
            return Err(lost(py));
        };
        let zero = Owned::int(py, 0)?;
        let size = size.unwrap_or(zero.borrow());
        if this.is_plain(py, sock) && is_writable(py, buffer) && size.is_int() {
            // Zero stands for the whole buffer, there as here.
            return this.begin(py, this, sock, Job::RecvFromInto, [Some(buffer), Some(size)], None);
        }
        this.by_stdlib(py, this, &parts.names.sock_recvfrom_into, [sock, buffer, size])
    }

    pub(crate) fn sock_sendall(py: Attached<'_>, this: Me<'_>, args: Args<'_>) -> PyResult<Owned> {
        let parts = &this.native().sock;
        let [Some(sock), Some(data)] = parts.sendall.parse(py, &args)? else { return Err(lost(py)) };
        match bytes_of(py, data).filter(|_| this.is_plain(py, sock)) {
            Some(data) => this.begin(py, this, sock, Job::SendAll, [None, None], Some(data)),
            None => this.by_stdlib(py, this, &parts.names.sock_sendall, [sock, data]),
        }
    }

    pub(crate) fn sock_sendto(py: Attached<'_>, this: Me<'_>, args: Args<'_>) -> PyResult<Owned> {
        let parts = &this.native().sock;
        let [Some(sock), Some(data), Some(address)] = parts.sendto.parse(py, &args)? else {
            return Err(lost(py));
        };
        if this.is_plain(py, sock) {
            return this.begin(py, this, sock, Job::SendTo, [Some(data), Some(address)], None);
        }
        this.by_stdlib(py, this, &parts.names.sock_sendto, [sock, data, address])
    }

    pub(crate) fn sock_accept(py: Attached<'_>, this: Me<'_>, args: Args<'_>) -> PyResult<Owned> {
        let parts = &this.native().sock;
        let [Some(sock)] = parts.accept.parse(py, &args)? else { return Err(lost(py)) };
        if this.is_plain(py, sock) {
            return this.begin(py, this, sock, Job::Accept, [None, None], None);
        }
        this.by_stdlib(py, this, &parts.names.sock_accept, [sock])
    }

    /// The part of `sock_connect` that comes after the lookup. Of a plain socket only; `_sock.py` sees to that.
    pub(crate) fn sock_connect_to(py: Attached<'_>, this: Me<'_>, args: Args<'_>) -> PyResult<Owned> {
        let parts = &this.native().sock;
        let [Some(sock), Some(address)] = parts.connect.parse(py, &args)? else { return Err(lost(py)) };
        this.begin(py, this, sock, Job::Connect, [Some(address), None], None)
    }

    /// Whether it is a socket and nothing more, and nothing is to be checked.
    #[inline]
    fn is_plain(&self, py: Attached<'_>, sock: Borrowed<'_>) -> bool {
        !self.is_debug() && sock.class(py).is(&self.native().sock.socket)
    }

    fn begin(
        &self,
        py: Attached<'_>,
        this: Me<'_>,
        sock: Borrowed<'_>,
        job: Job,
        [first, second]: [Option<Borrowed<'_>>; 2],
        data: Option<Buffer>,
    ) -> PyResult<Owned> {
        let keep = |argument: Option<Borrowed<'_>>| argument.map(|value| Fixed::from(value.clone_ref(py)));
        let operation = Operation {
            owner: this.clone_ref(py),
            sock: sock.clone_ref(py).into(),
            job,
            first: keep(first),
            second: keep(second),
            progress: Guarded::new(Progress { phase: Phase::New, data, ..Progress::default() }),
        };
        self.native().sock.operation.create(py, operation).map(pyrt::Typed::into_object)
    }

    #[cold]
    fn by_stdlib<const N: usize>(
        &self,
        py: Attached<'_>,
        this: Me<'_>,
        name: &Fixed,
        args: [Borrowed<'_>; N],
    ) -> PyResult<Owned> {
        let function = self.native().sock.stdlib.get(py)?.getattr(py, name)?;
        let mut all = vec![this.object()];
        all.extend(args);
        function.call_slice(py, &all)
    }
}

/// A size that can be received.
#[inline]
fn size_of(py: Attached<'_>, size: Borrowed<'_>) -> Option<usize> {
    if !size.is_int() {
        return None;
    }
    match size.to_i64(py) {
        Ok(size) => usize::try_from(size).ok().filter(|_| size <= MOST),
        Err(raised) => {
            raised.clear(py);
            None
        }
    }
}

fn is_writable(py: Attached<'_>, buffer: Borrowed<'_>) -> bool {
    Buffer::write(py, &buffer).map_err(|raised| raised.clear(py)).is_ok()
}

/// The bytes of an object that is made of bytes, and not of larger items.
#[inline]
fn bytes_of(py: Attached<'_>, data: Borrowed<'_>) -> Option<Buffer> {
    let buffer = Buffer::read(py, &data).map_err(|raised| raised.clear(py)).ok()?;
    let plain = data.is_exact_bytes() || data.len(py).map_err(|raised| raised.clear(py)) == Ok(buffer.len());
    given(Some(data)).filter(|_| plain).map(|_| buffer)
}
