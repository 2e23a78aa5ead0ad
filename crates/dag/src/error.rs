//! The crate's errors: why a graph is refused, why a node has no value, why a run has no result.

use std::sync::Arc;

use crate::name::Name;

/// What a node's own code may fail with.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Why a graph is refused, or a run does not begin.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Two nodes of one name.
    #[error("there are two nodes called {0}: give one of them another name")]
    Duplicate(Name),
    /// An input that nobody produces.
    #[error("the node {node} needs {input}, which no node produces")]
    Missing {
        /// The node.
        node: Name,
        /// What it asks for.
        input: Name,
    },
    /// Nodes that wait for one another.
    #[error("these nodes wait for each other in a circle: {}", circle(.0))]
    Cycle(Vec<Name>),
    /// An output or input of a run that the plan does not have.
    #[error("the plan has no node called {0}")]
    Unknown(Name),
    /// A value was given to a node that makes its own.
    #[error("the node {0} is not an input of the plan: it makes its value itself")]
    NotAnInput(Name),
    /// A run without a value for one of the plan's inputs.
    #[error("the plan's input {0} was not given")]
    InputNotGiven(Name),
    /// A map of nothing at a time.
    #[error("the node {0} may have nothing in flight: allow at least one")]
    NoRoom(Name),
    /// A region of another graph.
    #[error("the region of the node {0} belongs to another graph")]
    ForeignRegion(Name),
    /// More nodes or edges than can be numbered.
    #[error("the graph has more than 2^32 - 16 nodes or edges")]
    TooLarge,
    /// Coroutines and deadlines need a loop that runs.
    #[error("the scheduler's loop does not run, and the run needs it: start the loop first")]
    NoLoop,
    /// The pool has as many jobs waiting as it may.
    #[error("the pool has {0} jobs waiting, as many as it may: run fewer at a time, or later")]
    Overloaded(usize),
}

fn circle(names: &[Name]) -> String {
    let mut names: Vec<String> = names.iter().map(Name::to_string).collect();
    names.extend(names.first().cloned());
    names.join(" → ")
}

/// Why a node has no value.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NodeError {
    /// Its code failed.
    #[error("{0}")]
    Failed(Arc<dyn std::error::Error + Send + Sync>),
    /// Its code panicked, with this message.
    #[error("it panicked: {0}")]
    Panicked(Arc<str>),
    /// Its time, or its region's, was over.
    #[error("its time was over")]
    TimedOut,
    /// The run was at its end before.
    #[error("it was cancelled")]
    Cancelled,
    /// The loop that it was to run on takes no work.
    #[error("the loop takes no work: {0}")]
    Loop(Arc<str>),
    /// An input has no value.
    #[error("its input {0} has no value")]
    Upstream(Name),
}

/// Why a run has no result.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// A node failed.
    #[error("the node {node} failed: {error}")]
    Node {
        /// Which.
        node: Name,
        /// Why.
        error: NodeError,
    },
    /// The deadline of the run has passed.
    #[error("the deadline of the run has passed")]
    Deadline,
    /// The run was cancelled.
    #[error("the run was cancelled")]
    Cancelled,
    /// The run was cancelled, for this reason.
    #[error("the run was cancelled: {0}")]
    Stopped(Arc<dyn std::error::Error + Send + Sync>),
    /// The run did not begin.
    #[error(transparent)]
    Refused(#[from] Error),
}
