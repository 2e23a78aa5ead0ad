//! How a client of Redis is set up.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Where the server is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// At a TCP port.
    Tcp(SocketAddr),
    /// At a Unix socket.
    Unix(PathBuf),
}

/// Which version of the protocol is spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// The one all servers speak.
    Resp2,
    /// The one with maps, sets and booleans, asked for with HELLO.
    Resp3,
}

/// How a client is set up.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Config {
    /// Where the server is.
    pub address: Address,
    /// How many connections.
    pub connections: usize,
    /// How many commands may be in flight, over all connections.
    pub in_flight: usize,
    /// Which protocol is spoken.
    pub protocol: Protocol,
    /// User and password.
    pub auth: Option<(String, String)>,
    /// The time a command has unless it is given another.
    pub timeout: Option<Duration>,
    /// The time an attempt to connect has.
    pub connect_timeout: Duration,
    /// The first wait before another attempt to connect, doubled each time, and the longest.
    pub backoff: (Duration, Duration),
    /// How many replies nobody waits for any more may be outstanding on a connection before it is given up.
    pub abandoned: usize,
}

impl Config {
    /// A client of the server there: one connection, a thousand commands in flight, RESP3.
    pub fn new(address: Address) -> Config {
        Config {
            address,
            connections: 1,
            in_flight: 1_000,
            protocol: Protocol::Resp3,
            auth: None,
            timeout: None,
            connect_timeout: Duration::from_secs(5),
            backoff: (Duration::from_millis(10), Duration::from_secs(1)),
            abandoned: 10_000,
        }
    }
}
