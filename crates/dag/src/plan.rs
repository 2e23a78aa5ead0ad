//! `Plan`: a graph that was checked and laid out flat. Immutable, shared by all of its runs; no recursion anywhere, so
//! its depth does not matter.
//!
//! Successors and inputs are lists in one array each, found by offsets. One more node than the user has, the source,
//! leads to all nodes without inputs: to start a run is to release the source.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use crate::error::Error;
use crate::graph::{Draft, Graph};
use crate::lists::{Lists, at};
use crate::name::Name;
use crate::node::{Kind, Terms, Work};

/// More than a plain function on the pool: a coroutine, or one that waits, expires or is given.
pub(crate) const SPECIAL: u8 = 1;
/// Its value is asked for.
pub(crate) const OUTPUT: u8 = 2;
/// If it fails, nodes with a fallback take care of that.
pub(crate) const COVERED: u8 = 4;

/// The largest number of nodes and of edges: what is above has a meaning in jobs.
const MOST: usize = (u32::MAX - 16) as usize;

pub(crate) struct Node<V> {
    pub(crate) work: Work<V>,
    pub(crate) flags: u8,
    /// Where its state beyond a plain node's is, if it is special.
    pub(crate) special: u32,
}

/// A node's work, and its terms if it has any.
type Part<V> = (Work<V>, Option<Arc<Terms<V>>>);

/// A graph ready to be run, any number of times and by any number of runs at once.
pub struct Plan<V> {
    pub(crate) nodes: Box<[Node<V>]>,
    pub(crate) names: Box<[Name]>,
    pub(crate) terms: Box<[(u32, Arc<Terms<V>>)]>,
    pub(crate) regions: Box<[Duration]>,
    pub(crate) inputs: Lists,
    /// Of every node, and of the source behind the last one.
    pub(crate) successors: Lists,
    /// How many inputs a node waits for; one, the source, for those without.
    pub(crate) waits_for: Box<[u32]>,
    pub(crate) outputs: Box<[u32]>,
    /// In topological order.
    pub(crate) order: Box<[u32]>,
    /// Some node may be at its end before its work is.
    pub(crate) timed: bool,
    /// Some node needs the loop.
    pub(crate) on_loop: bool,
    index: Index,
}

impl<V> std::fmt::Debug for Plan<V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Plan").field("nodes", &self.nodes.len()).finish_non_exhaustive()
    }
}

/// From names to nodes.
enum Index {
    /// The nodes are called 0, 1, 2 …
    Dense(u64),
    Map(HashMap<Name, u32>),
}

impl Index {
    fn new<'a>(names: impl ExactSizeIterator<Item = &'a Name> + Clone) -> Result<Index, Error> {
        if names.clone().zip(0..).all(|(name, number)| *name == Name::Number(number)) {
            return Ok(Index::Dense(names.len() as u64));
        }
        let mut map = HashMap::with_capacity(names.len());
        for (name, number) in names.zip(0..) {
            if map.insert(name.clone(), number).is_some() {
                return Err(Error::Duplicate(name.clone()));
            }
        }
        Ok(Index::Map(map))
    }

    fn get(&self, name: &Name) -> Option<u32> {
        match (self, name) {
            (Index::Dense(count), Name::Number(number)) if number < count => u32::try_from(*number).ok(),
            (Index::Dense(_), _) => None,
            (Index::Map(map), name) => map.get(name).copied(),
        }
    }
}

impl<V: Clone + Send + Sync + 'static> Plan<V> {
    pub(crate) fn compile(graph: Graph<V>) -> Result<Plan<V>, Error> {
        let Graph { drafts, inputs, regions } = graph;
        if drafts.len() > MOST || inputs.len() > MOST {
            return Err(Error::TooLarge);
        }
        let index = Index::new(drafts.iter().map(|draft| &draft.name))?;
        let lists = resolve(&drafts, &inputs, &index)?;
        for draft in &drafts {
            if let Work::Map(map) = &draft.work {
                if map.in_flight == 0 {
                    return Err(Error::NoRoom(draft.name.clone()));
                }
            }
            let region = draft.terms.as_ref().and_then(|terms| terms.region);
            if region.is_some_and(|region| region as usize >= regions.len()) {
                return Err(Error::ForeignRegion(draft.name.clone()));
            }
        }
        let names: Box<[Name]> = drafts.iter().map(|draft| draft.name.clone()).collect();
        let parts = drafts.into_iter().map(|draft| (draft.work, draft.terms)).collect();
        Self::lay_out(parts, names, lists, regions.into(), index, None)
    }

    /// A plan for these outputs alone: only what they need runs.
    pub fn only<N: Into<Name>>(&self, outputs: impl IntoIterator<Item = N>) -> Result<Plan<V>, Error> {
        let mut asked = vec![false; self.nodes.len()];
        let mut wanted: Vec<u32> = Vec::new();
        for name in outputs {
            let name = name.into();
            let node = self.index.get(&name).ok_or(Error::Unknown(name))?;
            if let Some(flag) = asked.get_mut(node as usize).filter(|flag| !**flag) {
                *flag = true;
                wanted.push(node);
            }
        }
        let mut needed = vec![false; self.nodes.len()];
        let mut ahead = wanted.clone();
        while let Some(node) = ahead.pop() {
            if let Some(flag) = needed.get_mut(node as usize).filter(|flag| !**flag) {
                *flag = true;
                ahead.extend(self.inputs.of(node));
            }
        }
        let mut moved = vec![0u32; self.nodes.len()];
        let (mut parts, mut names) = (Vec::new(), Vec::new());
        let (mut ends, mut items) = (Vec::new(), Vec::new());
        let kept = |node: &u32| *at(&needed, *node);
        for node in (0..self.nodes.len() as u32).filter(kept) {
            if let Some(place) = moved.get_mut(node as usize) {
                *place = parts.len() as u32;
            }
            let terms = self.terms_of(node).cloned();
            parts.push((at(&self.nodes, node).work.clone(), terms));
            names.push(at(&self.names, node).clone());
        }
        for node in (0..self.nodes.len() as u32).filter(kept) {
            items.extend(self.inputs.of(node).iter().map(|input| *at(&moved, *input)));
            ends.push(items.len() as u32);
        }
        let index = Index::new(names.iter())?;
        let lists = Lists::new(ends, items);
        wanted.iter_mut().for_each(|node| *node = *at(&moved, *node));
        Self::lay_out(parts, names.into(), lists, self.regions.clone(), index, Some(wanted))
    }

    fn lay_out(
        parts: Vec<Part<V>>,
        names: Box<[Name]>,
        inputs: Lists,
        regions: Box<[Duration]>,
        index: Index,
        outputs: Option<Vec<u32>>,
    ) -> Result<Plan<V>, Error> {
        let count = parts.len() as u32;
        let mut nodes = Vec::with_capacity(parts.len());
        let mut terms = Vec::new();
        let (mut timed, mut on_loop) = (false, false);
        for (node, (work, own)) in (0..count).zip(parts) {
            on_loop |= work.on_loop();
            let special = own.is_some() || !matches!(work, Work::Cpu(_));
            nodes.push(Node { work, flags: u8::from(special) * SPECIAL, special: terms.len() as u32 });
            if special {
                let own = own.unwrap_or_default();
                timed |= own.timed();
                on_loop |= own.timed();
                terms.push((node, own));
            }
        }
        let mut successors = inputs.inverse(count as usize);
        let waits_for: Box<[u32]> = (0..count)
            .map(|node| {
                let (begin, end) = inputs.range(node);
                (end - begin).max(1)
            })
            .collect();
        let order = sort(&inputs, &successors, &names)?;
        let outputs =
            outputs.unwrap_or_else(|| (0..count).filter(|node| successors.of(*node).is_empty()).collect());
        for output in &outputs {
            if let Some(node) = nodes.get_mut(*output as usize) {
                node.flags |= OUTPUT;
            }
        }
        add_source(&mut successors, &inputs, &nodes);
        let mut plan = Plan {
            nodes: nodes.into(),
            names,
            terms: terms.into(),
            regions,
            inputs,
            successors,
            waits_for,
            outputs: outputs.into(),
            order,
            timed,
            on_loop,
            index,
        };
        plan.cover();
        Ok(plan)
    }

    /// Finds the nodes whose failure others take care of. From the end, for it depends on the successors.
    fn cover(&mut self) {
        for node in self.order.iter().rev() {
            let successors = self.successors.of(*node);
            let covered = at(&self.nodes, *node).flags & OUTPUT == 0
                && !successors.is_empty()
                && successors.iter().all(|next| {
                    at(&self.nodes, *next).flags & COVERED != 0
                        || self.terms_of(*next).is_some_and(|terms| terms.fallback.is_some())
                });
            if let Some(node) = self.nodes.get_mut(*node as usize).filter(|_| covered) {
                node.flags |= COVERED;
            }
        }
    }

    #[inline]
    pub(crate) fn terms_of(&self, node: u32) -> Option<&Arc<Terms<V>>> {
        let node = at(&self.nodes, node);
        (node.flags & SPECIAL != 0).then(|| &at(&self.terms, node.special).1)
    }
}

impl<V> Plan<V> {
    /// How many nodes there are.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The names of all nodes; events and pictures count them in this order.
    pub fn names(&self) -> &[Name] {
        &self.names
    }

    /// The names of the outputs.
    pub fn outputs(&self) -> impl Iterator<Item = &Name> {
        self.outputs.iter().map(|node| at(&self.names, *node))
    }

    /// The names of the values a run is to be given.
    pub fn given(&self) -> impl Iterator<Item = &Name> {
        let inputs = self.nodes.iter().zip(&self.names);
        inputs.filter(|(node, _)| matches!(node.work, Work::Input)).map(|(_, name)| name)
    }

    /// The kind of the node at this place, and the places of its inputs.
    pub fn node(&self, node: u32) -> Option<(Kind, &[u32])> {
        Some((self.nodes.get(node as usize)?.work.kind(), self.inputs.of(node)))
    }

    /// Whether the node at this place is an output.
    pub fn is_output(&self, node: u32) -> bool {
        self.nodes.get(node as usize).is_some_and(|node| node.flags & OUTPUT != 0)
    }

    pub(crate) fn find(&self, name: &Name) -> Option<u32> {
        self.index.get(name)
    }

    /// The source, from which all runs begin.
    pub(crate) fn source(&self) -> u32 {
        self.nodes.len() as u32
    }
}

/// The inputs of every node as numbers.
fn resolve<V>(drafts: &[Draft<V>], inputs: &[Name], index: &Index) -> Result<Lists, Error> {
    let mut ends = Vec::with_capacity(drafts.len());
    let mut items = Vec::with_capacity(inputs.len());
    let mut begin = 0;
    for draft in drafts {
        for input in inputs.get(begin..draft.inputs_end).unwrap_or_default() {
            let found = index.get(input);
            items.push(
                found.ok_or_else(|| Error::Missing { node: draft.name.clone(), input: input.clone() })?,
            );
        }
        begin = draft.inputs_end;
        ends.push(items.len() as u32);
    }
    Ok(Lists::new(ends, items))
}

/// A topological order, or the circle that there is instead.
fn sort(inputs: &Lists, successors: &Lists, names: &[Name]) -> Result<Box<[u32]>, Error> {
    let count = names.len() as u32;
    let mut left: Vec<u32> = (0..count).map(|node| inputs.of(node).len() as u32).collect();
    let mut order: Vec<u32> = (0..count).filter(|node| *at(&left, *node) == 0).collect();
    order.reserve(names.len());
    let mut done = 0;
    while let Some(node) = order.get(done).copied() {
        done += 1;
        for next in successors.of(node) {
            if let Some(left) = left.get_mut(*next as usize) {
                *left -= 1;
                if *left == 0 {
                    order.push(*next);
                }
            }
        }
    }
    if order.len() == names.len() {
        return Ok(order.into());
    }
    // Whatever is left waits for something that is left too: going back along that must come to a node twice.
    let mut seen = vec![u32::MAX; names.len()];
    let mut way: Vec<u32> = Vec::new();
    let mut here = (0..count).find(|node| *at(&left, *node) > 0);
    while let Some(node) = here {
        let first = *at(&seen, node);
        if first != u32::MAX {
            let circle = way.get(first as usize..).unwrap_or_default().iter().rev();
            return Err(Error::Cycle(circle.map(|node| at(names, *node).clone()).collect()));
        }
        if let Some(seen) = seen.get_mut(node as usize) {
            *seen = way.len() as u32;
        }
        way.push(node);
        here = inputs.of(node).iter().copied().find(|input| *at(&left, *input) > 0);
    }
    Ok(order.into())
}

/// Puts the source behind the last node: first the special ones among its successors, which whoever starts a run deals
/// with at once, for their time begins then.
fn add_source<V>(successors: &mut Lists, inputs: &Lists, nodes: &[Node<V>]) {
    let count = nodes.len() as u32;
    let is_special = |node: &u32| at(nodes, *node).flags & SPECIAL != 0;
    let first = |node: &u32| inputs.of(*node).is_empty();
    let (special, plain): (Vec<u32>, Vec<u32>) = (0..count).filter(first).partition(is_special);
    successors.push(special.into_iter().chain(plain));
}
