//! The inbox: how work from any thread reaches the loop.
//!
//! Many producers hold an [`Inbox`]; one consumer, the loop, holds the [`Drain`]. A push is one compare-and-swap on one
//! word, and that word holds everything the two sides must agree on:
//!
//! ```text
//!   tail = position of the next free slot | SLEEPING | CLOSED
//! ```
//!
//! - A push that succeeds is *accepted*: its slot lies before the position at which the inbox is closed, and the
//!   consumer takes every slot up to there. A push that finds `CLOSED` gives its value back. There is no in-between, so
//!   accepted == taken, always.
//! - `SLEEPING` is set by the consumer only while every slot is taken, and cleared by the first push after it. Whoever
//!   clears it has to wake the consumer, all others need not: one wake-up per sleep, none while the loop is awake.
//!
//! Slots live in blocks, linked in order. The producer that claims a block's last slot links the next
//! block; while it does so the tail stands on one extra position per block, at which other producers wait. A block is
//! only touched by producers that own a slot in it which is not yet written, so the consumer can take it back once it
//! has read the last slot. A few emptied blocks are kept for the next producers that need one.
//!
//! A written slot is stamped with its position, which no slot had before, so a reused slot needs no resetting: the
//! consumer only reads what producers write. While it is awake it does not look at the tail at all, only at the stamp it
//! waits for; a tail that both sides touch would cost each push a cache miss.
//!
//! Memory order: a slot is published by its stamp (release) and read after it (acquire). The tail's acquire/release pairs
//! publish the block pointer; nothing else relies on them.

use std::mem::MaybeUninit;
use std::ptr;

use crate::sync::{Arc, AtomicPtr, AtomicU64, Backoff, Ordering, UnsafeCell};

/// Slots in a block. Small under loom, so that models cross from block to block.
const SLOTS: u64 = if cfg!(loom) { 2 } else { 127 };
/// Positions per block: its slots, and the one at which producers wait for the next block.
const LAP: u64 = SLOTS + 1;

/// Emptied blocks kept, at most.
const SPARES: usize = if cfg!(loom) { 1 } else { 8 };

const CLOSED: u64 = 1;
const SLEEPING: u64 = 2;
/// One position, above the flags.
const STEP: u64 = 4;

struct Slot<T> {
    /// The position after the one whose value is in the slot.
    stamp: AtomicU64,
    value: UnsafeCell<MaybeUninit<T>>,
}

struct Block<T> {
    next: AtomicPtr<Block<T>>,
    slots: [Slot<T>; SLOTS as usize],
}

impl<T> Block<T> {
    fn new() -> Box<Self> {
        let slot = |_| Slot { stamp: AtomicU64::new(0), value: UnsafeCell::new(MaybeUninit::uninit()) };
        Box::new(Self { next: AtomicPtr::new(ptr::null_mut()), slots: std::array::from_fn(slot) })
    }
}

/// On its own cache lines: producers write one, the consumer the other.
#[repr(align(128))]
struct Line<T>(T);

struct Shared<T> {
    tail: Line<Tail<T>>,
    /// Emptied blocks for the next producers that need one.
    spares: Line<[AtomicPtr<Block<T>>; SPARES]>,
}

struct Tail<T> {
    word: AtomicU64,
    block: AtomicPtr<Block<T>>,
}

// SAFETY: values are moved in by one thread and out by another, which is what `T: Send` allows; no `&T` is shared.
unsafe impl<T: Send> Send for Shared<T> {}
// SAFETY: as above. Access to a slot is exclusive: a producer owns it between claim and stamp, the consumer after.
unsafe impl<T: Send> Sync for Shared<T> {}

impl<T> Drop for Shared<T> {
    fn drop(&mut self) {
        // The drain has emptied every block and given away all but the current one, which is the tail's.
        for cell in self.spares.0.iter().chain([&self.tail.0.block]) {
            let block = cell.load(Ordering::Acquire);
            if !block.is_null() {
                // SAFETY: both sides are gone, no two cells hold the same block, and each came from `Box::into_raw`.
                drop(unsafe { Box::from_raw(block) });
            }
        }
    }
}

/// The producers' side. Clones share one queue.
pub struct Inbox<T>(Arc<Shared<T>>);

/// The consumer's side; there is one. Dropping it closes the inbox and drops what is left in it.
pub struct Drain<T> {
    shared: Arc<Shared<T>>,
    /// The next position to read. Never the extra position of a block.
    head: u64,
    block: *mut Block<T>,
}

// SAFETY: the block pointer is owned by the pair of sides, not by a thread, and values are `Send`.
unsafe impl<T: Send> Send for Drain<T> {}

/// What an accepted push, or a close, leaves to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a consumer that sleeps stays asleep if nobody wakes it"]
pub enum Wake {
    /// The consumer sleeps and this call has taken on the duty to wake it.
    Needed,
    /// The consumer is awake, or somebody else is waking it.
    Elided,
}

impl Wake {
    fn from_word(word: u64) -> Wake {
        if word & SLEEPING == 0 { Wake::Elided } else { Wake::Needed }
    }
}

/// How far a drain goes, so that producers who never pause cannot keep the consumer from everything else.
#[derive(Clone, Copy, Debug)]
pub struct Mark(u64);

/// Positions in a drain.
const REACH: u64 = 8 * LAP;

/// A new inbox, closed until [`Inbox::open`].
pub fn new<T: Send>() -> (Inbox<T>, Drain<T>) {
    let block = Box::into_raw(Block::new());
    let shared = Arc::new(Shared {
        tail: Line(Tail { word: AtomicU64::new(CLOSED), block: AtomicPtr::new(block) }),
        spares: Line(std::array::from_fn(|_| AtomicPtr::new(ptr::null_mut()))),
    });
    (Inbox(shared.clone()), Drain { shared, head: 0, block })
}

impl<T> Clone for Inbox<T> {
    fn clone(&self) -> Self {
        Inbox(self.0.clone())
    }
}

impl<T> std::fmt::Debug for Inbox<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inbox").field("accepted", &self.accepted()).field("open", &self.is_open()).finish()
    }
}

impl<T> std::fmt::Debug for Drain<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Drain").field("head", &self.head).finish_non_exhaustive()
    }
}

impl<T: Send> Inbox<T> {
    /// Accepts `value`, or gives it back if the inbox is closed.
    #[inline]
    pub fn push(&self, value: T) -> Result<Wake, T> {
        let tail = &self.0.tail.0;
        let mut backoff = Backoff::default();
        let mut spare: Option<Box<Block<T>>> = None;
        let mut word = tail.word.load(Ordering::Acquire);
        loop {
            if word & CLOSED != 0 {
                return Err(value);
            }
            let offset = (word / STEP) % LAP;
            if offset == SLOTS {
                backoff.pause();
                word = tail.word.load(Ordering::Acquire);
                continue;
            }
            let last = offset + 1 == SLOTS;
            if last && spare.is_none() {
                // Before the claim, so that others wait at the extra position as briefly as can be.
                spare = Some(self.take_spare());
            }
            let block = tail.block.load(Ordering::Acquire);
            let next = (word & !SLEEPING) + STEP;
            if tail.word.compare_exchange(word, next, Ordering::AcqRel, Ordering::Acquire).is_err() {
                // Another producer is at it. Out of its way: a run of pushes by one core is cheaper than turns.
                backoff.pause();
                word = tail.word.load(Ordering::Acquire);
                continue;
            }
            // SAFETY: the position did not change between loading it and claiming it, so `block` is the block of that
            // position, and it stays until the slot claimed here has been read.
            let block = unsafe { &*block };
            if last {
                let fresh = spare.take().map_or(ptr::null_mut(), Box::into_raw);
                tail.block.store(fresh, Ordering::Release);
                tail.word.fetch_add(STEP, Ordering::Release);
                block.next.store(fresh, Ordering::Release);
            } else if let Some(unused) = spare {
                give_spare(&self.0, Box::into_raw(unused));
            }
            // `offset` is below SLOTS, the length of every block.
            if let Some(slot) = block.slots.get(offset as usize) {
                // SAFETY: the claim made this slot ours until it is stamped.
                slot.value.with_mut(|cell| unsafe { (*cell).write(value) });
                slot.stamp.store(word / STEP + 1, Ordering::Release);
            }
            return Ok(Wake::from_word(word));
        }
    }

    fn take_spare(&self) -> Box<Block<T>> {
        for cell in &self.0.spares.0 {
            if cell.load(Ordering::Relaxed).is_null() {
                continue;
            }
            let block = cell.swap(ptr::null_mut(), Ordering::Acquire);
            if !block.is_null() {
                // SAFETY: the swap handed the block to us alone; it came from `Box::into_raw`.
                return unsafe { Box::from_raw(block) };
            }
        }
        Block::new()
    }
}

impl<T> Inbox<T> {
    /// Starts to accept.
    pub fn open(&self) {
        self.0.tail.0.word.fetch_and(!CLOSED, Ordering::AcqRel);
    }

    /// Stops accepting. What was accepted before stays to be drained.
    pub fn close(&self) -> Wake {
        // Two steps: closing must not be missed by a consumer that is just falling asleep, and it is not, because a
        // closed inbox refuses to let it (`Drain::try_sleep`).
        let word = self.0.tail.0.word.fetch_or(CLOSED, Ordering::AcqRel);
        if word & SLEEPING == 0 {
            return Wake::Elided;
        }
        Wake::from_word(self.0.tail.0.word.fetch_and(!SLEEPING, Ordering::AcqRel))
    }

    /// Whether a push would be accepted now.
    pub fn is_open(&self) -> bool {
        self.0.tail.0.word.load(Ordering::Acquire) & CLOSED == 0
    }

    /// How many values were accepted so far.
    pub fn accepted(&self) -> u64 {
        accepted(self.0.tail.0.word.load(Ordering::Acquire) / STEP)
    }
}

/// How many slots lie before `position`: all positions but the extra one of each block passed.
fn accepted(position: u64) -> u64 {
    position - position / LAP
}

/// Keeps an emptied block, or frees it if there are enough.
fn give_spare<T>(shared: &Shared<T>, mut block: *mut Block<T>) {
    for cell in &shared.spares.0 {
        if cell.load(Ordering::Relaxed).is_null() {
            block = cell.swap(block, Ordering::AcqRel);
            if block.is_null() {
                return;
            }
        }
    }
    // SAFETY: ours to give, or handed to us alone by a swap that met another giver's; from `Box::into_raw` either way.
    drop(unsafe { Box::from_raw(block) });
}

impl<T> Drain<T> {
    /// The next thousand values or so.
    #[inline]
    pub fn mark(&self) -> Mark {
        Mark(self.head + REACH)
    }

    /// The oldest value before `mark`. `None` also if a producer has claimed its slot but not written it yet: then
    /// [`Drain::try_sleep`] refuses, and the value is there a moment later.
    #[inline]
    pub fn pop(&mut self, mark: Mark) -> Option<T> {
        if self.head >= mark.0 { None } else { self.take() }
    }

    fn next_slot(&self) -> Option<&Slot<T>> {
        // SAFETY: the block holds the slot at `head`, which has not been read, so it has not been taken back.
        let block = unsafe { &*self.block };
        block.slots.get((self.head % LAP) as usize)
    }

    /// Whether the next value is there: a look that does not disturb producers.
    #[inline]
    pub fn is_ready(&self) -> bool {
        self.next_slot().is_some_and(|slot| slot.stamp.load(Ordering::Acquire) == self.head + 1)
    }

    #[inline]
    fn take(&mut self) -> Option<T> {
        if !self.is_ready() {
            return None;
        }
        // SAFETY: the stamp says that the slot's producer has written it and is done with it; moving `head` on below
        // means that it is read once.
        let value = self.next_slot()?.value.with_mut(|cell| unsafe { (*cell).assume_init_read() });
        self.head += 1;
        if self.head % LAP == SLOTS {
            self.next_block();
        }
        Some(value)
    }

    /// Leaves a block all of whose slots have been read.
    fn next_block(&mut self) {
        // SAFETY: the block is ours until it is given away below.
        let next = unsafe { &*self.block }.next.swap(ptr::null_mut(), Ordering::Acquire);
        // The producer of the last slot linked the next block before it stamped the slot, so `next` is there; and no
        // producer touches the emptied block any more.
        give_spare(&self.shared, std::mem::replace(&mut self.block, next));
        self.head += 1;
    }

    /// How many values have been taken.
    pub fn taken(&self) -> u64 {
        accepted(self.head)
    }

    /// Whether every accepted value has been taken.
    #[inline]
    pub fn is_empty(&self) -> bool {
        // Past a block's last slot `head` skips the extra position, and the tail's producer does so at once too.
        self.shared.tail.0.word.load(Ordering::Acquire) / STEP <= self.head
    }

    /// Whether the inbox is closed and everything it accepted has been taken: nothing will ever come again.
    pub fn is_finished(&self) -> bool {
        let word = self.shared.tail.0.word.load(Ordering::Acquire);
        word & CLOSED != 0 && word / STEP <= self.head
    }

    /// Announces that the consumer is about to sleep: from here on the next push says [`Wake::Needed`]. Refused if there
    /// is something to take, or if the inbox is closed (then the consumer has an end to reach and must not sleep).
    pub fn try_sleep(&self) -> bool {
        let word = self.head * STEP;
        self.shared
            .tail
            .0
            .word
            .compare_exchange(word, word | SLEEPING, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }

    /// The consumer is awake again, for whatever reason.
    pub fn awake(&self) {
        self.shared.tail.0.word.fetch_and(!SLEEPING, Ordering::AcqRel);
    }
}

impl<T> Drop for Drain<T> {
    fn drop(&mut self) {
        // Nobody has to be woken: the consumer is here.
        let before = self.shared.tail.0.word.fetch_or(CLOSED, Ordering::AcqRel);
        let end = before / STEP;
        let mut backoff = Backoff::default();
        // The tail may stand on the extra position, of which `head` knows nothing: what counts is slots.
        while accepted(self.head) < accepted(end) {
            match self.take() {
                Some(value) => drop(value),
                None => backoff.pause(),
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn opened<T: Send>() -> (Inbox<T>, Drain<T>) {
        let (inbox, drain) = new();
        inbox.open();
        (inbox, drain)
    }

    #[test]
    fn closed_until_opened_and_after_close() {
        let (inbox, mut drain) = new();
        assert_eq!(inbox.push(1), Err(1));
        inbox.open();
        assert_eq!(inbox.push(2), Ok(Wake::Elided));
        assert_eq!(inbox.close(), Wake::Elided);
        assert_eq!(inbox.push(3), Err(3));
        assert!(!drain.is_finished());
        assert_eq!(drain.pop(drain.mark()), Some(2));
        assert!(drain.is_finished());
        assert_eq!(inbox.accepted(), 1);
    }

    #[test]
    fn keeps_order_over_many_blocks_and_counts_what_it_accepted() {
        let (inbox, mut drain) = opened();
        let mut next = 0u64;
        for round in 0..1000u64 {
            for i in 0..round % 200 {
                assert!(inbox.push(next + i).is_ok());
            }
            let mark = drain.mark();
            for i in 0..round % 200 {
                assert_eq!(drain.pop(mark), Some(next + i));
            }
            assert_eq!(drain.pop(mark), None);
            assert!(drain.is_empty());
            next += round % 200;
        }
        assert_eq!(inbox.accepted(), next);
    }

    #[test]
    fn a_mark_ends_a_drain_that_producers_would_keep_going() {
        let (inbox, mut drain) = opened();
        assert!(inbox.push(0u64).is_ok());
        let mark = drain.mark();
        let mut taken = 0;
        while let Some(value) = drain.pop(mark) {
            assert_eq!(value, taken);
            taken += 1;
            assert!(inbox.push(taken).is_ok());
        }
        assert_eq!(taken, 8 * SLOTS);
        assert_eq!(drain.pop(drain.mark()), Some(taken), "the rest is for the next drain");
    }

    #[test]
    fn only_the_first_push_of_a_sleep_has_to_wake() {
        let (inbox, mut drain) = opened();
        assert!(drain.try_sleep());
        assert_eq!(inbox.push(1), Ok(Wake::Needed));
        assert_eq!(inbox.push(2), Ok(Wake::Elided));
        assert!(!drain.try_sleep(), "there is something to take");
        let mark = drain.mark();
        while drain.pop(mark).is_some() {}
        assert!(drain.try_sleep());
        drain.awake();
        assert_eq!(inbox.push(3), Ok(Wake::Elided));
    }

    #[test]
    fn closing_wakes_a_sleeper_and_keeps_it_from_sleeping() {
        let (inbox, drain) = opened::<u8>();
        assert!(drain.try_sleep());
        assert_eq!(inbox.close(), Wake::Needed);
        assert_eq!(inbox.close(), Wake::Elided);
        assert!(!drain.try_sleep());
    }

    #[test]
    fn what_is_left_is_dropped_with_the_drain() {
        let counter = std::sync::Arc::new(());
        let (inbox, drain) = opened();
        for _ in 0..500 {
            assert!(inbox.push(counter.clone()).is_ok());
        }
        drop(drain);
        assert_eq!(std::sync::Arc::strong_count(&counter), 1);
        assert!(inbox.push(counter.clone()).is_err());
    }

    #[test]
    fn many_producers_lose_nothing_and_keep_their_own_order() {
        const PRODUCERS: usize = 4;
        const EACH: usize = 20_000;
        let (inbox, mut drain) = opened();
        let threads: Vec<_> = (0..PRODUCERS)
            .map(|p| {
                let inbox = inbox.clone();
                std::thread::spawn(move || {
                    for i in 0..EACH {
                        assert!(inbox.push((p, i)).is_ok());
                    }
                })
            })
            .collect();
        let mut seen = [0usize; PRODUCERS];
        while seen.iter().sum::<usize>() < PRODUCERS * EACH {
            match drain.pop(drain.mark()) {
                Some((p, i)) => {
                    assert_eq!(seen[p], i);
                    seen[p] += 1;
                }
                None => std::thread::yield_now(),
            }
        }
        for thread in threads {
            thread.join().unwrap();
        }
        assert!(drain.is_empty());
    }
}
