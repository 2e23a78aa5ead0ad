//! Coroutine nodes: futures made, polled and dropped on the loop's thread, where their results are dealt with too.

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use evloop::Local;

use super::state::{Ctx, Stage, State, Todo};
use super::step::contained;
use crate::error::{BoxError, NodeError};
use crate::inputs::Inputs;
use crate::lock;
use crate::node::TaskWork;
use crate::observe::What;

impl<V: Clone + Send + Sync + 'static> State<V> {
    pub(super) fn spawn(&self, node: u32, work: TaskWork<V>, ctx: &mut Ctx<'_>) {
        if let Some(error) = self.loop_is_down() {
            ctx.todo.push_back(Todo::Skip(node, error));
            return;
        }
        let Some(state) = self.this.upgrade() else { return };
        let which = self.which();
        lock(&self.seat(node).place).stage = Stage::Running;
        let inputs = Inputs { state: self, nodes: self.plan.inputs.of(node) };
        let values: Vec<V> = inputs.iter().cloned().collect();
        let ticket = Ticket { state, node, used: false };
        let make = move || async move {
            ticket.state.observe(node, What::Started, &Ctx::outside());
            let result = contained_future(move || work(values)).await;
            ticket.finish(result);
        };
        let events = &self.parts.events;
        let spawned = match Local::current().ok().filter(|_| events.is_loop_thread()) {
            Some(local) => local.spawn(make()).ok(),
            None => events.spawn_with(make).ok(),
        };
        // What was refused has dropped its ticket, and is over.
        let Some(task) = spawned else { return };
        let mut place = lock(&self.seat(node).place);
        // It may be over, and the next run here already.
        if let (Stage::Running, true) = (&place.stage, place.run == which.run) {
            place.stage = Stage::Task(task);
        }
        drop(place);
        self.look_again(node, which, ctx);
    }

    pub(crate) fn loop_is_down(&self) -> Option<NodeError> {
        match self.parts.events.state() {
            evloop::State::Running => None,
            other => Some(NodeError::Loop(format!("it is {other:?}").to_lowercase().into())),
        }
    }
}

/// What a coroutine holds of its run. Dropped before its end, it tells that there will be none.
struct Ticket<V: Clone + Send + Sync + 'static> {
    state: Arc<State<V>>,
    node: u32,
    used: bool,
}

impl<V: Clone + Send + Sync + 'static> Ticket<V> {
    fn finish(mut self, result: Result<V, NodeError>) {
        self.used = true;
        self.tell(result);
    }

    fn tell(&self, result: Result<V, NodeError>) {
        let mut ctx = Ctx::outside();
        self.state.finish_special(self.node, result, &mut ctx);
        self.state.drain(&mut ctx);
    }
}

impl<V: Clone + Send + Sync + 'static> Drop for Ticket<V> {
    fn drop(&mut self) {
        if !self.used {
            self.tell(Err(self.state.loop_is_down().unwrap_or(NodeError::Cancelled)));
        }
    }
}

/// Runs a coroutine: a panic in it, or in what makes it, is its failure.
pub(crate) async fn contained_future<V, F: Future<Output = Result<V, BoxError>>>(
    make: impl FnOnce() -> F,
) -> Result<V, NodeError> {
    let mut made = None;
    contained(|| {
        made = Some(make());
        Ok(())
    })?;
    let Some(future) = made else { return Err(NodeError::Cancelled) };
    let mut future = pin!(future);
    poll_fn(|cx| match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx))) {
        Ok(Poll::Pending) => Poll::Pending,
        Ok(Poll::Ready(result)) => Poll::Ready(contained(|| result)),
        Err(payload) => Poll::Ready(contained(|| std::panic::resume_unwind(payload))),
    })
    .await
}
