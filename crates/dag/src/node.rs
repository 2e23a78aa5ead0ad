//! `Node`: one piece of work, its kind, and what is agreed about its time and its failure.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use crate::error::BoxError;
use crate::inputs::Inputs;
use crate::limit::Limit;
use crate::map::MapWork;
use crate::run::Reply;

/// A future made and polled on the loop's thread.
pub(crate) type LocalFuture<V> = Pin<Box<dyn Future<Output = Result<V, BoxError>>>>;
/// A function that runs on the pool.
pub(crate) type CpuWork<V> = Arc<dyn for<'a> Fn(Inputs<'a, V>) -> Result<V, BoxError> + Send + Sync>;
/// A function that makes a future, on the loop's thread, of the values of the inputs.
pub(crate) type TaskWork<V> = Arc<dyn Fn(Vec<V>) -> LocalFuture<V> + Send + Sync>;

/// How work is given up that was handed to somebody; called at most once, and not after the answer.
pub type GiveUp = Box<dyn FnOnce() + Send>;
/// A function that hands work to somebody else.
pub(crate) type HandWork<V> = Arc<dyn Fn(Vec<V>, Reply<V>) -> Result<GiveUp, BoxError> + Send + Sync>;

/// What a node does.
pub(crate) enum Work<V> {
    Cpu(CpuWork<V>),
    Task(TaskWork<V>),
    Hand(HandWork<V>),
    Map(Arc<MapWork<V>>),
    /// A value that the run is started with.
    Input,
}

impl<V> Clone for Work<V> {
    fn clone(&self) -> Self {
        match self {
            Work::Cpu(work) => Work::Cpu(work.clone()),
            Work::Task(work) => Work::Task(work.clone()),
            Work::Hand(work) => Work::Hand(work.clone()),
            Work::Map(work) => Work::Map(work.clone()),
            Work::Input => Work::Input,
        }
    }
}

impl<V> Work<V> {
    pub(crate) fn on_loop(&self) -> bool {
        match self {
            Work::Task(_) => true,
            Work::Map(map) => map.each.on_loop(),
            Work::Cpu(_) | Work::Hand(_) | Work::Input => false,
        }
    }

    pub(crate) fn kind(&self) -> Kind {
        match self {
            Work::Cpu(_) => Kind::Cpu,
            Work::Task(_) | Work::Hand(_) => Kind::Task,
            Work::Map(_) => Kind::Map,
            Work::Input => Kind::Input,
        }
    }
}

/// What kind of work a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// A function on the pool.
    Cpu,
    /// A coroutine on the loop, or work handed to somebody else.
    Task,
    /// A function or coroutine for each of many items.
    Map,
    /// A value given to the run.
    Input,
}

/// What is agreed about a node beyond its work. Most nodes have none of it.
pub(crate) struct Terms<V> {
    pub(crate) timeout: Option<Duration>,
    pub(crate) region: Option<u32>,
    pub(crate) limit: Option<Limit>,
    pub(crate) fallback: Option<V>,
}

impl<V> Default for Terms<V> {
    fn default() -> Self {
        Self { timeout: None, region: None, limit: None, fallback: None }
    }
}

impl<V> Terms<V> {
    /// Whether it may end before its work does.
    pub(crate) fn timed(&self) -> bool {
        self.timeout.is_some() || self.region.is_some()
    }
}
