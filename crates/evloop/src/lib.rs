//! An event loop for Linux that knows neither Python nor the BEAM; everything else in this project is a skin on it.
//!
//! There are two floors. [`Core`] is a loop without a thread: a level-triggered epoll [`os::Poller`] with an eventfd and
//! a timerfd, [`timers::Timers`], an [`inbox::Inbox`], and the order in which a turn looks at them. Whoever has callbacks
//! of another kind builds on it. [`EventLoop`] is the loop for Rust: closures, timers, fds and futures, on a thread of
//! its own or turned by a [`Driver`].
//!
//! ```
//! use std::sync::mpsc;
//! use std::time::Duration;
//! use evloop::{Config, EventLoop, sleep};
//!
//! let events = EventLoop::new();
//! events.start(Config::named("example"))?;
//! let (tx, rx) = mpsc::channel();
//!
//! // From any thread: a closure, and a future.
//! let from_post = tx.clone();
//! events.post(move || drop(from_post.send("posted")))?;
//! events.spawn(async move {
//!     sleep(Duration::from_millis(1)).await?;
//!     drop(tx.send("slept"));
//!     Ok::<(), evloop::Error>(())
//! })?;
//! assert_eq!(rx.iter().collect::<Vec<_>>(), ["posted", "slept"]);
//!
//! // What was accepted has run, always.
//! let report = events.stop().report().unwrap_or_default();
//! assert_eq!((report.accepted, report.executed), (1, 1));
//! # Ok::<(), evloop::Error>(())
//! ```

mod core;
mod driver;
mod error;
mod event_loop;
pub mod inbox;
mod io;
mod job;
pub mod lifecycle;
mod local;
pub mod net;
pub mod os;
mod patience;
pub mod readiness;
mod shared;
mod sources;
mod stats;
mod sync;
mod task;
mod time;
pub mod timers;
mod token;

pub use crate::core::{Core, Counts, Tuning, Wait};
pub use crate::driver::{Driver, Turn};
pub use crate::error::{Error, Rejected, Result};
pub use crate::event_loop::{Config, EventLoop, StopOutcome, StopReport, TimerHandle, WeakLoop};
pub use crate::lifecycle::State;
pub use crate::local::Local;
pub use crate::os::Interest;
pub use crate::sources::{Fd, SourceKey};
pub use crate::stats::Stats;
pub use crate::task::{JoinError, JoinHandle};
pub use crate::time::{Delay, Elapsed, Sleep, sleep, timeout};
pub use crate::token::{LoopId, SourceToken, TimerToken, Token};

/// The manual's examples, run as tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/evloop.md")]
mod manual {}
