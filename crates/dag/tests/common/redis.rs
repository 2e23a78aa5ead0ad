//! What the tests of the Redis client share: a loop, and words for commands and replies.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

use std::future::Future;
use std::sync::mpsc;

use dag::redis::{Address, Command, Config, Protocol, Value};
use evloop::EventLoop;

pub fn events() -> EventLoop {
    let events = EventLoop::new();
    events.start(evloop::Config::default()).unwrap();
    events
}

/// Runs a future on the loop and waits for what it returns.
pub fn on_loop<T: Send + 'static>(events: &EventLoop, future: impl Future<Output = T> + Send + 'static) -> T {
    let (tx, rx) = mpsc::channel();
    events.spawn(async move { drop(tx.send(future.await)) }).unwrap();
    rx.recv().unwrap()
}

pub fn get(key: &str) -> Command {
    Command::new("GET").arg(key)
}

pub fn bytes(text: &str) -> Value {
    Value::Bytes(text.as_bytes().to_vec())
}

/// For a server of the tests, which does not know HELLO.
pub fn plain(address: std::net::SocketAddr) -> Config {
    let mut config = Config::new(Address::Tcp(address));
    config.protocol = Protocol::Resp2;
    config
}
