//! The requests in flight, by id: who may still answer one. Lock-free; any thread.
//!
//! An id is a slot and a generation, and fits into a small integer of Erlang. A slot's word holds the generation and whether the
//! request is live or cancelled; each step is one compare-and-swap, so answering and cancelling exclude each other: either the
//! answer is sent, or nobody will ever see one.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

const SLOT_BITS: u32 = 20;
const SLOTS: usize = 1 << SLOT_BITS;
/// With the slot it fits into the 59 bits of a small integer.
const GENERATIONS: u64 = (1 << (58 - SLOT_BITS)) - 1;

const FREE: u64 = 0;
const LIVE: u64 = 1;
const CANCELLED: u64 = 2;

static WORDS: OnceLock<Box<[AtomicU64]>> = OnceLock::new();
static NEXT: AtomicUsize = AtomicUsize::new(0);

/// The name of a request; 0 is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Id(u64);

impl Id {
    pub(crate) fn word(self) -> u64 {
        self.0
    }

    pub(crate) fn from_word(word: u64) -> Self {
        Self(word)
    }

    fn new(slot: usize, generation: u64) -> Self {
        Self((generation << SLOT_BITS) | slot as u64)
    }

    fn slot(self) -> Option<&'static AtomicU64> {
        words().get((self.0 & (SLOTS as u64 - 1)) as usize)
    }

    fn is(self, state: u64) -> u64 {
        ((self.0 >> SLOT_BITS) << 2) | state
    }
}

fn words() -> &'static [AtomicU64] {
    // Zeroed memory is not touched until it is used.
    WORDS.get_or_init(|| (0..SLOTS).map(|_| AtomicU64::new(FREE)).collect())
}

/// A new live request; `None` when a million are in flight.
pub(crate) fn open() -> Option<Id> {
    let words = words();
    for _ in 0..SLOTS {
        let slot = NEXT.fetch_add(1, Ordering::Relaxed) & (SLOTS - 1);
        let Some(place) = words.get(slot) else { continue };
        let word = place.load(Ordering::Relaxed);
        if word & 3 != FREE {
            continue;
        }
        // Never 0, so that no id is.
        let generation = match ((word >> 2) + 1) & GENERATIONS {
            0 => 1,
            other => other,
        };
        let id = Id::new(slot, generation);
        if place.compare_exchange(word, id.is(LIVE), Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            return Some(id);
        }
    }
    None
}

/// Whether nobody has cancelled it.
pub(crate) fn is_live(id: Id) -> bool {
    id.slot().is_some_and(|place| place.load(Ordering::Acquire) == id.is(LIVE))
}

/// Ends a request. True for the one who may send the answer now; false if it was cancelled.
pub(crate) fn close(id: Id) -> bool {
    let Some(place) = id.slot() else { return false };
    match place.compare_exchange(id.is(LIVE), id.is(FREE), Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => true,
        Err(word) => {
            if word == id.is(CANCELLED) {
                place.store(id.is(FREE), Ordering::Release);
            }
            false
        }
    }
}

/// Cancels a request. True for the one who did: from then on no answer is sent.
pub(crate) fn cancel(id: Id) -> bool {
    id.slot().is_some_and(|place| {
        place.compare_exchange(id.is(LIVE), id.is(CANCELLED), Ordering::AcqRel, Ordering::Relaxed).is_ok()
    })
}
