//! Runs graphs of work: functions on a pool of threads that steal from each other, coroutines on an event loop, with
//! deadlines, limits and fallbacks. Knows neither Python nor the BEAM.
//!
//! A [`Graph`] is written down, checked once by [`Graph::compile`], and the [`Plan`] is run any number of times by a
//! [`Scheduler`]. What goes along the edges is lent to functions and cloned for coroutines: an `Arc` is never copied.
//!
//! ```
//! use std::sync::Arc;
//! use dag::{Graph, Inputs, Pool, PoolConfig, RunOptions, Scheduler};
//! use evloop::{Config, EventLoop};
//!
//! let mut graph = Graph::new();
//! graph.input("viewer");
//! graph.task("follows", |viewer: Vec<u64>| async move { Ok::<u64, String>(viewer[0] + 1) }).inputs(["viewer"]);
//! graph.cpu("score", |inputs: Inputs<'_, u64>| Ok::<u64, String>(inputs.iter().sum())).inputs(["viewer", "follows"]);
//! let plan = Arc::new(graph.compile()?);
//!
//! let events = EventLoop::new();
//! events.start(Config::named("io"))?;
//! let scheduler = Scheduler::new(Pool::new(PoolConfig::default())?, events);
//! let mut runner = scheduler.runner(&plan);
//! let outputs = runner.run(RunOptions::default(), vec![("viewer".into(), 20)])?;
//! assert_eq!(outputs.get("score").unwrap().unwrap(), &41);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod error;
mod graph;
pub mod idle;
mod inputs;
mod limit;
mod lists;
mod map;
mod name;
mod node;
mod observe;
pub mod picture;
mod plan;
mod pool;
mod queue;
pub mod redis;
mod run;
mod scheduler;
mod sync;

pub use crate::error::{BoxError, Error, NodeError, RunError};
pub use crate::graph::{Graph, NodeBuilder, Region};
pub use crate::inputs::Inputs;
pub use crate::limit::Limit;
pub use crate::map::Each;
pub use crate::name::Name;
pub use crate::node::{GiveUp, Kind};
pub use crate::observe::{Event, Observer, Recorder, What};
pub use crate::plan::Plan;
pub use crate::pool::{Pool, PoolConfig};
pub use crate::run::{Mode, Outputs, Reply, Run, RunOptions, Runner};
pub use crate::scheduler::Scheduler;

/// Locks through poison: no user code runs under a lock, and every critical section leaves its data whole.
pub(crate) fn lock<T>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
