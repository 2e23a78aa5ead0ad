//! `Batch`: entries in the order in which they run. Lives in the loop's state, or in the turn that runs it.

use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};

use pyrt::{Traverse, Visit, Visited, confined};

use crate::entry::Entry;

/// What is ready. Kept in a box: it goes back and forth between the state and a turn, and a processor that moves a structure word pair
/// by word pair right after it has written single words of it waits for those, longer than the rest of a turn of one callback takes.
#[derive(Default)]
pub(crate) struct Batch {
    entries: VecDeque<Entry>,
}

confined!(Batch { entries });

impl Traverse for Batch {
    fn traverse(&self, visit: &mut Visit<'_>) -> Visited {
        self.entries.traverse(visit)
    }
}

impl Deref for Batch {
    type Target = VecDeque<Entry>;

    #[inline]
    fn deref(&self) -> &Self::Target {
        &self.entries
    }
}

impl DerefMut for Batch {
    #[inline]
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.entries
    }
}
