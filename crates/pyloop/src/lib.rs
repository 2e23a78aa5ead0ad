//! The asyncio event loop, native where it is hot: handles, the ready queue, timers, readers and writers, turns.
//!
//! ```text
//!   Loop (class)        what Python calls: scheduling, readers and writers, run
//!     Guarded<State>    the core (epoll, timers, inbox), the ready queue, which fd is whose    [state]
//!       Entry           what is ready: a Handle, a TimerHandle, a foreign handle, a native source  [entry]
//!   SocketTransport     a TCP or Unix connection: reads, writes, flow control, its end         [stream]
//!   DatagramTransport   a UDP or Unix datagram socket                                        [datagram]
//!   ReadPipeTransport, WritePipeTransport                                                   [pipe]
//!   Operation           one sock_* call: what is awaited                                        [sock]
//!   Child               a child process, until it has ended                                    [child]
//!   Poster              the way in for threads that are not attached                             [post]
//!   Handle, TimerHandle callback and up to three arguments without a tuple, in a context       [bound, handle, timer]
//! ```
//!
//! Policy, rare paths and glue are asyncio's own: `erlang.ErlangEventLoop` inherits from `Loop` first and from the stdlib's
//! loop of the same Python second. Only the loop's thread turns it; every method may be called by any attached thread, and
//! nothing of the state is borrowed while Python code runs or the thread is detached.

mod along;
mod arguments;
mod batch;
mod bound;
mod call;
mod child;
mod clock;
mod datagram;
mod entry;
mod event_loop;
mod exclusive;
mod fault;
mod files;
mod handle;
mod listeners;
mod module;
mod pipe;
mod post;
mod readers;
mod roster;
mod schedule;
mod sock;
mod sources;
mod state;
mod stream;
mod tasks;
mod timer;
mod tls;
mod transport;
mod turn;

pub use entry::{Posted, ReadyFn};
pub use event_loop::Loop;
pub use module::{Native, init};
pub use post::Poster;
pub use pyrt::RawObject;
