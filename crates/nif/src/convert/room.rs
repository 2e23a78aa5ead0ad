//! `Room`: the memory that the term of one object may take.
//!
//! What Python shares, a term has as often as it is referred to: a list of twice the same list, and that forty times over, would
//! be more than any machine has. The VM ends where memory does, so the sum is kept in advance.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::Refused;

/// The most bytes that one object may become.
pub(crate) static TERM_LIMIT: AtomicUsize = AtomicUsize::new(2 << 30);

/// A place in a container with a number in it, at most.
const PLACE: usize = 32;

/// What is left of the limit.
#[derive(Clone, Copy)]
pub(super) struct Room {
    limit: usize,
    left: usize,
}

impl Room {
    pub(super) fn new() -> Self {
        let limit = TERM_LIMIT.load(Ordering::Relaxed);
        Self { limit, left: limit }
    }

    /// Takes what so many places need.
    pub(super) fn places<'a>(&mut self, number: usize) -> Result<(), Refused<'a>> {
        self.bytes(number.saturating_mul(PLACE))
    }

    /// Takes so many bytes.
    pub(super) fn bytes<'a>(&mut self, number: usize) -> Result<(), Refused<'a>> {
        match self.left.checked_sub(number) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => Err(Refused::TooLarge(self.limit)),
        }
    }
}
