//! What the registry promises: one winner, deadlines that are never early, counters that add up, memory that stays.
#![allow(clippy::unwrap_used)]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, mpsc};
use std::time::{Duration, Instant};

use waiters::{Counters, End, Refused, Registry, Waiter, Who};

/// Says by what it was ended.
struct Told(mpsc::Sender<(&'static str, Instant)>);

impl Told {
    fn tell(self, by: &'static str) {
        self.0.send((by, Instant::now())).unwrap();
    }
}

impl Waiter for Told {
    fn expire(self) {
        self.tell("deadline");
    }
}

fn registry() -> Registry<Told> {
    Registry::new(usize::MAX)
}

const SHORT: Duration = Duration::from_millis(20);
const LONG: Duration = Duration::from_secs(600);

#[test]
fn the_one_who_completes_gets_the_waiter_and_nobody_else() {
    let (registry, (tx, rx)) = (registry(), mpsc::channel());
    let ticket = registry.register(b"a", None, |_| Told(tx)).unwrap();
    registry.end(Who::Name(b"a"), End::Completed).unwrap().tell("answer");
    assert!(registry.end(Who::Name(b"a"), End::Completed).is_none());
    assert!(registry.end(Who::Ticket(ticket), End::Cancelled).is_none());
    assert_eq!(rx.iter().map(|(by, _)| by).collect::<Vec<_>>(), ["answer"]);
    let wanted = Counters { registered: 1, completed: 1, duplicate_terminal: 2, ..Counters::default() };
    assert_eq!(registry.counters(), wanted);
}

#[test]
fn a_deadline_is_never_early_and_a_late_answer_is_counted() {
    let (registry, (tx, rx)) = (registry(), mpsc::channel());
    let start = Instant::now();
    registry.register(b"a", Some(SHORT), |_| Told(tx)).unwrap();
    let (by, at) = rx.recv().unwrap();
    assert_eq!(by, "deadline");
    assert!(at - start >= SHORT, "early by {:?}", SHORT - (at - start));
    assert!(registry.end(Who::Name(b"a"), End::Completed).is_none());
    let wanted = Counters { registered: 1, expired: 1, late_reply_drop: 1, ..Counters::default() };
    assert_eq!((registry.counters(), registry.in_flight()), (wanted, 0));
}

#[test]
fn deadlines_fire_in_their_order_whatever_the_order_of_registration() {
    let (registry, (tx, rx)) = (Registry::new(usize::MAX), mpsc::channel());
    struct Numbered(u64, mpsc::Sender<u64>);
    impl Waiter for Numbered {
        fn expire(self) {
            self.1.send(self.0).unwrap();
        }
    }
    for millis in [60u64, 10, 40, 20, 50, 30] {
        let tx = tx.clone();
        let timeout = Some(Duration::from_millis(millis));
        registry.register(&millis.to_ne_bytes(), timeout, |_| Numbered(millis, tx)).unwrap();
    }
    drop(tx);
    assert_eq!(rx.iter().collect::<Vec<_>>(), [10, 20, 30, 40, 50, 60]);
}

#[test]
fn a_name_is_taken_until_its_waiter_ends_and_then_free() {
    let (registry, (tx, _rx)) = (registry(), mpsc::channel());
    registry.register(b"a", Some(LONG), |_| Told(tx.clone())).unwrap();
    let again = registry.register(b"a", None, |_| Told(tx.clone()));
    assert_eq!(again.err(), Some(Refused::AlreadyRegistered));
    registry.end(Who::Name(b"a"), End::Cancelled).unwrap();
    let second = registry.register(b"a", None, |_| Told(tx.clone())).unwrap();
    assert!(registry.end(Who::Ticket(second), End::Completed).is_some());
}

#[test]
fn a_ticket_of_before_does_not_reach_the_next_of_that_name() {
    let (registry, (tx, _rx)) = (registry(), mpsc::channel());
    let first = registry.register(b"a", None, |_| Told(tx.clone())).unwrap();
    registry.end(Who::Ticket(first), End::Cancelled).unwrap();
    registry.register(b"a", None, |_| Told(tx.clone())).unwrap();
    assert!(registry.end(Who::Ticket(first), End::Completed).is_none());
    assert_eq!(registry.in_flight(), 1);
}

#[test]
fn more_than_the_limit_are_refused_until_one_ends() {
    let (registry, (tx, _rx)) = (Registry::new(2), mpsc::channel());
    for name in [b"a", b"b"] {
        registry.register(name, None, |_| Told(tx.clone())).unwrap();
    }
    assert_eq!(registry.register(b"c", None, |_| Told(tx.clone())).err(), Some(Refused::Overloaded));
    registry.end(Who::Name(b"a"), End::Completed).unwrap();
    assert!(registry.register(b"c", None, |_| Told(tx.clone())).is_ok());
    registry.set_limit(1);
    assert_eq!(registry.register(b"d", None, |_| Told(tx.clone())).err(), Some(Refused::Overloaded));
}

#[test]
fn exactly_one_of_answer_cancellation_and_deadline_wins() {
    let (registry, wins) = (Arc::new(registry()), Arc::new(AtomicUsize::new(0)));
    let (tx, rx) = mpsc::channel();
    let rounds = 1000u32;
    let barrier = Arc::new(Barrier::new(3));
    let threads: Vec<_> = [End::Completed, End::Cancelled]
        .into_iter()
        .map(|end| {
            let (registry, barrier, wins) = (registry.clone(), barrier.clone(), wins.clone());
            std::thread::spawn(move || {
                for round in 0..rounds {
                    barrier.wait();
                    // Some rounds later, so that deadlines win as well.
                    if round % 3 == 2 {
                        std::thread::sleep(Duration::from_micros(300));
                    }
                    if let Some(waiter) = registry.end(Who::Name(&round.to_ne_bytes()), end) {
                        wins.fetch_add(1, Ordering::Relaxed);
                        waiter.tell("ended");
                    }
                    barrier.wait();
                }
            })
        })
        .collect();
    for round in 0..rounds {
        let tx = tx.clone();
        registry.register(&round.to_ne_bytes(), Some(Duration::from_micros(200)), |_| Told(tx)).unwrap();
        barrier.wait();
        barrier.wait();
    }
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    drop(tx);
    let told: Vec<_> = rx.iter().map(|(by, _)| by).collect();
    let counters = registry.counters();
    assert_eq!(told.len(), rounds as usize);
    assert_eq!(told.iter().filter(|by| **by == "ended").count(), wins.load(Ordering::Relaxed));
    assert_eq!(counters.completed + counters.cancelled, wins.load(Ordering::Relaxed) as u64);
    assert_eq!(counters.completed + counters.cancelled + counters.expired, u64::from(rounds));
    assert_eq!(registry.in_flight(), 0);
}

// It weighs memory, of which the sanitizer takes its share.
#[cfg(not(tsan))]
#[test]
fn a_million_registered_and_completed_leave_no_memory_behind() {
    let (registry, (tx, _rx)) = (registry(), mpsc::channel());
    let round = |number: u64| {
        let name = number.to_ne_bytes();
        registry.register(&name, Some(LONG), |_| Told(tx.clone())).unwrap();
        assert!(registry.end(Who::Name(&name), End::Completed).is_some());
    };
    (0..100_000).for_each(round);
    let before = resident();
    (100_000..1_100_000).for_each(round);
    let grown = resident().saturating_sub(before);
    assert!(grown < 8 << 20, "{grown} bytes more");
    assert_eq!((registry.in_flight(), registry.counters().completed), (0, 1_100_000));
}

#[test]
fn ten_thousand_deadlines_pass_and_all_are_told_once() {
    let (registry, (tx, rx)) = (registry(), mpsc::channel());
    for number in 0..10_000u32 {
        let tx = tx.clone();
        let timeout = Duration::from_micros(u64::from(number % 5000));
        registry.register(&number.to_ne_bytes(), Some(timeout), |_| Told(tx)).unwrap();
    }
    drop(tx);
    assert_eq!(rx.iter().count(), 10_000);
    assert_eq!((registry.in_flight(), registry.counters().expired), (0, 10_000));
}

fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: usize = status.split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4096
}
