//! `Inputs`: what a function on the pool sees of its run: the values it asked for, lent, not copied.

use crate::lists::at;
use crate::run::State;

/// The values of a node's inputs, in the order in which it named them.
pub struct Inputs<'a, V> {
    pub(crate) state: &'a State<V>,
    pub(crate) nodes: &'a [u32],
}

impl<V> std::fmt::Debug for Inputs<'_, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inputs").field("len", &self.nodes.len()).finish_non_exhaustive()
    }
}

impl<'a, V> Inputs<'a, V> {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The one at this place.
    #[inline]
    pub fn get(&self, place: usize) -> Option<&'a V> {
        let node = *self.nodes.get(place)?;
        // SAFETY: a node runs after all of its inputs have got their outcomes, which stay until the next run; that
        // begins after this one's nodes have ended.
        unsafe { at(&self.state.slots, node).outcome() }.value()
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &'a V> {
        (0..self.len()).filter_map(|place| self.get(place))
    }

    /// Whether nobody waits for the result any more: long work looks at this now and then, and gives up.
    pub fn cancelled(&self) -> bool {
        self.state.is_halted()
    }
}
