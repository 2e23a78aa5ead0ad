//! Nodes whose work is handed to somebody else, who answers from any thread: no future and no task, and what comes next
//! begins where the answer was given.

use std::sync::Arc;

use super::state::{Ctx, Stage, State, Todo};
use super::step::contained;
use crate::error::{BoxError, NodeError};
use crate::inputs::Inputs;
use crate::lock;
use crate::node::HandWork;
use crate::observe::What;

/// Who is told what came of a node.
pub(crate) trait Hears<V>: Send + Sync {
    fn answered(&self, node: u32, result: Result<V, NodeError>);
    fn dropped(&self, node: u32);
}

/// The right to answer for a node, once. Dropped, it tells that nobody will.
pub struct Reply<V> {
    to: Option<Arc<dyn Hears<V>>>,
    node: u32,
    run: u64,
}

impl<V> std::fmt::Debug for Reply<V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reply").field("node", &self.node).finish_non_exhaustive()
    }
}

impl<V> Reply<V> {
    /// A number that the nodes of one run have alike, and no other run has: for who keeps together what belongs together.
    pub fn run(&self) -> u64 {
        self.run
    }

    /// The value of the node, or why it has none. What can begin then is begun by this call.
    pub fn send(mut self, result: Result<V, BoxError>) {
        if let Some(to) = self.to.take() {
            to.answered(self.node, contained(|| result));
        }
    }
}

impl<V> Drop for Reply<V> {
    fn drop(&mut self) {
        if let Some(to) = self.to.take() {
            to.dropped(self.node);
        }
    }
}

fn dropped() -> NodeError {
    NodeError::Failed(Arc::from(BoxError::from("nobody answers any more")))
}

impl<V: Clone + Send + Sync + 'static> Hears<V> for State<V> {
    fn answered(&self, node: u32, result: Result<V, NodeError>) {
        let mut place = lock(&self.seat(node).place);
        if let (Stage::Handing, Some(state)) = (&place.stage, self.this.upgrade()) {
            // Most likely by a caller of ours: a chain of such nodes would use up the stack if it went on from here.
            place.stage = Stage::Answered(Box::new(move |ctx| state.finish_special(node, result, ctx)));
            return;
        }
        drop(place);
        let mut ctx = Ctx::outside();
        self.finish_special(node, result, &mut ctx);
        self.drain(&mut ctx);
    }

    fn dropped(&self, node: u32) {
        let mut place = lock(&self.seat(node).place);
        if let Stage::Handing = place.stage {
            // By who was to take the work, and is about to say why not.
            place.stage = Stage::Refused;
            return;
        }
        drop(place);
        self.answered(node, Err(if self.is_halted() { NodeError::Cancelled } else { dropped() }));
    }
}

impl<V: Clone + Send + Sync + 'static> State<V> {
    pub(super) fn hand(&self, node: u32, work: &HandWork<V>, ctx: &mut Ctx<'_>) {
        let Some(state) = self.this.upgrade() else { return };
        let which = self.which();
        lock(&self.seat(node).place).stage = Stage::Handing;
        self.observe(node, What::Started, ctx);
        let inputs = Inputs { state: self, nodes: self.plan.inputs.of(node) };
        let values: Vec<V> = inputs.iter().cloned().collect();
        let reply = Reply { to: Some(state), node, run: self.setup().number };
        let handed = contained(|| work(values, reply));
        let mut place = lock(&self.seat(node).place);
        match std::mem::replace(&mut place.stage, Stage::Running) {
            Stage::Refused => {
                drop(place);
                let error = handed.err().unwrap_or_else(dropped);
                ctx.todo.push_back(Todo::Skip(node, error));
            }
            Stage::Answered(finish) => {
                drop(place);
                finish(ctx);
            }
            _ => {
                // One that refuses the work and keeps the reply may still answer.
                if let Ok(give_up) = handed {
                    place.stage = Stage::Handed(give_up);
                }
                drop(place);
                self.look_again(node, which, ctx);
            }
        }
    }
}
