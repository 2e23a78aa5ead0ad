//! `Socket`: the calls a transport makes on its fd, none of which blocks.
//!
//! They are made attached: each takes a few microseconds, and giving up the GIL for that would let a thread that computes keep
//! it for a whole switch interval, once per message.

use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;

use rustix::buffer::spare_capacity;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown};

/// The number of a connected stream socket that is not blocking.
#[derive(Clone, Copy)]
pub(crate) struct Socket(i32);

impl Socket {
    /// # Safety
    /// The fd is open, and stays so until the last call on this: its owner is alive and cannot close it.
    pub(crate) unsafe fn new(fd: i32) -> Self {
        Self(fd)
    }

    fn fd(&self) -> BorrowedFd<'_> {
        // SAFETY: open, by contract of `new`, so not -1 either.
        unsafe { BorrowedFd::borrow_raw(self.0) }
    }

    /// Reads into the spare room of a vector.
    #[inline]
    pub(crate) fn receive(self, room: &mut Vec<u8>) -> Result<usize, Errno> {
        rustix::net::recv(self.fd(), spare_capacity(room), RecvFlags::empty()).map(|(read, _)| read)
    }

    /// Reads into memory that need not be initialised. That many bytes at its start are, afterwards.
    #[inline]
    pub(crate) fn receive_raw(self, room: &mut [MaybeUninit<u8>]) -> Result<usize, Errno> {
        rustix::net::recv(self.fd(), room, RecvFlags::empty()).map(|((read, _), _)| read.len())
    }

    /// Reads into memory.
    #[inline]
    pub(crate) fn receive_into(self, room: &mut [u8]) -> Result<usize, Errno> {
        rustix::net::recv(self.fd(), room, RecvFlags::empty()).map(|(read, _)| read)
    }

    /// Sends what there is room for. A peer that is gone is an error, and no signal (send(2), MSG_NOSIGNAL).
    #[inline]
    pub(crate) fn send(self, data: &[u8]) -> Result<usize, Errno> {
        rustix::net::send(self.fd(), data, SendFlags::NOSIGNAL)
    }

    /// The same for several buffers at once.
    pub(crate) fn send_many(self, data: &[IoSlice<'_>]) -> Result<usize, Errno> {
        rustix::net::sendmsg(self.fd(), data, &mut SendAncillaryBuffer::default(), SendFlags::NOSIGNAL)
    }

    /// Small writes do not wait for the peer's acknowledgement (tcp(7), TCP_NODELAY).
    pub(crate) fn no_delay(self) -> Result<(), Errno> {
        rustix::net::sockopt::set_tcp_nodelay(self.fd(), true)
    }

    /// Tells the peer that nothing more comes; it may go on sending.
    pub(crate) fn end(self) -> Result<(), Errno> {
        rustix::net::shutdown(self.fd(), Shutdown::Write)
    }
}

/// Whether there is just nothing to be done now.
#[inline]
pub(crate) fn is_later(error: Errno) -> bool {
    error == Errno::AGAIN || error == Errno::INTR
}
