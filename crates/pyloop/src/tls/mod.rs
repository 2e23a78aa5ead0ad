//! TLS: the stdlib's `ssl` objects, driven from here. The loop's thread only, attached.
//!
//! ```text
//!   application   ◀── data_received ──  SslProtocol  ◀── get_buffer, buffer_updated ──   transport below
//!   SslTransport  ─── write ─────────▶               ─── write ──────────────────────▶   (the wire)
//!
//!   protocol   the class: what it is made of, and its tables       framing   where records end on the wire
//!   phase      the two state machines and their flags              engine    the SSL object, and what it reads from and writes to
//!   handshake  from connection_made to the application's           wire      the transport below; one of ours is called directly
//!   incoming   from the wire to the application                    app       the protocol above
//!   outgoing   from the application to the wire                    window    buffers shared by all connections of a loop
//!   shutdown   from close() or EOF to connection_lost              aim       a buffer that is the `bytes` an application gets
//!   transport  what the application holds                          limits    water marks
//!
//!   line       the bytes between OpenSSL and the wire              bio       by which OpenSSL reads and writes them
//!   openssl    the functions of the OpenSSL that `_ssl` uses       caught    which `SSL` was made by a call of `wrap_bio`
//!   direct     that `SSL`, called without its object
//! ```
//!
//! Behaviour is defined by the stdlib's `asyncio.sslproto` of the Python at hand. Four things are done with less:
//!
//! - `SSLWantReadError` costs microseconds to make. The ends of records are known here, so the SSL object is asked to read
//!   only when a whole record is there.
//! - What the application writes while it is handed data leaves with one write when it returns.
//! - OpenSSL reads what came where it lies, and what it writes is sent from where it put it: a BIO of ours takes the place of
//!   the two memory BIOs, where OpenSSL can be reached.
//! - It reads and writes data without the SSL object in between, where nobody else has that.

mod aim;
mod app;
mod bio;
mod caught;
mod direct;
mod engine;
mod framing;
mod handshake;
mod incoming;
mod limits;
mod line;
mod openssl;
mod outgoing;
mod part;
mod phase;
mod protocol;
mod shutdown;
mod transport;
mod window;
mod wire;

pub(crate) use part::Part;
pub(crate) use protocol::SslProtocol;
pub(crate) use window::Shared;
