//! Redis on the loop: one thread, thousands of commands in flight. A [`Client`] has one connection or a few, gives permits
//! first come, first served, and keeps commands and replies in step whatever happens to those who wait for them.
//!
//! - A command is sent once. If its connection is lost before the reply, it fails; it is never sent again by itself.
//! - Who gives up (a deadline, a node that is cancelled) frees its permit at once; the reply is dropped when it comes.
//! - Commands that have not been sent wait for the next attempt to connect, and fail if that fails.
//!
//! The parser is ours because replies come in pieces: it goes on where it stopped, keeps the order of maps, and does not
//! recurse. In the tests `redis-protocol` says whether it is right.

mod client;
mod command;
mod config;
mod each;
mod link;
mod listener;
mod node;
mod parser;
mod value;

pub use client::{Call, Client, Counters};
pub use command::Command;
pub use config::{Address, Config, Protocol};
pub use each::each;
pub(crate) use each::{Asked, Asks};
pub use node::command;
pub use parser::Parser;
pub use value::Value;

use std::sync::Arc;
use std::time::Duration;

/// Why a command has no reply.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The server answered with an error.
    #[error("{0}")]
    Server(String),
    /// The connection was lost after the command was sent: it may have been carried out or not.
    #[error(
        "the connection was lost while the command was in flight, which may or may not have been carried out: {0}"
    )]
    Lost(Arc<str>),
    /// There is no connection; the command was not sent.
    #[error("no connection: {0}")]
    Unavailable(Arc<str>),
    /// The time given is over.
    #[error("no reply within {0:?}")]
    TimedOut(Duration),
    /// The client or its loop was closed.
    #[error("the client is closed")]
    Closed,
    /// The server sent what is no reply.
    #[error("not the protocol of Redis: {0}")]
    Protocol(&'static str),
}
