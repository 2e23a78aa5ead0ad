//! `Scheduler`: a pool for CPU nodes and a loop for coroutines and deadlines, on which plans are run.

use std::sync::Arc;

use evloop::EventLoop;

use crate::error::Error;
use crate::name::Name;
use crate::plan::Plan;
use crate::pool::Pool;
use crate::run::{Run, RunOptions, Runner};

/// What runs run on.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) pool: Pool,
    pub(crate) events: EventLoop,
}

/// Runs plans. Clones are the same scheduler; any number of plans and runs share it.
#[derive(Clone, Debug)]
pub struct Scheduler(Arc<Parts>);

impl Scheduler {
    /// On this pool and this loop. The loop is used by plans with coroutines or deadlines only, and has to run then.
    pub fn new(pool: Pool, events: EventLoop) -> Scheduler {
        Scheduler(Arc::new(Parts { pool, events }))
    }

    /// The pool.
    pub fn pool(&self) -> &Pool {
        &self.0.pool
    }

    /// The loop.
    pub fn events(&self) -> &EventLoop {
        &self.0.events
    }

    /// Something to run a plan with again and again.
    pub fn runner<V: Clone + Send + Sync + 'static>(&self, plan: &Arc<Plan<V>>) -> Runner<V> {
        Runner::new(plan.clone(), self.0.clone())
    }

    /// Starts a run that nothing is kept of afterwards.
    pub fn start<V: Clone + Send + Sync + 'static>(
        &self,
        plan: &Arc<Plan<V>>,
        options: RunOptions,
        given: Vec<(Name, V)>,
    ) -> Result<Run<'static, V>, Error> {
        self.runner(plan).into_run(options, given)
    }
}
