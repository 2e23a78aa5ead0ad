//! Listeners: bind and accept.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, getsockname, listen,
    socket_with, sockopt,
};

use super::{TcpStream, UnixStream};
use crate::io::Io;
use crate::os::Interest;
use crate::readiness::Direction;

/// How many connections the kernel keeps for us to accept. It caps this at net.core.somaxconn.
const BACKLOG: i32 = 4096;

/// Listens for TCP connections.
#[derive(Debug)]
pub struct TcpListener(Io);

/// Listens for Unix stream connections.
#[derive(Debug)]
pub struct UnixListener(Io);

fn socket(family: AddressFamily) -> io::Result<OwnedFd> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    Ok(socket_with(family, SocketType::STREAM, flags, None)?)
}

/// One at a time: a second future that waits on the same listener would take the first one's place.
async fn accept(io: &mut Io) -> io::Result<OwnedFd> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    poll_fn(|cx| io.poll(cx, Direction::Read, |fd| accept_with(fd, flags))).await
}

impl TcpListener {
    /// Listens at `address`; port 0 takes a free one.
    pub fn bind(address: SocketAddr) -> io::Result<TcpListener> {
        let fd = socket(if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 })?;
        sockopt::set_socket_reuseaddr(&fd, true)?;
        bind(&fd, &address)?;
        listen(&fd, BACKLOG)?;
        Ok(TcpListener(Io::new(fd, Interest::READ)?))
    }

    /// The address listened at.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(SocketAddr::try_from(getsockname(self.0.fd())?)?)
    }

    /// The next connection.
    pub async fn accept(&mut self) -> io::Result<TcpStream> {
        Ok(TcpStream::from_fd(accept(&mut self.0).await?)?)
    }
}

impl UnixListener {
    /// Listens at `path`, which must not exist.
    pub fn bind(path: impl AsRef<Path>) -> io::Result<UnixListener> {
        let fd = socket(AddressFamily::UNIX)?;
        bind(&fd, &SocketAddrUnix::new(path.as_ref())?)?;
        listen(&fd, BACKLOG)?;
        Ok(UnixListener(Io::new(fd, Interest::READ)?))
    }

    /// The next connection.
    pub async fn accept(&mut self) -> io::Result<UnixStream> {
        Ok(UnixStream::from_fd(accept(&mut self.0).await?)?)
    }
}

impl AsFd for TcpListener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.fd().as_fd()
    }
}

impl AsFd for UnixListener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.fd().as_fd()
    }
}
