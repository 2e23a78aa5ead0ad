//! Tokens: how the world outside names what a loop holds. A slot and a generation, and the loop they belong to; never
//! an fd, never a pointer. A token outlives what it names without ever coming to name something else.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{Error, Result};
use crate::sources::SourceKey;
use crate::timers::TimerKey;

/// One loop among all that this process ever has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LoopId(u64);

impl LoopId {
    pub(crate) fn fresh() -> LoopId {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        LoopId(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

impl std::fmt::Display for LoopId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// A name for `K` on one loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Token<K> {
    owner: LoopId,
    key: K,
}

/// Names a registered fd.
pub type SourceToken = Token<SourceKey>;
/// Names a timer.
pub type TimerToken = Token<TimerKey>;

impl<K: Copy> Token<K> {
    #[inline]
    pub(crate) fn new(owner: LoopId, key: K) -> Self {
        Self { owner, key }
    }

    /// The key, if the token is of the loop that asks.
    #[inline]
    pub(crate) fn key_on(self, asking: LoopId) -> Result<K> {
        if self.owner == asking { Ok(self.key) } else { Err(Error::ForeignToken) }
    }
}
