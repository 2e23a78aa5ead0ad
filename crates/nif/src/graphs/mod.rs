//! Graphs of work for Erlang and Python, behind `py_dag`: plans whose nodes are Python functions, coroutines, Erlang functions and
//! Redis commands. `dag` says what runs when; here is what running a node means.
//!
//! ```text
//!   plan     a term becomes a graph, checked and kept as a resource
//!   node     a node's future: handed to a context, a loop or a process, and given up by being dropped
//!   errand   an Erlang function's process: started by the host, killed when given up
//!   redis    commands made of inputs, and replies as terms
//!   run      one run: its owner, its events, its result
//!   value    what goes along the edges: terms, shared and never changed
//! ```
//!
//! Futures are made and polled on the loop of the scheduler, which never attaches to Python.

mod errand;
mod node;
mod plan;
mod redis;
mod run;
mod value;

use std::sync::{Mutex, OnceLock};

use dag::{Pool, PoolConfig, Scheduler};
use evloop::{Config, EventLoop};

pub(crate) use errand::{Errand, set_host};
pub(crate) use plan::PlanRef;
pub(crate) use run::{Options, RunRef, dot};

use crate::inbox::lock;

/// One for the VM. Its pool does little: what a node computes, it computes elsewhere.
static SCHEDULER: OnceLock<Scheduler> = OnceLock::new();

/// The scheduler, started by who asks first.
pub(crate) fn scheduler() -> Result<&'static Scheduler, String> {
    static STARTING: Mutex<()> = Mutex::new(());
    let _one_at_a_time = lock(&STARTING);
    if let Some(scheduler) = SCHEDULER.get() {
        return Ok(scheduler);
    }
    let mut config = PoolConfig::threads(1);
    config.name = String::from("py_dag");
    let events = EventLoop::new();
    events.start(Config::named("py_dag")).map_err(|error| error.to_string())?;
    let pool = Pool::new(config).map_err(|error| error.to_string())?;
    Ok(SCHEDULER.get_or_init(|| Scheduler::new(pool, events)))
}
