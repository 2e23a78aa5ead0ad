//! The server side of HTTP/1.1 and WebSocket, as asyncio protocols on the loop of `pyloop`, with ASGI's scope, `receive` and `send`.
//!
//! ```text
//!   Site         an app with its limits and timeouts: makes connections                          [site]
//!   Connection   an asyncio protocol: bytes become requests, one after the other                  [connection, intake, ending]
//!     head, body, respond, frames   the bytes themselves; no Python there
//!     scope      what ASGI says about a request                                                  [scope]
//!   Exchange     one request: its receive and send                                               [exchange, outgoing]
//!   Socket       one WebSocket: its receive and send                                             [socket, speech]
//!   Now          what is awaited when there is nothing to wait for                                [now]
//! ```
//!
//! What can be done at once is done here, without a future and without a turn of the loop: a request that does not wait is read, served
//! by a task that takes its only step, and written, all while its bytes are received. Whatever has to wait is a coroutine of
//! `erlang._serve`, which asks again when there is news. The loop's thread only.

mod body;
mod connection;
mod ending;
mod exchange;
mod frames;
mod head;
mod intake;
mod message;
mod module;
mod now;
mod outgoing;
mod respond;
mod scope;
mod site;
mod socket;
mod speech;
mod waiters;

pub use module::{Web, init};
pub use pyrt::RawObject;
