//! Who had an answer lately: the last so many, and no more.

use std::collections::{HashSet, VecDeque};

/// So many are remembered.
const MOST: usize = 16_384;

/// The names and tickets, as numbers, of those that were answered.
#[derive(Default)]
pub(crate) struct Recent {
    order: VecDeque<u64>,
    known: HashSet<u64>,
}

impl Recent {
    pub(crate) fn answered(&mut self, number: u64) {
        if self.known.insert(number) {
            self.order.push_back(number);
        }
        while self.order.len() > MOST {
            if let Some(oldest) = self.order.pop_front() {
                self.known.remove(&oldest);
            }
        }
    }

    pub(crate) fn was_answered(&self, number: u64) -> bool {
        self.known.contains(&number)
    }

    /// The name is in use again. Its place in the order stays, and goes with time.
    pub(crate) fn forget(&mut self, number: u64) {
        self.known.remove(&number);
    }
}
