//! The requests in flight, by id: who may still answer one, and the answers that callers come for. Lock-free; any thread.
//!
//! An id is a slot and a generation, and fits into a small integer of Erlang. A slot's word holds the generation and the state of the
//! request; each step is one compare-and-swap, so answering and cancelling exclude each other: either the answer is there, or nobody
//! will ever see one.
//!
//! ```text
//!           put               look            reopen
//!  WATCHED ─────▶ ANSWERED ─────────▶ HELD ─────────▶ WATCHED   the caller looks here: the answer is left in the slot,
//!     │ look                                                    which then is its scheduler's, for the next request
//!     ▼
//!   LIVE ───────▶ FREE                                          the caller waits: who closes it sends the answer
//!     │   close    ▲
//!     └▶ CANCELLED ┘                                            nobody wants it
//! ```
//!
//! An answer whose caller has died is found by who looks for a free slot. The slots in use are few as long as few requests are in
//! flight, so that they stay in the caches.

use std::cell::{Cell, UnsafeCell};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

use rustler::LocalPid;

use crate::beam::{self, Mail};
use crate::convert::Leaf;

const SLOT_BITS: u32 = 20;
const SLOTS: usize = 1 << SLOT_BITS;
/// Slots are made by so many.
const BLOCK: usize = 256;
/// With the slot it fits into the 59 bits of a small integer.
const GENERATIONS: u64 = (1 << (58 - SLOT_BITS)) - 1;
/// So many slots in a row that are not free make us use twice as many.
const TRIES: usize = 16;

/// In nanoseconds.
const YOUNG: u64 = 1_000_000;

const STATE: u64 = 7;
const FREE: u64 = 0;
const LIVE: u64 = 1;
const WATCHED: u64 = 2;
const ANSWERED: u64 = 3;
const CANCELLED: u64 = 4;
const HELD: u64 = 5;

/// What is left in a slot: a value, and the environment of the request, which is to go back to the schedulers.
pub(crate) struct Answer {
    pub(crate) leaf: Leaf,
    pub(crate) mail: Mail,
}

/// A line of the cache.
#[repr(align(64))]
struct Slot {
    word: AtomicU64,
    /// Who watches, and since when.
    caller: AtomicUsize,
    since: AtomicU64,
    answer: UnsafeCell<Option<Answer>>,
}

// SAFETY: the answer is touched by whoever has the right to: who runs the request until it is ANSWERED, then who makes it HELD.
unsafe impl Sync for Slot {}

static BLOCKS: [OnceLock<Box<[Slot]>>; SLOTS / BLOCK] = [const { OnceLock::new() }; SLOTS / BLOCK];
/// How many slots are in use, a power of two.
static WINDOW: AtomicUsize = AtomicUsize::new(BLOCK);
static NEXT: AtomicUsize = AtomicUsize::new(0);
static START: OnceLock<Instant> = OnceLock::new();

thread_local! {
    /// Whom this thread has last seen alive, and when.
    static SEEN: Cell<(usize, u64)> = const { Cell::new((0, 0)) };
}

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
        // Never 0, so that no id is.
        let generation = match generation & GENERATIONS {
            0 => 1,
            other => other,
        };
        Self((generation << SLOT_BITS) | slot as u64)
    }

    fn number(self) -> usize {
        (self.0 & (SLOTS as u64 - 1)) as usize
    }

    fn slot(self) -> Option<&'static Slot> {
        BLOCKS.get(self.number() / BLOCK)?.get()?.get(self.number() % BLOCK)
    }

    fn is(self, state: u64) -> u64 {
        ((self.0 >> SLOT_BITS) << 3) | state
    }
}

/// A slot, made if need be.
fn slot(number: usize) -> Option<&'static Slot> {
    let block = BLOCKS.get(number / BLOCK)?.get_or_init(|| {
        let new = || Slot {
            word: AtomicU64::new(FREE),
            caller: AtomicUsize::new(0),
            since: AtomicU64::new(0),
            answer: UnsafeCell::new(None),
        };
        (0..BLOCK).map(|_| new()).collect()
    });
    block.get(number % BLOCK)
}

fn now() -> u64 {
    u64::try_from(START.get_or_init(Instant::now).elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// A new live request; `None` when a million are in flight.
pub(crate) fn open() -> Option<Id> {
    let mut tried = 0;
    let mut window = WINDOW.load(Ordering::Relaxed);
    while tried < SLOTS {
        let number = NEXT.fetch_add(1, Ordering::Relaxed) & (window - 1);
        let place = slot(number)?;
        let word = place.word.load(Ordering::Acquire);
        let free = match word & STATE {
            FREE => true,
            // Nobody will come for it.
            ANSWERED => !beam::is_alive(beam::pid_of(place.caller.load(Ordering::Relaxed))),
            _ => false,
        };
        if free {
            let id = Id::new(number, (word >> 3) + 1);
            if place.word.compare_exchange(word, id.is(LIVE), Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                if word & STATE == ANSWERED {
                    // SAFETY: the slot is ours, and what was left there was not taken.
                    drop(unsafe { (*place.answer.get()).take() });
                }
                return Some(id);
            }
        }
        tried += 1;
        if tried % TRIES == 0 && window < SLOTS {
            let _grown = WINDOW.compare_exchange(window, window * 2, Ordering::Relaxed, Ordering::Relaxed);
            window = WINDOW.load(Ordering::Relaxed);
        }
    }
    None
}

/// How many slots there are for requests in flight.
pub(crate) fn window() -> usize {
    WINDOW.load(Ordering::Relaxed)
}

/// A new request whose caller comes for the answer, in a slot that is [`Held`] or in another one.
pub(crate) fn open_watched(caller: LocalPid, held: Option<Held>) -> Option<Id> {
    let id = match held {
        Some(held) => {
            let old = std::mem::ManuallyDrop::new(held).0;
            Id::new(old.number(), (old.0 >> SLOT_BITS) + 1)
        }
        None => open()?,
    };
    let place = id.slot()?;
    place.caller.store(beam::pid_word(caller), Ordering::Relaxed);
    place.since.store(now(), Ordering::Relaxed);
    place.word.store(id.is(WATCHED), Ordering::Release);
    Some(id)
}

/// Whether nobody has cancelled it.
pub(crate) fn is_live(id: Id) -> bool {
    id.slot().is_some_and(|place| {
        let word = place.word.load(Ordering::Acquire);
        word == id.is(LIVE) || word == id.is(WATCHED)
    })
}

/// Whether a watched request came so lately that its caller is not worth asking after, which costs more than a short call.
pub(crate) fn is_young(id: Id) -> bool {
    id.slot().is_some_and(|place| now().saturating_sub(place.since.load(Ordering::Relaxed)) < YOUNG)
}

/// Whether a process is there, or was a moment ago when this thread asked last: one that sends many requests is not asked after for each.
pub(crate) fn was_alive(caller: LocalPid) -> bool {
    let (word, now) = (beam::pid_word(caller), now());
    let (seen, since) = SEEN.get();
    if seen == word && now.saturating_sub(since) < YOUNG {
        return true;
    }
    let alive = beam::is_alive(caller);
    if alive {
        SEEN.set((word, now));
    }
    alive
}

/// Moves a request that is live on.
fn leave(place: &Slot, id: Id, state: u64) -> Result<(), u64> {
    let go = |from| {
        place.word.compare_exchange(id.is(from), id.is(state), Ordering::AcqRel, Ordering::Acquire).map(drop)
    };
    // One that is watched may become one that is not, but not the other way round.
    go(WATCHED).or_else(|_| go(LIVE))
}

/// Ends a request. True for the one who may send the answer now; false if it was cancelled.
pub(crate) fn close(id: Id) -> bool {
    let Some(place) = id.slot() else { return false };
    match leave(place, id, FREE) {
        Ok(()) => true,
        Err(word) => {
            if word == id.is(CANCELLED) {
                place.word.store(id.is(FREE), Ordering::Release);
            }
            false
        }
    }
}

/// Cancels a request. True for the one who did: from then on there is no answer.
pub(crate) fn cancel(id: Id) -> bool {
    id.slot().is_some_and(|place| leave(place, id, CANCELLED).is_ok())
}

/// Leaves the answer for the caller, by who alone runs the request. It is given back if that will not come for it.
pub(crate) fn put(id: Id, answer: Answer) -> Result<(), Answer> {
    let Some(place) = id.slot() else { return Err(answer) };
    // SAFETY: it is not ANSWERED, and we are the only ones who could make it so.
    unsafe { *place.answer.get() = Some(answer) };
    let put =
        place.word.compare_exchange(id.is(WATCHED), id.is(ANSWERED), Ordering::Release, Ordering::Relaxed);
    if put.is_ok() {
        return Ok(());
    }
    // SAFETY: as above.
    unsafe { (*place.answer.get()).take() }.map_or(Ok(()), Err)
}

/// A slot that is nobody else's.
pub(crate) struct Held(Id);

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(place) = self.0.slot() {
            place.word.store(self.0.is(FREE), Ordering::Release);
        }
    }
}

/// What a caller finds that looks for its answer.
pub(crate) enum Found {
    Answer(Answer, Held),
    /// Not yet.
    Again,
    /// It will be sent, or was.
    Sent,
}

/// Looks for an answer, by the caller, which waits for a message if it is not there after so many nanoseconds.
pub(crate) fn look(id: Id, patience: u64) -> Found {
    let Some(place) = id.slot() else { return Found::Sent };
    let mut word = place.word.load(Ordering::Acquire);
    if word == id.is(WATCHED) {
        if now().saturating_sub(place.since.load(Ordering::Relaxed)) < patience {
            return Found::Again;
        }
        match place.word.compare_exchange(word, id.is(LIVE), Ordering::Acquire, Ordering::Acquire) {
            Ok(_) => return Found::Sent,
            Err(other) => word = other,
        }
    }
    let (answered, held) = (id.is(ANSWERED), id.is(HELD));
    if word != answered
        || place.word.compare_exchange(answered, held, Ordering::Acquire, Ordering::Relaxed).is_err()
    {
        return Found::Sent;
    }
    // SAFETY: we have made it HELD.
    let answer = unsafe { (*place.answer.get()).take() };
    answer.map_or(Found::Sent, |answer| Found::Answer(answer, Held(id)))
}
