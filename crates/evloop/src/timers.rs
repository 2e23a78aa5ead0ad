//! Timers: what is due when, ordered by deadline and, within a deadline, by age.
//!
//! A binary heap of small entries beside a slot map of payloads. Cancelling takes the payload out of its slot, which is
//! O(1), and leaves a dead entry in the heap; once dead entries outnumber live ones they are swept, which costs as much
//! as the cancels that made them, so a cancel is O(1) amortised and the heap is never more than twice as large as it
//! needs to be (plus a small constant). The newest timer waits beside the heap for the next one to come: a timeout around
//! something quick is made and cancelled without the heap ever hearing of it. Touched only by whoever owns the loop.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use slotmap::{SlotMap, new_key_type};

use crate::os::Nanos;

new_key_type! {
    /// A timer's slot and generation.
    pub struct TimerKey;
}

/// Below this many dead entries sweeping is not worth it.
const SWEEP_FLOOR: usize = 64;

#[derive(Debug)]
struct Entry {
    deadline: Nanos,
    /// Order among equal deadlines.
    age: u64,
    key: TimerKey,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    /// Reversed: std's heap gives the greatest first, and we want the earliest.
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        (other.deadline, other.age).cmp(&(self.deadline, self.age))
    }
}

/// A set of timers with a payload each.
#[derive(Debug)]
pub struct Timers<T> {
    heap: BinaryHeap<Entry>,
    /// The timer made last, unless it is gone: never dead, never in the heap.
    newest: Option<Entry>,
    slots: SlotMap<TimerKey, T>,
    next_age: u64,
}

impl<T> Default for Timers<T> {
    fn default() -> Self {
        Self { heap: BinaryHeap::new(), newest: None, slots: SlotMap::with_key(), next_age: 0 }
    }
}

impl<T> Timers<T> {
    /// Adds a timer that is due at `deadline`.
    #[inline]
    pub fn insert(&mut self, deadline: Nanos, payload: T) -> TimerKey {
        let key = self.slots.insert(payload);
        let age = self.next_age;
        self.next_age += 1;
        if let Some(older) = self.newest.replace(Entry { deadline, age, key }) {
            self.heap.push(older);
        }
        key
    }

    /// Takes a timer out before it fires. `None` if it fired or was cancelled before.
    #[inline]
    pub fn cancel(&mut self, key: TimerKey) -> Option<T> {
        let payload = self.slots.remove(key)?;
        if self.newest.as_ref().is_some_and(|newest| newest.key == key) {
            self.newest = None;
            return Some(payload);
        }
        let living = self.slots.len() - usize::from(self.newest.is_some());
        let dead = self.heap.len() - living;
        if dead > SWEEP_FLOOR && dead > living {
            self.heap.retain(|entry| self.slots.contains_key(entry.key));
        }
        Some(payload)
    }

    /// Whether the timer is still to fire.
    pub fn contains(&self, key: TimerKey) -> bool {
        self.slots.contains_key(key)
    }

    /// The nearest deadline.
    #[inline]
    pub fn next_deadline(&mut self) -> Option<Nanos> {
        let newest = self.newest.as_ref().map(|entry| entry.deadline);
        while let Some(entry) = self.heap.peek() {
            if self.slots.contains_key(entry.key) {
                return Some(newest.map_or(entry.deadline, |newest| newest.min(entry.deadline)));
            }
            self.heap.pop();
        }
        newest
    }

    /// Whether a timer may be due by `then`. It may have been cancelled.
    #[inline]
    pub fn may_be_due(&self, then: Nanos) -> bool {
        self.newest.as_ref().is_some_and(|newest| newest.deadline <= then)
            || self.heap.peek().is_some_and(|first| first.deadline <= then)
    }

    /// Takes the earliest timer that is due at `now`.
    #[inline]
    pub fn pop_due(&mut self, now: Nanos) -> Option<T> {
        if let Some(newest) = self.newest.take_if(|newest| newest.deadline <= now) {
            self.heap.push(newest);
        }
        while let Some(entry) = self.heap.peek() {
            if entry.deadline > now {
                return None;
            }
            let payload = self.slots.remove(entry.key);
            self.heap.pop();
            if payload.is_some() {
                return payload;
            }
        }
        None
    }

    /// How many timers are still to fire.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// The payloads, in no order.
    pub fn payloads(&self) -> impl Iterator<Item = &T> {
        self.slots.values()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Takes all timers out, the earliest first.
    pub fn take_all(&mut self) -> Vec<T> {
        let mut heap = std::mem::take(&mut self.heap).into_vec();
        heap.extend(self.newest.take());
        heap.sort_unstable_by(|a, b| b.cmp(a));
        heap.into_iter().filter_map(|entry| self.slots.remove(entry.key)).collect()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn equal_deadlines_fire_in_the_order_they_were_made() {
        let mut timers = Timers::default();
        for i in 0..100 {
            timers.insert(7, i);
        }
        assert_eq!(timers.pop_due(6), None);
        let fired: Vec<_> = std::iter::from_fn(|| timers.pop_due(7)).collect();
        assert_eq!(fired, (0..100).collect::<Vec<_>>());
    }

    #[test]
    fn a_cancelled_timer_never_fires_and_its_key_is_never_valid_again() {
        let mut timers = Timers::default();
        let first = timers.insert(1, "first");
        assert_eq!(timers.cancel(first), Some("first"));
        assert_eq!(timers.cancel(first), None);
        let second = timers.insert(1, "second");
        assert_ne!(first, second);
        assert_eq!(timers.cancel(first), None, "the slot was reused, the generation was not");
        assert_eq!(timers.pop_due(1), Some("second"));
        assert_eq!(timers.cancel(second), None);
    }

    #[test]
    fn dead_entries_never_outnumber_the_living_by_more_than_the_floor() {
        let mut timers = Timers::default();
        let keys: Vec<_> = (0..10_000u64).map(|i| timers.insert(i, i)).collect();
        for key in keys {
            timers.cancel(key);
            assert!(timers.heap.len() <= 2 * timers.len() + SWEEP_FLOOR + 1);
        }
        assert!(timers.is_empty());
        assert_eq!(timers.next_deadline(), None);
    }

    #[test]
    fn take_all_gives_the_earliest_first() {
        let mut timers = Timers::default();
        for deadline in [5, 1, 9, 3] {
            timers.insert(deadline, deadline);
        }
        let key = timers.insert(2, 2);
        timers.cancel(key);
        assert_eq!(timers.take_all(), vec![1, 3, 5, 9]);
        assert!(timers.is_empty());
    }
}
