//! TLS 1.3 over TCP by rustls. The server's self-signed certificate is the only one that is trusted.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore};

use crate::link::{Link, tcp};

/// One read from the socket takes up to this much; rustls alone would ask for 4 KiB at a time.
const READ: usize = 256 * 1024;

pub(crate) struct Tls {
    socket: BufReader<TcpStream>,
    connection: ClientConnection,
}

pub(crate) fn config(certificate: &str) -> Result<Arc<ClientConfig>, String> {
    let trusted =
        CertificateDer::from_pem_file(certificate).map_err(|why| format!("{certificate}: {why}"))?;
    let mut roots = RootCertStore::empty();
    roots.add(trusted).map_err(|why| format!("{certificate}: {why}"))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(|why| why.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Arc::new(config))
}

impl Tls {
    /// Connected and shaken hands, blocking.
    pub(crate) fn connect(address: &str, config: &Arc<ClientConfig>) -> io::Result<Tls> {
        let mut socket = BufReader::with_capacity(READ, tcp(address)?);
        let name = ServerName::try_from("localhost").map_err(io::Error::other)?;
        let mut connection = ClientConnection::new(Arc::clone(config), name).map_err(io::Error::other)?;
        connection.set_buffer_limit(None);
        while connection.is_handshaking() {
            while connection.wants_write() {
                connection.write_tls(socket.get_mut())?;
            }
            if connection.is_handshaking() {
                take(&mut connection, &mut socket)?;
            }
        }
        let mut tls = Tls { socket, connection };
        tls.flush()?;
        Ok(tls)
    }
}

/// Reads once from the socket (or from what was read before) and decrypts it.
fn take(connection: &mut ClientConnection, socket: &mut BufReader<TcpStream>) -> io::Result<()> {
    if connection.read_tls(socket)? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    connection.process_new_packets().map_err(io::Error::other)?;
    Ok(())
}

impl AsFd for Tls {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.get_ref().as_fd()
    }
}

impl Link for Tls {
    /// Takes all of it: what the socket does not, `flush` hands on.
    fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.connection.writer().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        while self.connection.wants_write() {
            self.connection.write_tls(self.socket.get_mut())?;
        }
        Ok(())
    }

    fn recv(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.connection.reader().read(buffer) {
                Err(why) if why.kind() == io::ErrorKind::WouldBlock => {}
                answer => return answer,
            }
            if self.socket.buffer().is_empty() {
                self.socket.fill_buf()?;
            }
            take(&mut self.connection, &mut self.socket)?;
        }
    }

    /// Maybe: a whole record is needed, and `recv` finds out.
    fn holds_more(&self) -> bool {
        true
    }

    fn set_nonblocking(&self, on: bool) -> io::Result<()> {
        self.socket.get_ref().set_nonblocking(on)
    }
}
