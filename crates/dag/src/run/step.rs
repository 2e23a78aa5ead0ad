//! How plain nodes run: one after the other on the thread that got the first of them ready, without a lock, an
//! allocation or a message. This is the path that graphs of a million nodes take.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::state::{Ctx, Outcome, State, Todo};
use crate::error::{BoxError, NodeError};
use crate::inputs::Inputs;
use crate::lists::at;
use crate::node::Work;
use crate::observe::What;
use crate::plan::SPECIAL;
use crate::pool::{Execute, Job, Worker};

/// In a job: `lo` is a node, and its inputs are there. Otherwise `lo` to `hi` are successors to be released.
pub(crate) const NODE: u32 = u32::MAX;
/// So many successors are released at once; of more, others may take a part.
const CHUNK: u32 = 32;
/// Set in a count: an input has no value.
const POISON: u32 = 1 << 31;

/// What the arrival of an input means for a node.
enum Arrival {
    /// It waits for others.
    Waits,
    Ready,
    /// It is the last, but one of them has no value.
    Poisoned,
}

impl<V: Clone + Send + Sync + 'static> Execute for State<V> {
    fn execute(&self, lo: u32, hi: u32, worker: &mut Worker) {
        let mut ctx = Ctx { worker: Some(worker), todo: VecDeque::new() };
        let mut next = match hi {
            NODE if at(&self.plan.nodes, lo).flags & SPECIAL != 0 => {
                self.run_special(lo, &mut ctx);
                None
            }
            NODE => Some(lo),
            _ => self.release((lo, hi), &mut ctx),
        };
        loop {
            // Before this thread goes on: what waits for the loop should not wait for this thread.
            if !ctx.todo.is_empty() {
                self.drain(&mut ctx);
            }
            let Some(node) = next else { break };
            next = self.step(node, &mut ctx);
        }
    }

    fn ended(&self, nodes: usize) {
        self.count_ended(nodes);
    }
}

impl<V: Clone + Send + Sync + 'static> State<V> {
    pub(crate) fn job(&self, lo: u32, hi: u32) -> Job {
        Job { target: std::ptr::from_ref::<State<V>>(self), lo, hi }
    }

    /// Runs a plain node and releases its successors; one of those that are ready is returned.
    #[inline]
    fn step(&self, node: u32, ctx: &mut Ctx<'_>) -> Option<u32> {
        if self.is_halted() {
            ctx.todo.push_back(Todo::Skip(node, NodeError::Cancelled));
            return None;
        }
        let Work::Cpu(work) = &at(&self.plan.nodes, node).work else { return None };
        self.observe(node, What::Started, ctx);
        let next = match contained(|| work(Inputs { state: self, nodes: self.plan.inputs.of(node) })) {
            Ok(value) => {
                self.observe(node, What::Finished, ctx);
                // SAFETY: this is the one thread that runs the node.
                unsafe { at(&self.slots, node).put(Outcome::Value(value)) };
                self.output_is_there(node);
                self.release(self.plan.successors.range(node), ctx)
            }
            Err(error) => {
                self.conclude(node, Err(error), ctx);
                None
            }
        };
        self.node_ended(ctx);
        next
    }

    /// Tells these successors that an input is there; what is more than that goes on the list. Of the plain ones that are ready now the last is returned, for
    /// this thread to go on with; the others are there for all.
    #[inline]
    pub(crate) fn release(&self, (lo, mut hi): (u32, u32), ctx: &mut Ctx<'_>) -> Option<u32> {
        let mut pushed = false;
        if hi - lo > CHUNK {
            let Some(worker) = &mut ctx.worker else {
                self.parts.pool.shared().inject(self.job(lo, hi));
                return None;
            };
            while hi - lo > CHUNK {
                let middle = lo + (hi - lo) / 2;
                worker.push(self.job(middle, hi));
                hi = middle;
            }
            pushed = true;
        }
        let mut next: Option<u32> = None;
        for successor in self.plan.successors.slice((lo, hi)) {
            match self.arrive(*successor, false) {
                Arrival::Waits => {}
                Arrival::Poisoned => ctx.todo.push_back(Todo::Skip(*successor, self.missing(*successor))),
                Arrival::Ready if at(&self.plan.nodes, *successor).flags & SPECIAL != 0 => {
                    ctx.todo.push_back(Todo::Ready(*successor));
                }
                Arrival::Ready => {
                    if let Some(other) = next.replace(*successor) {
                        pushed |= self.hand_over(other, ctx);
                    }
                }
            }
        }
        if pushed {
            if let Some(worker) = &ctx.worker {
                worker.shared();
            }
        }
        next
    }

    /// Puts a plain node where some thread takes it; whether on this worker's own deque.
    fn hand_over(&self, node: u32, ctx: &mut Ctx<'_>) -> bool {
        match &mut ctx.worker {
            Some(worker) => worker.push(self.job(node, NODE)),
            None => drop(self.parts.pool.shared().inject(self.job(node, NODE))),
        }
        ctx.worker.is_some()
    }

    /// As `release`, for a caller that does not go on with a node itself.
    pub(crate) fn release_all(&self, node: u32, ctx: &mut Ctx<'_>) {
        if let Some(next) = self.release(self.plan.successors.range(node), ctx) {
            if self.hand_over(next, ctx) {
                if let Some(worker) = &ctx.worker {
                    worker.shared();
                }
            }
        }
    }

    /// Tells all successors that there is no value.
    pub(crate) fn poison(&self, node: u32, ctx: &mut Ctx<'_>) {
        for successor in self.plan.successors.of(node) {
            if !matches!(self.arrive(*successor, true), Arrival::Waits) {
                ctx.todo.push_back(Todo::Skip(*successor, self.missing(*successor)));
            }
        }
    }

    #[inline]
    fn arrive(&self, node: u32, poisoned: bool) -> Arrival {
        let count = at(&self.counts, node);
        if poisoned {
            count.left.fetch_or(POISON, Ordering::AcqRel);
        }
        let mut left = count.left.load(Ordering::Acquire);
        // One left is this one: nobody else is going to touch the count.
        if left & !POISON != 1 {
            left = count.left.fetch_sub(1, Ordering::AcqRel);
        }
        if left & !POISON != 1 {
            return Arrival::Waits;
        }
        if left != count.all {
            count.left.store(count.all, Ordering::Relaxed);
        }
        if left & POISON == 0 { Arrival::Ready } else { Arrival::Poisoned }
    }

    /// Which input of a node has no value.
    fn missing(&self, node: u32) -> NodeError {
        if self.is_halted() {
            return NodeError::Cancelled;
        }
        // SAFETY: all inputs of the node have their outcomes: this is called when the last has arrived.
        let failed =
            |input: &&u32| matches!(unsafe { at(&self.slots, **input).outcome() }, Outcome::Failed(_));
        match self.plan.inputs.of(node).iter().find(failed) {
            Some(input) => NodeError::Upstream(at(&self.plan.names, *input).clone()),
            None => NodeError::Cancelled,
        }
    }

    /// A node has ended. On a worker that is told later, with others.
    #[inline]
    pub(crate) fn node_ended(&self, ctx: &mut Ctx<'_>) {
        match &mut ctx.worker {
            Some(worker) => worker.ended(1),
            None => self.count_ended(1),
        }
    }
}

/// Runs a node's code: a panic in it is its failure.
#[inline]
pub(crate) fn contained<T>(work: impl FnOnce() -> Result<T, BoxError>) -> Result<T, NodeError> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(failed(error)),
        Err(payload) => Err(panicked(payload)),
    }
}

#[cold]
fn failed(error: BoxError) -> NodeError {
    NodeError::Failed(Arc::from(error))
}

#[cold]
fn panicked(payload: Box<dyn std::any::Any + Send>) -> NodeError {
    let message: Arc<str> = match (payload.downcast_ref::<&str>(), payload.downcast_ref::<String>()) {
        (Some(text), _) => (*text).into(),
        (_, Some(text)) => text.as_str().into(),
        _ => "(a payload that is no text)".into(),
    };
    // A payload may panic in its own destructor. There is nobody left to tell.
    if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        std::mem::forget(again);
    }
    NodeError::Panicked(message)
}
