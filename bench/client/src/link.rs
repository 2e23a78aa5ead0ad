//! One connection to the server, whatever it runs over: what the echo machine asks of it.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

/// Blocking or not, as its socket is; a non-blocking one answers `WouldBlock`.
pub(crate) trait Link: AsFd {
    fn send(&mut self, bytes: &[u8]) -> io::Result<usize>;
    fn recv(&mut self, buffer: &mut [u8]) -> io::Result<usize>;
    /// Hands what it holds back to the socket.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
    /// It holds received bytes that the poller will not announce.
    fn holds_more(&self) -> bool {
        false
    }
    fn set_nonblocking(&self, on: bool) -> io::Result<()>;
    /// Datagrams may be lost, and come whole.
    const IS_DATAGRAM: bool = false;
}

macro_rules! plain {
    ($stream:ty) => {
        impl Link for $stream {
            fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
                self.write(bytes)
            }

            fn recv(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                self.read(buffer)
            }

            fn set_nonblocking(&self, on: bool) -> io::Result<()> {
                <$stream>::set_nonblocking(self, on)
            }
        }
    };
}

plain!(TcpStream);
plain!(UnixStream);

/// A TCP connection as the rows want it: nothing waits for more to send.
pub(crate) fn tcp(address: &str) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

pub(crate) fn fd<L: Link>(link: &L) -> BorrowedFd<'_> {
    link.as_fd()
}
