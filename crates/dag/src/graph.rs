//! `Graph`: the nodes as they are written down. Nothing is checked before `compile`, so they may come in any order.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use crate::error::{BoxError, Error};
use crate::inputs::Inputs;
use crate::limit::Limit;
use crate::map::{Each, MapWork};
use crate::name::Name;
use crate::node::{GiveUp, Terms, Work};
use crate::plan::Plan;
use crate::run::Reply;

/// One node as written down.
pub(crate) struct Draft<V> {
    pub(crate) name: Name,
    pub(crate) work: Work<V>,
    pub(crate) terms: Option<Arc<Terms<V>>>,
    /// Where its inputs end in the list of all inputs; they begin where the node before has its end.
    pub(crate) inputs_end: usize,
}

/// Nodes that share a deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region(pub(crate) u32);

/// A graph to be compiled. `V` is what goes along its edges; an `Arc` of something makes that free of copies.
pub struct Graph<V> {
    pub(crate) drafts: Vec<Draft<V>>,
    pub(crate) inputs: Vec<Name>,
    pub(crate) regions: Vec<Duration>,
}

impl<V> std::fmt::Debug for Graph<V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Graph").field("nodes", &self.drafts.len()).finish_non_exhaustive()
    }
}

impl<V> Default for Graph<V> {
    fn default() -> Self {
        Self { drafts: Vec::new(), inputs: Vec::new(), regions: Vec::new() }
    }
}

impl<V: Clone + Send + Sync + 'static> Graph<V> {
    /// A graph without nodes.
    pub fn new() -> Graph<V> {
        Graph::default()
    }

    /// With room for so many nodes and edges.
    pub fn with_capacity(nodes: usize, edges: usize) -> Graph<V> {
        Graph { drafts: Vec::with_capacity(nodes), inputs: Vec::with_capacity(edges), regions: Vec::new() }
    }

    fn add(&mut self, name: Name, work: Work<V>) -> NodeBuilder<'_, V> {
        let inputs_end = self.inputs.len();
        self.drafts.push(Draft { name, work, terms: None, inputs_end });
        NodeBuilder { graph: self }
    }

    /// A function that runs on the pool.
    pub fn cpu<F, E>(&mut self, name: impl Into<Name>, f: F) -> NodeBuilder<'_, V>
    where
        F: for<'a> Fn(Inputs<'a, V>) -> Result<V, E> + Send + Sync + 'static,
        E: Into<BoxError> + 'static,
    {
        self.add(name.into(), Work::Cpu(Arc::new(move |inputs: Inputs<'_, V>| f(inputs).map_err(Into::into))))
    }

    /// A coroutine: `f` is called on the loop's thread with the values of the inputs, and its future is polled there.
    pub fn task<F, T, E>(&mut self, name: impl Into<Name>, f: F) -> NodeBuilder<'_, V>
    where
        F: Fn(Vec<V>) -> T + Send + Sync + 'static,
        T: Future<Output = Result<V, E>> + 'static,
        E: Into<BoxError> + 'static,
    {
        self.add(name.into(), Work::Task(crate::map::boxed_task(f)))
    }

    /// Work that somebody else does: `f` hands it over, on whatever thread its last input came, and says how it is given
    /// up; who does it answers by the [`Reply`], from any thread. If `f` fails it has dropped the reply.
    pub fn hand<F, E>(&mut self, name: impl Into<Name>, f: F) -> NodeBuilder<'_, V>
    where
        F: Fn(Vec<V>, Reply<V>) -> Result<GiveUp, E> + Send + Sync + 'static,
        E: Into<BoxError> + 'static,
    {
        self.add(name.into(), Work::Hand(Arc::new(move |values, reply| f(values, reply).map_err(Into::into))))
    }

    /// A value that every run is given.
    pub fn input(&mut self, name: impl Into<Name>) -> NodeBuilder<'_, V> {
        self.add(name.into(), Work::Input)
    }

    /// As many pieces of work as `split` makes of the inputs, at most `in_flight` of them at a time; `join` gets their
    /// results in order. `split` and `join` run on the pool.
    pub fn map<S, J, E>(
        &mut self,
        name: impl Into<Name>,
        in_flight: usize,
        split: S,
        each: Each<V>,
        join: J,
    ) -> NodeBuilder<'_, V>
    where
        S: for<'a> Fn(Inputs<'a, V>) -> Result<Vec<V>, E> + Send + Sync + 'static,
        J: Fn(Vec<V>) -> Result<V, E> + Send + Sync + 'static,
        E: Into<BoxError> + 'static,
    {
        let work = MapWork {
            in_flight,
            split: Box::new(move |inputs: Inputs<'_, V>| split(inputs).map_err(Into::into)),
            each,
            join: Box::new(move |values| join(values).map_err(Into::into)),
        };
        self.add(name.into(), Work::Map(Arc::new(work)))
    }

    /// A region: nodes that together have `time`, counted from when the first of them could begin.
    pub fn region(&mut self, time: Duration) -> Region {
        self.regions.push(time);
        Region((self.regions.len() - 1) as u32)
    }

    /// Checks the graph and makes a plan of it that can be run any number of times. Its outputs are the nodes whose
    /// values no other node takes.
    pub fn compile(self) -> Result<Plan<V>, Error> {
        Plan::compile(self)
    }
}

/// The node added last, to say more about.
#[derive(Debug)]
pub struct NodeBuilder<'g, V> {
    graph: &'g mut Graph<V>,
}

impl<V: Clone> NodeBuilder<'_, V> {
    /// What it takes, in this order.
    pub fn inputs<N: Into<Name>>(self, names: impl IntoIterator<Item = N>) -> Self {
        self.graph.inputs.extend(names.into_iter().map(Into::into));
        let end = self.graph.inputs.len();
        if let Some(draft) = self.graph.drafts.last_mut() {
            draft.inputs_end = end;
        }
        self
    }

    fn terms(self, change: impl FnOnce(&mut Terms<V>)) -> Self {
        if let Some(draft) = self.graph.drafts.last_mut() {
            // Nobody else has it before the graph is compiled.
            if let Some(terms) = Arc::get_mut(draft.terms.get_or_insert_default()) {
                change(terms);
            }
        }
        self
    }

    /// The time it may take, counted from when it could begin: waiting for a thread or a permit is included.
    pub fn timeout(self, time: Duration) -> Self {
        self.terms(|terms| terms.timeout = Some(time))
    }

    /// Puts it into a region.
    pub fn region(self, region: Region) -> Self {
        self.terms(|terms| terms.region = Some(region.0))
    }

    /// Has it wait for a permit before it begins.
    pub fn limit(self, limit: &Limit) -> Self {
        self.terms(|terms| terms.limit = Some(limit.clone()))
    }

    /// The value it has if it fails, is too late, or an input has none. A failure that leads to nothing but nodes with
    /// a fallback does not end the run.
    pub fn fallback(self, value: V) -> Self {
        self.terms(|terms| terms.fallback = Some(value))
    }
}
