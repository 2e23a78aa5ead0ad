//! Streams: connect, read, write, half-close.

use std::future::poll_fn;
use std::io;
use std::net::{Shutdown, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_io::{AsyncRead, AsyncWrite};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, addr::SocketAddrArg,
    connect, recv, send, shutdown, socket_with, sockopt,
};

use crate::error::Error;
use crate::io::Io;
use crate::os::Interest;
use crate::readiness::Direction;

/// A TCP connection.
#[derive(Debug)]
pub struct TcpStream(Io);

/// A Unix stream connection.
#[derive(Debug)]
pub struct UnixStream(Io);

impl TcpStream {
    /// Connects to `address`.
    pub async fn connect(address: SocketAddr) -> io::Result<TcpStream> {
        let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        connected(family, &address).await.map(TcpStream)
    }

    /// The peer's address.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        let address = rustix::net::getpeername(self)?.ok_or(Errno::NOTCONN)?;
        Ok(SocketAddr::try_from(address)?)
    }

    /// This side's address.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(SocketAddr::try_from(rustix::net::getsockname(self)?)?)
    }

    /// Sends small writes at once instead of gathering them.
    pub fn set_nodelay(&self, on: bool) -> io::Result<()> {
        Ok(sockopt::set_tcp_nodelay(self, on)?)
    }
}

impl UnixStream {
    /// Connects to the socket at `path`.
    pub async fn connect(path: impl AsRef<Path>) -> io::Result<UnixStream> {
        let address = SocketAddrUnix::new(path.as_ref())?;
        connected(AddressFamily::UNIX, &address).await.map(UnixStream)
    }

    /// Two that are connected to each other.
    pub fn pair() -> io::Result<(UnixStream, UnixStream)> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let (a, b) = rustix::net::socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        Ok((UnixStream::from_fd(a)?, UnixStream::from_fd(b)?))
    }
}

async fn connected(family: AddressFamily, address: &impl SocketAddrArg) -> io::Result<Io> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let fd = socket_with(family, SocketType::STREAM, flags, None)?;
    let pending = match connect(&fd, address) {
        Ok(()) => false,
        // EINTR: the connect goes on by itself, like EINPROGRESS (connect(2)).
        Err(Errno::INPROGRESS | Errno::INTR) => true,
        // A Unix socket whose backlog is full says EAGAIN and does not go on.
        Err(error) => return Err(error.into()),
    };
    let io = Io::new(fd, if pending { Interest::BOTH } else { Interest::READ })?;
    if pending {
        io.used_up(Direction::Write);
        poll_fn(|cx| io.poll(cx, Direction::Write, |_| Ok(()))).await?;
        sockopt::socket_error(io.fd())??;
    }
    Ok(io)
}

fn poll_read(io: &Io, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
    let (n, _) = ready!(io.poll(cx, Direction::Read, |fd| recv(fd, &mut *buf, RecvFlags::empty())))?;
    // Less than asked for: there is no more now, and if there is by the next try, epoll says so. Saves the try.
    if n > 0 && n < buf.len() {
        io.used_up(Direction::Read);
    }
    Poll::Ready(Ok(n))
}

fn poll_write(io: &Io, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
    // A peer that is gone is an error, not a signal.
    io.poll(cx, Direction::Write, |fd| send(fd, buf, SendFlags::NOSIGNAL))
}

macro_rules! stream {
    ($name:ident) => {
        impl $name {
            pub(crate) fn from_fd(fd: OwnedFd) -> Result<$name, Error> {
                Io::new(fd, Interest::READ).map($name)
            }

            /// Closes one direction, or both.
            pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
                let how = match how {
                    Shutdown::Read => rustix::net::Shutdown::Read,
                    Shutdown::Write => rustix::net::Shutdown::Write,
                    Shutdown::Both => rustix::net::Shutdown::Both,
                };
                Ok(shutdown(self, how)?)
            }
        }

        impl AsFd for $name {
            fn as_fd(&self) -> BorrowedFd<'_> {
                self.0.fd().as_fd()
            }
        }

        impl AsyncRead for $name {
            fn poll_read(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                buf: &mut [u8],
            ) -> Poll<io::Result<usize>> {
                poll_read(&self.0, cx, buf)
            }
        }

        impl AsyncWrite for $name {
            fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
                poll_write(&self.0, cx, buf)
            }

            /// Nothing is held back.
            fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
                Poll::Ready(Ok(()))
            }

            /// Closes the writing direction; the peer's data can still be read.
            fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
                Poll::Ready(self.shutdown(Shutdown::Write))
            }
        }
    };
}

stream!(TcpStream);
stream!(UnixStream);
