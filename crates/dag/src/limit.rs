//! `Limit`: so many at a time, first come, first served. Shared by the nodes it is given to, in all of their runs.
//!
//! It cannot deadlock: a permit is asked for when everything else is there, held while the work runs and by nothing that
//! waits for another. What waits occupies no thread, and leaves the queue when its node times out or its run ends.

use std::cell::RefCell;
use std::sync::{Arc, Mutex};

use crate::queue::{Key, Queue};

/// Who waits for a permit.
pub(crate) trait Waiter: Send + Sync {
    /// The permit is there, and is given back with `Limit::release`, once. `false`: it is not needed any more.
    fn granted(self: Arc<Self>, node: u32) -> bool;
}

struct Waiting {
    waiter: Arc<dyn Waiter>,
    node: u32,
}

struct State {
    in_flight: usize,
    most: usize,
    waiting: Queue<Waiting>,
}

/// So many at a time. Clones are the same limit.
#[derive(Clone)]
pub struct Limit(Arc<(usize, Mutex<State>)>);

impl std::fmt::Debug for Limit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = crate::lock(&self.0.1);
        let counts = (state.in_flight, state.most, state.waiting.len());
        f.debug_tuple("Limit").field(&self.0.0).field(&counts).finish()
    }
}

/// What becomes of a request for a permit.
pub(crate) enum Permit {
    Granted,
    Queued(Key),
}

impl Limit {
    /// At most so many at a time, at least one.
    pub fn new(permits: usize) -> Limit {
        let state = State { in_flight: 0, most: 0, waiting: Queue::default() };
        Limit(Arc::new((permits.max(1), Mutex::new(state))))
    }

    /// How many permits are out.
    pub fn in_flight(&self) -> usize {
        crate::lock(&self.0.1).in_flight
    }

    /// The most there ever were.
    pub fn most(&self) -> usize {
        crate::lock(&self.0.1).most
    }

    /// How many wait for one.
    pub fn waiting(&self) -> usize {
        crate::lock(&self.0.1).waiting.len()
    }

    pub(crate) fn acquire(&self, waiter: impl FnOnce() -> Arc<dyn Waiter>, node: u32) -> Permit {
        let mut state = crate::lock(&self.0.1);
        if state.in_flight < self.0.0 {
            state.in_flight += 1;
            state.most = state.most.max(state.in_flight);
            return Permit::Granted;
        }
        Permit::Queued(state.waiting.push(Waiting { waiter: waiter(), node }))
    }

    /// Stops waiting; `false` if the permit has been granted already.
    pub(crate) fn give_up(&self, key: Key) -> bool {
        let waiting = crate::lock(&self.0.1).waiting.remove(key);
        waiting.is_some()
    }

    /// Gives a permit back: to whoever has waited longest and still wants it.
    pub(crate) fn release(&self) {
        // Who is granted a permit may give it back before that call returns. It is passed on after that: a long queue of
        // such waiters would use up the stack.
        let put_off = BACK.try_with(|back| match &mut *back.borrow_mut() {
            Some(back) => {
                back.push(self.clone());
                true
            }
            back => {
                *back = Some(Vec::new());
                false
            }
        });
        match put_off {
            Ok(true) => {}
            Ok(false) => {
                let granting = Granting;
                self.pass_on();
                while let Some(limit) = BACK.with_borrow_mut(|back| back.as_mut()?.pop()) {
                    limit.pass_on();
                }
                drop(granting);
            }
            // The thread ends.
            Err(_) => self.pass_on(),
        }
    }

    fn pass_on(&self) {
        loop {
            let mut state = crate::lock(&self.0.1);
            let Some(Waiting { waiter, node }) = state.waiting.pop() else {
                state.in_flight -= 1;
                return;
            };
            drop(state);
            if waiter.granted(node) {
                return;
            }
        }
    }
}

thread_local! {
    /// While this thread grants a permit: the limits that have got one back meanwhile.
    static BACK: RefCell<Option<Vec<Limit>>> = const { RefCell::new(None) };
}

/// Ends the granting of this thread, however it ends.
struct Granting;

impl Drop for Granting {
    fn drop(&mut self) {
        BACK.with_borrow_mut(Option::take);
    }
}
