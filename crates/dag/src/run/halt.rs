//! How a run is halted before its end, how its result is delivered, and how it completes. Each happens once per run, and
//! who comes from a run that is past does nothing: the words that are claimed only grow.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::state::{Ctx, HALTED, State, Todo, claim};
use crate::error::{NodeError, RunError};
use crate::lists::at;
use crate::lock;
use crate::plan::SPECIAL;
use crate::run::Mode;

impl<V: Clone + Send + Sync + 'static> State<V> {
    /// Ends the run: nothing new begins. `true` for the call that did it.
    pub(crate) fn halt(&self, run: u64, error: RunError) -> bool {
        if !claim(&self.halted, run) {
            return false;
        }
        // From here on the run does not complete before this is done, so it is the present one.
        let mut end = lock(&self.end);
        end.failure = Some(error.clone());
        let first = end.first.take();
        drop(end);
        let hard = self.is_hard(self.setup().mode);
        if hard {
            self.deliver(run, Err(error));
        }
        let mut ctx = Ctx::outside();
        if first.is_some_and(|key| self.parts.pool.shared().remove(key)) {
            let plain = |node: &&u32| at(&self.plan.nodes, **node).flags & SPECIAL == 0;
            let nodes = self.plan.successors.of(self.plan.source()).iter().filter(plain);
            ctx.todo.extend(nodes.map(|node| Todo::Skip(*node, NodeError::Cancelled)));
        }
        for (node, _) in &self.plan.terms {
            self.revoke(*node, run, hard, &mut ctx);
        }
        self.drain(&mut ctx);
        if self.done.fetch_or(HALTED, Ordering::AcqRel) == self.nodes() {
            self.complete(run);
        }
        true
    }

    /// Whether a halted run of this mode is not to wait for what runs.
    pub(crate) fn is_hard(&self, mode: Mode) -> bool {
        mode != Mode::Drain || !matches!(lock(&self.end).failure, Some(RunError::Node { .. }))
    }

    fn nodes(&self) -> u64 {
        self.plan.nodes.len() as u64
    }

    /// So many more nodes have ended.
    #[inline]
    pub(crate) fn count_ended(&self, nodes: usize) {
        if nodes == 0 {
            return;
        }
        // Before they are counted: after that somebody who halts the run may complete it, and the next one begin.
        let run = self.setup().run;
        let done = self.done.fetch_add(nodes as u64, Ordering::AcqRel) + nodes as u64;
        if done & !HALTED == self.nodes() {
            // Not halted, and not to be halted any more; or halted, and that is over. Otherwise who halts it is still
            // at it, and completes the run.
            if done & HALTED != 0 || claim(&self.halted, run) {
                self.complete(run);
            }
        }
    }

    /// One more output is there.
    pub(crate) fn count_output(&self) {
        let last = self.outputs_left.fetch_sub(1, Ordering::AcqRel) == 1;
        if last && !self.is_halted() {
            self.deliver(self.setup().run, Ok(()));
        }
    }

    /// All nodes have ended. The caller holds the state beyond this call.
    pub(crate) fn complete(&self, run: u64) {
        let mut end = lock(&self.end);
        let result = end.failure.take().map_or(Ok(()), Err);
        let timers = std::mem::take(&mut end.timers);
        drop(end);
        for timer in timers {
            timer.cancel();
        }
        self.idle.store(true, Ordering::Release);
        self.deliver(run, result);
        // SAFETY: the reference that `start` forgot, given up once, for a run completes once.
        unsafe { Arc::decrement_strong_count(std::ptr::from_ref(self)) };
    }

    /// The first result counts.
    fn deliver(&self, run: u64, result: Result<(), RunError>) {
        let mut end = lock(&self.end);
        if end.run != run || end.result.is_some() {
            return;
        }
        end.result = Some(result);
        let (waker, callback) = (end.waker.take(), end.callback.take());
        drop(end);
        self.ended.notify_all();
        if let Some(waker) = waker {
            waker.wake();
        }
        if let Some(callback) = callback {
            callback();
        }
    }
}
