//! Transports over pipes, and over sockets and character devices used as such: one class that reads, one that writes. The
//! loop's thread only.
//!
//! ```text
//!   end     the fd, and the calls on it
//!   read    readiness -> data_received; the end of the stream ends the transport
//!   write   at once if nothing waits, otherwise into the queue; a reader that leaves is noticed without a write
//!   open    what they are made of
//! ```
//!
//! A transport has an fd of its own, a duplicate of that of the Python file it was made of. So nobody else can close it and
//! have its number go to another; and a file may have two transports, as a terminal has. Both are closed at the end.
//!
//! What they share with other transports, their end among it, is in [`transport`](crate::transport).

mod end;
mod open;
mod parts;
mod read;
mod write;

pub(crate) use open::{open_read, open_write};
pub(crate) use parts::Parts;
