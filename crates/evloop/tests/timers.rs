//! Timers: in order, never early, never lost, cheap to cancel; and the same as a plain heap in every respect.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod common;

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::rc::Rc;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use common::{on_loop, started};
use evloop::timers::{TimerKey, Timers};
use evloop::{Error, Local};
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Step {
    Insert(u64),
    /// Cancels the n-th key ever given out, modulo their number; it may be long gone.
    Cancel(usize),
    /// Moves the clock on and fires what is due.
    Advance(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0u64..1000).prop_map(Step::Insert),
        3 => any::<usize>().prop_map(Step::Cancel),
        2 => (0u64..200).prop_map(Step::Advance),
    ]
}

/// The reference: a heap of (deadline, number), and a list of what is still on.
#[derive(Default)]
struct PlainHeap {
    heap: BinaryHeap<Reverse<(u64, usize)>>,
    on: Vec<bool>,
}

impl PlainHeap {
    fn insert(&mut self, deadline: u64) {
        self.heap.push(Reverse((deadline, self.on.len())));
        self.on.push(true);
    }

    fn cancel(&mut self, number: usize) -> bool {
        std::mem::replace(&mut self.on[number], false)
    }

    fn next(&self) -> Option<u64> {
        self.heap.iter().filter(|entry| self.on[entry.0.1]).map(|entry| entry.0.0).min()
    }

    fn pop_due(&mut self, now: u64) -> Option<usize> {
        while self.heap.peek().is_some_and(|entry| entry.0.0 <= now) {
            let Reverse((_, number)) = self.heap.pop()?;
            if std::mem::replace(&mut self.on[number], false) {
                return Some(number);
            }
        }
        None
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn timers_agree_with_a_plain_heap(steps in prop::collection::vec(step(), 1..400)) {
        let (mut timers, mut reference) = (Timers::default(), PlainHeap::default());
        let mut keys: Vec<TimerKey> = Vec::new();
        let mut now = 0;
        for step in steps {
            match step {
                Step::Insert(delay) => {
                    reference.insert(now + delay);
                    keys.push(timers.insert(now + delay, keys.len()));
                }
                Step::Cancel(_) if keys.is_empty() => {}
                Step::Cancel(n) => {
                    let number = n % keys.len();
                    let cancelled = timers.cancel(keys[number]);
                    prop_assert_eq!(cancelled.is_some(), reference.cancel(number));
                    prop_assert!(cancelled.is_none_or(|payload| payload == number));
                }
                Step::Advance(by) => {
                    now += by;
                    loop {
                        let fired = timers.pop_due(now);
                        prop_assert_eq!(fired, reference.pop_due(now));
                        if fired.is_none() { break }
                    }
                }
            }
            prop_assert_eq!(timers.next_deadline(), reference.next());
            prop_assert_eq!(timers.len(), reference.on.iter().filter(|on| **on).count());
        }
        let left: Vec<usize> = std::iter::from_fn(|| reference.pop_due(u64::MAX)).collect();
        prop_assert_eq!(timers.take_all(), left);
    }
}

#[test]
fn a_million_timers_fire_once_each_in_deadline_order_except_the_cancelled() {
    const N: u64 = 1_000_000;
    let mut timers = Timers::default();
    // A fixed scramble: every deadline from 0 to N - 1 once.
    let keys: Vec<_> = (0..N).map(|i| (i * 7_919) % N).map(|d| (d, timers.insert(d, d))).collect();
    for (deadline, key) in &keys {
        if deadline % 3 == 0 {
            assert_eq!(timers.cancel(*key), Some(*deadline));
        }
    }
    let expected = (0..N).filter(|d| d % 3 != 0);
    assert!(std::iter::from_fn(|| timers.pop_due(N)).eq(expected));
    assert!(timers.is_empty());
}

#[test]
fn a_million_timers_on_a_busy_loop_are_all_fired_and_none_early() {
    const N: u64 = 1_000_000;
    let events = started();
    let (tx, rx) = mpsc::channel();
    events
        .post(move || {
            let local = Local::current().unwrap();
            let counts = Rc::new(RefCell::new((0u64, 0u64)));
            for i in 0..N {
                let (counts, tx) = (counts.clone(), tx.clone());
                let (made, delay) = (Instant::now(), Duration::from_micros(i % 1000));
                let fire = move || {
                    let mut counts = counts.borrow_mut();
                    counts.0 += 1;
                    counts.1 += u64::from(made.elapsed() < delay);
                    if counts.0 == N {
                        tx.send(counts.1).unwrap();
                    }
                };
                local.call_later(delay, fire).unwrap();
            }
            // By now most are due, all at once: the loop was busy making them.
        })
        .unwrap();
    assert_eq!(rx.recv().unwrap(), 0, "fired early");
    // What has fired is counted at once, what is left at the end of the turn.
    common::eventually("the loop counts them", || {
        let stats = events.stats();
        (stats.timers_fired, stats.timers) == (N, 0)
    });
}

#[test]
fn nothing_fires_early_whatever_the_fraction() {
    let events = started();
    for round in 0..100 {
        let (tx, rx) = mpsc::channel();
        for nanos in [1u64, 999, 1_001, 499_999, 1_000_001, 1_999_999] {
            let tx = tx.clone();
            // Another clock than the loop's, so that the loop's cannot be wrong unseen.
            let (made, delay) = (Instant::now(), Duration::from_nanos(nanos));
            events.call_later(delay, move || tx.send(made.elapsed().checked_sub(delay)).unwrap()).unwrap();
        }
        drop(tx);
        let late: Vec<_> = rx.iter().collect();
        assert_eq!(late.len(), 6);
        assert!(late.iter().all(Option::is_some), "round {round}: {late:?}");
    }
}

#[test]
fn timers_fire_in_deadline_order_however_they_were_made() {
    let events = started();
    let (tx, rx) = mpsc::channel();
    for millis in [30u64, 10, 20, 0, 25, 5] {
        let tx = tx.clone();
        events.call_later(Duration::from_millis(millis), move || tx.send(millis).unwrap()).unwrap();
    }
    drop(tx);
    assert_eq!(rx.iter().collect::<Vec<_>>(), [0, 5, 10, 20, 25, 30]);
}

#[test]
fn a_cancelled_timer_never_fires_and_one_canceller_wins() {
    let events = started();
    for _ in 0..500 {
        let (tx, rx) = mpsc::channel::<()>();
        let handle = events.call_later(Duration::from_micros(50), move || tx.send(()).unwrap()).unwrap();
        let other = handle.clone();
        let racer = std::thread::spawn(move || other.cancel());
        let wins = u32::from(handle.cancel()) + u32::from(racer.join().unwrap());
        // Its closure, and the sender in it, is gone once it fired or was cancelled; there is nothing to wait for.
        let fired = rx.recv().is_ok();
        assert_eq!(wins, u32::from(!fired), "fired and cancelled exclude each other");
    }
    common::eventually("cancelled timers are not kept", || events.stats().timers == 0);
}

#[test]
fn a_timer_can_cancel_another_that_is_due_in_the_same_turn() {
    let events = started();
    let (tx, rx) = mpsc::channel();
    events
        .post(move || {
            let local = Local::current().unwrap();
            let (inner, second) = (local.clone(), Rc::new(RefCell::new(None)));
            let (slot, first_tx) = (second.clone(), tx.clone());
            let cancel = move || {
                let cancelled = inner.cancel(slot.borrow_mut().take().unwrap()).unwrap();
                first_tx.send(cancelled).unwrap();
            };
            local.call_at(1, cancel).unwrap();
            *second.borrow_mut() = Some(local.call_at(2, move || tx.send(false).unwrap()).unwrap());
        })
        .unwrap();
    assert_eq!(rx.iter().collect::<Vec<_>>(), [true]);
}

#[test]
fn a_token_of_another_loop_is_refused_and_a_stale_one_is_no_timer() {
    let (one, two) = (started(), started());
    let token =
        on_loop(&one, || Local::current().unwrap().call_later(Duration::from_secs(3600), || ()).unwrap());
    let foreign = on_loop(&two, move || Local::current().unwrap().cancel(token));
    assert_eq!(foreign, Err(Error::ForeignToken));
    assert!(foreign.unwrap_err().to_string().contains("the loop that gave it out"));
    assert_eq!(on_loop(&one, move || Local::current().unwrap().cancel(token)), Ok(true));
    assert_eq!(on_loop(&one, move || Local::current().unwrap().cancel(token)), Ok(false));
}

#[test]
fn fifty_sleeps_at_once_take_about_as_long_as_one() {
    let events = started();
    let sleeps = |n: usize| {
        let began = Instant::now();
        let (tx, rx) = mpsc::channel::<()>();
        for _ in 0..n {
            let tx = tx.clone();
            let nap = async move {
                evloop::sleep(Duration::from_millis(50)).await.unwrap();
                tx.send(()).unwrap();
            };
            drop(events.spawn(nap).unwrap());
        }
        drop(tx);
        assert_eq!(rx.iter().count(), n);
        began.elapsed()
    };
    let (one, fifty) = (sleeps(1), sleeps(50));
    assert!(fifty < one * 10, "fifty sleeps took {fifty:?}, one took {one:?}");
}
