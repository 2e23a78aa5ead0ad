//! What the transports share: stream sockets, datagram sockets, pipes. The loop's thread only.
//!
//! ```text
//!   base     loop, fd and what it is listened to for, protocol, whether it is closing
//!   start    connection_made, the first listening, the waiter: scheduled in this order
//!   end      connection_lost in a turn of its own, out of epoll, then closed; what is left open is said
//!   flow     water marks, pause_writing and resume_writing
//!   intake   reading a stream of bytes
//!   outgo    writing one, at once or into the queue
//!   heap     the memory of messages stays with the process
//!   queue    what was written and is not sent yet, of a stream of bytes
//!   scratch  the buffer that small reads of all of them go to first
//!   socket   the calls on a socket; Python sockets held open, and described
//!   table    which transport has an fd
//!   rows     the methods and attributes that all of them have
//!   parts    names and imports, one set per interpreter
//! ```
//!
//! A class of its own for each kind; what they have in common is generic over [`Transport`] and [`Paced`].

mod base;
mod end;
mod flow;
mod heap;
mod intake;
mod outgo;
mod parts;
mod queue;
mod rows;
mod scratch;
mod socket;
mod start;
mod table;

pub(crate) use base::{Base, Transport, debug, listen, listen_also, listen_no_more, note, remember_context};
pub(crate) use end::{call_connection_lost, fatal, finalize, force_close, is_expected, lose, reportable};
pub(crate) use flow::{Flow, Paced, maybe_pause, maybe_resume};
pub(crate) use intake::{Intake, LARGE, Origin};
pub(crate) use outgo::{Streaming, listen_for_room, put, send_rest};
pub(crate) use parts::Parts;
pub(crate) use queue::{Queue, Sink};
pub(crate) use rows::{Rows, set_flag, set_to};
pub(crate) use scratch::{PAGE, Scratch};
pub(crate) use socket::{Socket, close_socket, describe, hold_open, is_later, os_error, socket_repr};
pub(crate) use start::{given, start};
pub(crate) use table::Table;

/// Writes to a lost connection that pass without a word (asyncio's LOG_THRESHOLD_FOR_CONNLOST_WRITES).
const SILENT: u32 = 5;

/// The most that one read brings.
pub(crate) const LARGEST: usize = 256 * 1024;
