//! TLS: the stdlib's `ssl` objects over memory BIOs, driven from here. The loop's thread only, attached.
//!
//! ```text
//!   application   ◀── data_received ──  SslProtocol  ◀── get_buffer, buffer_updated ──   transport below
//!   SslTransport  ─── write ─────────▶               ─── write ──────────────────────▶   (the wire)
//!
//!   protocol   the class: what it is made of, and its tables       framing   where records end on the wire
//!   phase      the two state machines and their flags              engine    the SSL object and its BIOs
//!   handshake  from connection_made to the application's           wire      the transport below; the seam for a fused path
//!   incoming   from the wire to the application                    app       the protocol above
//!   outgoing   from the application to the wire                    window    buffers shared by all connections of a loop
//!   shutdown   from close() or EOF to connection_lost              limits    water marks
//!   transport  what the application holds
//! ```
//!
//! Behaviour is defined by the stdlib's `asyncio.sslproto` of the Python at hand. Two things are done with less:
//!
//! - `SSLWantReadError` costs microseconds to make. The ends of records are known here, so the SSL object is asked to read
//!   only when a whole record is there.
//! - What the application writes while it is handed data leaves with one write when it returns.

mod app;
mod engine;
mod framing;
mod handshake;
mod incoming;
mod limits;
mod outgoing;
mod part;
mod phase;
mod protocol;
mod shutdown;
mod transport;
mod window;
mod wire;

pub(crate) use part::Part;
pub(crate) use window::Shared;
