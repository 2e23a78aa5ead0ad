//! Special nodes: those that run on the loop, wait for a permit, expire, fan out, or are given. They have a seat each,
//! with a lock, and so can be stopped wherever they are.
//!
//! Two things happen to each of them, in either order: it is concluded, by whoever claims the right to its outcome (its
//! own work, its timeout, the run's end), and it is over, when nothing of it runs or waits any more. The node has ended
//! when both have happened.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::state::{Ctx, Outcome, Stage, State, Todo, Which, claim};
use super::step::{NODE, contained};
use crate::error::{NodeError, RunError};
use crate::inputs::Inputs;
use crate::limit::{Permit, Waiter};
use crate::lists::at;
use crate::lock;
use crate::map::MapRun;
use crate::node::Work;
use crate::observe::What;
use crate::plan::{COVERED, OUTPUT, SPECIAL};
use crate::run::Mode;

impl<V: Clone + Send + Sync + 'static> State<V> {
    /// Does what is on the list, and what that puts on it.
    pub(crate) fn drain(&self, ctx: &mut Ctx<'_>) {
        while let Some(todo) = ctx.todo.pop_front() {
            match todo {
                Todo::Ready(node) => self.ready(node, ctx),
                Todo::Skip(node, error) => self.skip(node, error, ctx),
            }
        }
    }

    fn skip(&self, node: u32, error: NodeError, ctx: &mut Ctx<'_>) {
        if at(&self.plan.nodes, node).flags & SPECIAL == 0 {
            self.conclude(node, Err(error), ctx);
            self.node_ended(ctx);
        } else {
            self.finish_special(node, Err(error), ctx);
        }
    }

    /// Gives a node its outcome and tells its successors. The caller has the right to.
    pub(crate) fn conclude(&self, node: u32, result: Result<V, NodeError>, ctx: &mut Ctx<'_>) {
        self.observe(
            node,
            match &result {
                Ok(_) => What::Finished,
                Err(NodeError::TimedOut) => What::TimedOut,
                Err(NodeError::Cancelled | NodeError::Upstream(_)) => What::Cancelled,
                Err(_) => What::Failed,
            },
            ctx,
        );
        let fallback = || self.plan.terms_of(node).and_then(|terms| terms.fallback.clone());
        let result = match result {
            Err(error) if !matches!(error, NodeError::Cancelled) => fallback().ok_or(error),
            other => other,
        };
        match result {
            Ok(value) => {
                // SAFETY: the caller has the right to the outcome.
                unsafe { at(&self.slots, node).put(Outcome::Value(value)) };
                self.output_is_there(node);
                self.release_all(node, ctx);
            }
            Err(error) => {
                // SAFETY: as above.
                unsafe { at(&self.slots, node).put(Outcome::Failed(Box::new(error.clone()))) };
                let fatal = !matches!(error, NodeError::Cancelled | NodeError::Upstream(_))
                    && at(&self.plan.nodes, node).flags & COVERED == 0
                    && self.setup().mode != Mode::Collect;
                if fatal {
                    let node = at(&self.plan.names, node).clone();
                    self.halt(self.setup().run, RunError::Node { node, error });
                }
                self.output_is_there(node);
                self.poison(node, ctx);
            }
        }
    }

    /// Where nodes may be at their end before their work is, the result does not wait for the work.
    #[inline]
    pub(crate) fn output_is_there(&self, node: u32) {
        if self.plan.timed && at(&self.plan.nodes, node).flags & OUTPUT != 0 {
            self.count_output();
        }
    }

    /// The work of a special node is at its end, or will not begin.
    pub(crate) fn finish_special(&self, node: u32, result: Result<V, NodeError>, ctx: &mut Ctx<'_>) {
        if self.seat(node).claim(self.setup().run) {
            self.conclude_special(node, result, ctx);
        }
        self.over(node, ctx);
    }

    fn conclude_special(&self, node: u32, result: Result<V, NodeError>, ctx: &mut Ctx<'_>) {
        self.conclude(node, result, ctx);
        let mut place = lock(&self.seat(node).place);
        place.concluded = true;
        let timer = place.timer.take();
        let over = matches!(place.stage, Stage::Over);
        drop(place);
        if let Some(timer) = timer {
            timer.cancel();
        }
        if over {
            self.node_ended(ctx);
        }
    }

    fn over(&self, node: u32, ctx: &mut Ctx<'_>) {
        let mut place = lock(&self.seat(node).place);
        let stage = std::mem::replace(&mut place.stage, Stage::Over);
        let permit = std::mem::take(&mut place.permit);
        let concluded = place.concluded;
        drop(place);
        drop(stage);
        if let (true, Some(limit)) = (permit, self.limit(node)) {
            limit.release();
        }
        if concluded {
            self.node_ended(ctx);
        }
    }

    fn limit(&self, node: u32) -> Option<&crate::Limit> {
        self.plan.terms_of(node)?.limit.as_ref()
    }

    /// All inputs are there.
    fn ready(&self, node: u32, ctx: &mut Ctx<'_>) {
        if let Work::Input = at(&self.plan.nodes, node).work {
            // Its value was put when the run was started.
            self.observe(node, What::Finished, ctx);
            self.output_is_there(node);
            self.release_all(node, ctx);
            self.node_ended(ctx);
            return;
        }
        if self.seat(node).is_claimed(self.setup().run) {
            return self.over(node, ctx);
        }
        if self.is_halted() {
            return self.skip(node, NodeError::Cancelled, ctx);
        }
        self.arm(node);
        let which = self.which();
        if let Some(limit) = self.limit(node) {
            let Some(this) = self.this.upgrade() else { return };
            let mut place = lock(&self.seat(node).place);
            match limit.acquire(|| this, node) {
                Permit::Granted => place.permit = true,
                Permit::Queued(key) => {
                    place.stage = Stage::InLimit(key);
                    drop(place);
                    return self.look_again(node, which, ctx);
                }
            }
        }
        self.launch(node, ctx);
    }

    /// Its time begins, and its region's.
    fn arm(&self, node: u32) {
        let run = self.setup().run;
        let Some(terms) = self.plan.terms_of(node).filter(|terms| terms.timed()) else { return };
        if let (Some(time), Some(state)) = (terms.timeout, self.this.upgrade()) {
            let timer = self.parts.events.call_later(time, move || state.expire(node, run));
            lock(&self.seat(node).place).timer = timer.ok();
        }
        let Some(region) = terms.region.filter(|region| claim(at(&self.regions, *region), run)) else {
            return;
        };
        if let Some(state) = self.this.upgrade() {
            let time = *at(&self.plan.regions, region);
            let timer = self.parts.events.call_later(time, move || state.expire_region(region, run));
            lock(&self.end).timers.extend(timer);
        }
    }

    fn expire_region(&self, region: u32, run: u64) {
        for (node, terms) in &self.plan.terms {
            if terms.region == Some(region) {
                self.expire(*node, run);
            }
        }
    }

    /// The node's time is over. On the loop's thread; from a run that is past it claims in vain.
    fn expire(&self, node: u32, run: u64) {
        if !self.seat(node).claim(run) {
            return;
        }
        let mut ctx = Ctx::outside();
        let withdrawn = self.withdraw(node, run);
        if !withdrawn {
            self.stop_running(node, run);
        }
        self.conclude_special(node, Err(NodeError::TimedOut), &mut ctx);
        if withdrawn {
            self.over(node, &mut ctx);
        }
        self.drain(&mut ctx);
    }

    /// Takes a node out of the queue it waits in. Then nobody else is going to begin it.
    fn withdraw(&self, node: u32, run: u64) -> bool {
        let mut place = lock(&self.seat(node).place);
        if place.run != run {
            return false;
        }
        let withdrawn = match place.stage {
            Stage::InLimit(key) => self.limit(node).is_some_and(|limit| limit.give_up(key)),
            Stage::InPool(key) => self.parts.pool.shared().remove(key),
            _ => false,
        };
        if withdrawn {
            place.stage = Stage::Running;
        }
        withdrawn
    }

    fn stop_running(&self, node: u32, run: u64) {
        let mut place = lock(&self.seat(node).place);
        if place.run != run {
            return;
        }
        match std::mem::replace(&mut place.stage, Stage::Running) {
            Stage::Handed(give_up) => {
                drop(place);
                give_up();
            }
            Stage::Map(map) => {
                place.stage = Stage::Map(map.clone());
                drop(place);
                map.stop();
            }
            other => {
                if let Stage::Task(task) = &other {
                    task.abort();
                }
                place.stage = other;
            }
        }
    }

    /// The run is at its end: what waits does not begin, and if it is `hard` what runs on the loop is dropped.
    pub(crate) fn revoke(&self, node: u32, run: u64, hard: bool, ctx: &mut Ctx<'_>) {
        if self.withdraw(node, run) {
            ctx.todo.push_back(Todo::Skip(node, NodeError::Cancelled));
        } else if hard {
            self.stop_running(node, run);
        }
    }

    /// After it was queued or began: who ended it or its run just before may not have seen it there. It may be over by now,
    /// and its run too: nothing is done to the next one.
    pub(super) fn look_again(&self, node: u32, which: Which, ctx: &mut Ctx<'_>) {
        let expired = self.seat(node).is_claimed(which.run);
        if expired || self.halted.load(Ordering::Acquire) == which.run {
            self.revoke(node, which.run, expired || self.is_hard(which.mode), ctx);
        }
    }

    /// Everything is there, the permit too.
    fn launch(&self, node: u32, ctx: &mut Ctx<'_>) {
        match &at(&self.plan.nodes, node).work {
            Work::Task(work) => self.spawn(node, work.clone(), ctx),
            Work::Hand(work) => self.hand(node, work, ctx),
            _ => {
                let which = self.which();
                let mut place = lock(&self.seat(node).place);
                place.stage = Stage::InPool(self.parts.pool.shared().inject(self.job(node, NODE)));
                drop(place);
                self.look_again(node, which, ctx);
            }
        }
    }

    /// A worker has taken it out of the pool's queue.
    pub(crate) fn run_special(&self, node: u32, ctx: &mut Ctx<'_>) {
        lock(&self.seat(node).place).stage = Stage::Running;
        if self.is_halted() || self.seat(node).is_claimed(self.setup().run) {
            return self.finish_special(node, Err(NodeError::Cancelled), ctx);
        }
        self.observe(node, What::Started, ctx);
        let inputs = Inputs { state: self, nodes: self.plan.inputs.of(node) };
        match &at(&self.plan.nodes, node).work {
            Work::Cpu(work) => self.finish_special(node, contained(|| work(inputs)), ctx),
            Work::Map(work) => match (contained(|| (work.split)(inputs)), self.this.upgrade()) {
                (Ok(items), Some(state)) => {
                    let which = self.which();
                    let map = MapRun::new(state, node, work.clone(), items);
                    lock(&self.seat(node).place).stage = Stage::Map(map.clone());
                    map.begin();
                    self.look_again(node, which, ctx);
                }
                (Err(error), _) => self.finish_special(node, Err(error), ctx),
                (_, None) => {}
            },
            _ => {}
        }
    }
}

impl<V: Clone + Send + Sync + 'static> Waiter for State<V> {
    fn granted(self: Arc<Self>, node: u32) -> bool {
        let mut ctx = Ctx::outside();
        let down = match at(&self.plan.nodes, node).work {
            Work::Task(_) => self.loop_is_down(),
            _ => None,
        };
        let unwanted = self.is_halted() || self.seat(node).is_claimed(self.setup().run);
        let refused = if unwanted { Some(NodeError::Cancelled) } else { down };
        let wanted = refused.is_none();
        match refused {
            Some(error) => self.finish_special(node, Err(error), &mut ctx),
            None => {
                lock(&self.seat(node).place).permit = true;
                self.launch(node, &mut ctx);
            }
        }
        self.drain(&mut ctx);
        wanted
    }
}
