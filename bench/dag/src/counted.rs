//! What every node of every arm does: count itself, on a counter of its thread's own, so that a node that did not run is
//! noticed and the counting costs next to nothing.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crossbeam_utils::CachePadded;

static COUNTERS: [CachePadded<AtomicU64>; 256] = [const { CachePadded::new(AtomicU64::new(0)) }; 256];
static THREADS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static MINE: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// The work of a node.
#[inline]
pub(crate) fn node() {
    let mut mine = MINE.get();
    if mine == usize::MAX {
        mine = THREADS.fetch_add(1, Ordering::Relaxed);
        MINE.set(mine);
    }
    let counter = &COUNTERS[mine % COUNTERS.len()];
    counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}

/// How many have run since the start of the process.
pub(crate) fn total() -> u64 {
    COUNTERS.iter().map(|counter| counter.load(Ordering::Relaxed)).sum()
}
