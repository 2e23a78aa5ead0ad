//! `Pipe`: the fd of a transport, and `End`: the calls on it, none of which blocks.

use std::fmt::Write as _;
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use evloop::Interest;
use pyrt::{Attached, Borrowed, Fault, Guarded, Instance, Kind, Owned, PyResult, confined};
use rustix::fs::FileType;
use rustix::io::Errno;

use crate::transport::{Base, Origin, Parts, Sink, Transport, os_error};

/// Above the numbers of stdin, stdout and stderr: a program may have closed those on purpose.
const LOWEST: i32 = 3;

/// An fd of one's own, until it is closed.
struct Duplicate {
    fd: Option<OwnedFd>,
}

confined!(Duplicate { fd });

/// The fd of a pipe transport, a duplicate that is its own.
pub(super) struct Pipe {
    own: Guarded<Duplicate>,
    /// The number that the Python file has.
    pub(super) number: i32,
    pub(super) kind: FileType,
}

confined!(Pipe { own, number, kind });

impl Pipe {
    /// Of a Python file, which does not block any more from now on. Also gives the number of the duplicate.
    pub(super) fn open(
        py: Attached<'_>,
        shared: &Parts,
        file: Borrowed<'_>,
        refused: &str,
    ) -> PyResult<(Self, i32)> {
        let number = file.call_method0(py, &shared.names.fileno)?.to_i32(py)?;
        if number < 0 {
            return Err(os_error(py, Errno::BADF));
        }
        // SAFETY: not negative; if nobody has it, the calls say so. No Python code runs before the last of them.
        let fd = unsafe { BorrowedFd::borrow_raw(number) };
        let raise = |error| os_error(py, error);
        let kind = FileType::from_raw_mode(rustix::fs::fstat(fd).map_err(raise)?.st_mode);
        if !matches!(kind, FileType::Fifo | FileType::Socket | FileType::CharacterDevice) {
            return Err(Kind::ValueError.raise(py, refused));
        }
        rustix::io::ioctl_fionbio(fd, true).map_err(raise)?;
        let own = rustix::io::fcntl_dupfd_cloexec(fd, LOWEST).map_err(raise)?;
        let duplicate = own.as_fd().as_raw_fd();
        Ok((Self { own: Guarded::new(Duplicate { fd: Some(own) }), number, kind }, duplicate))
    }

    /// The calls on it, as long as it is open.
    #[inline]
    pub(super) fn end(&self, py: Attached<'_>, base: &Base) -> Option<End> {
        base.is_open(py).then_some(End(base.fd))
    }

    /// Closes both: the duplicate, and the file. By now epoll has forgotten the duplicate.
    pub(super) fn close(&self, py: Attached<'_>, base: &Base, file: &Owned) -> PyResult<()> {
        drop(self.own.with(py, |own| own.fd.take())?);
        file.call_method0(py, &base.parts().names.close).map(drop)
    }

    /// `repr` of a transport, in asyncio's words.
    pub(super) fn repr<T: Transport>(
        &self,
        py: Attached<'_>,
        this: Instance<'_, T>,
        direction: Interest,
        size: Option<usize>,
    ) -> PyResult<String> {
        let base = this.payload().base();
        let open = base.is_open(py);
        let state = match (open, base.is_closing()) {
            (false, _) => " closed",
            (true, true) => " closing",
            (true, false) => "",
        };
        let mut text = format!("<{}{state} fd={}", this.object().class_name(py), self.number);
        text.push_str(match (open, base.owner.is_closed()) {
            (false, _) => " closed",
            (true, true) => " open",
            (true, false) if base.interest(py)?.contains(direction) => " polling",
            (true, false) => " idle",
        });
        if let Some(size) = size.filter(|_| open && !base.owner.is_closed()) {
            // Writing to a string does not fail.
            let _ = write!(text, " bufsize={size}");
        }
        text.push('>');
        Ok(text)
    }
}

/// `_extra`: what `get_extra_info` tells of a pipe.
pub(super) fn describe(
    py: Attached<'_>,
    shared: &Parts,
    file: Borrowed<'_>,
    extra: Option<Owned>,
) -> PyResult<Owned> {
    let extra = match extra {
        Some(extra) => extra,
        None => Owned::dict(py)?,
    };
    extra.dict_set(py, &shared.names.pipe, &file)?;
    Ok(extra)
}

/// The number of a pipe's own fd, for calls on it.
///
/// Made by [`Pipe::end`] of an open transport, whose duplicate is closed by [`Pipe::close`] only; users run no Python code
/// between the two.
#[derive(Clone, Copy)]
pub(super) struct End(i32);

impl End {
    fn fd(&self) -> BorrowedFd<'_> {
        // SAFETY: open, as told above, so not -1 either.
        unsafe { BorrowedFd::borrow_raw(self.0) }
    }
}

impl Origin for End {
    #[inline]
    fn receive(self, room: &mut [MaybeUninit<u8>]) -> Result<&[u8], Errno> {
        rustix::io::read(self.fd(), room).map(|(read, _)| &*read)
    }
}

/// SIGPIPE is ignored, as CPython and the BEAM see to.
impl Sink for End {
    #[inline]
    fn send(self, data: &[u8]) -> Result<usize, Errno> {
        rustix::io::write(self.fd(), data)
    }

    fn send_many(self, data: &[IoSlice<'_>]) -> Result<usize, Errno> {
        rustix::io::writev(self.fd(), data)
    }
}

/// Parsing has seen to it that this does not happen.
#[cold]
pub(super) fn missing(py: Attached<'_>) -> pyrt::Raised {
    Fault::system("a required argument was lost").raise(py)
}
