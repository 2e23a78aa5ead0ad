//! Sockets for Rust futures on a loop: TCP and Unix streams and listeners, with the `AsyncRead` and `AsyncWrite` of
//! `futures-io`, so that clients written against these run on the loop. A socket is made in a future or callback on the
//! loop it belongs to; after that it may be used and dropped anywhere.

mod listener;
mod stream;

pub use listener::{TcpListener, UnixListener};
pub use stream::{TcpStream, UnixStream};
