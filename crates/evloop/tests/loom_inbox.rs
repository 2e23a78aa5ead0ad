//! Models of the inbox: every interleaving of posters, a closer and the loop, checked by loom.
#![cfg(loom)]
#![allow(clippy::unwrap_used)]

use evloop::inbox::{self, Wake};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use loom::thread;

/// Two posters over more than one block: everything arrives once, each poster's own in order.
#[test]
fn two_posters_lose_nothing_and_keep_their_order() {
    loom::model(|| {
        let (inbox, mut drain) = inbox::new();
        inbox.open();
        let other = inbox.clone();
        let poster = thread::spawn(move || {
            for i in 0..2 {
                assert!(other.push((1, i)).is_ok());
            }
        });
        assert!(inbox.push((0, 0)).is_ok());
        poster.join().unwrap();
        let mark = drain.mark();
        let mut seen: Vec<(u8, u8)> = Vec::new();
        while let Some(value) = drain.pop(mark) {
            seen.push(value);
        }
        assert!(drain.is_empty());
        assert_eq!(seen.len(), 3);
        assert!(seen.iter().filter(|value| value.0 == 1).eq(&[(1, 0), (1, 1)]));
        assert_eq!(inbox.accepted(), 3);
    });
}

/// A post against a close: accepted means taken by the loop, refused means given back, nothing in between.
#[test]
fn accepted_is_executed_and_the_rest_is_given_back() {
    loom::model(|| {
        let (inbox, mut drain) = inbox::new();
        inbox.open();
        let other = inbox.clone();
        let poster = thread::spawn(move || {
            let mut accepted = 0;
            for i in 0..2u8 {
                match other.push(i) {
                    Ok(_) => accepted += 1,
                    Err(back) => assert_eq!(back, i),
                }
            }
            accepted
        });
        let _ = inbox.close();
        let mut taken = 0;
        while !drain.is_finished() {
            match drain.pop(drain.mark()) {
                Some(_) => taken += 1,
                None => thread::yield_now(),
            }
        }
        let accepted = poster.join().unwrap();
        assert_eq!(taken, accepted);
        assert_eq!(inbox.accepted(), accepted);
    });
}

/// The loop falls asleep while a poster posts: the loop sees the post, or the poster knows that it has to wake it.
#[test]
fn no_wake_up_is_lost() {
    loom::model(|| {
        let (inbox, mut drain) = inbox::new();
        inbox.open();
        let woken = Arc::new(AtomicBool::new(false));
        let (other, waker) = (inbox.clone(), woken.clone());
        let poster = thread::spawn(move || {
            if other.push(7) == Ok(Wake::Needed) {
                waker.store(true, Ordering::Release);
            }
        });
        if drain.try_sleep() {
            // Asleep: only the poster's wake-up gets the loop out of it. If it is never sent this never ends, and loom
            // reports it.
            while !woken.load(Ordering::Acquire) {
                thread::yield_now();
            }
            drain.awake();
        }
        while drain.pop(drain.mark()).is_none() {
            thread::yield_now();
        }
        poster.join().unwrap();
    });
}

/// Two posters and a sleeper: exactly one of them has to wake it.
#[test]
fn one_wake_up_per_sleep() {
    loom::model(|| {
        let (inbox, drain) = inbox::new();
        inbox.open();
        assert!(drain.try_sleep());
        let wakes = Arc::new(AtomicUsize::new(0));
        let (other, counter) = (inbox.clone(), wakes.clone());
        let poster = thread::spawn(move || {
            if other.push(1) == Ok(Wake::Needed) {
                counter.fetch_add(1, Ordering::Relaxed);
            }
        });
        if inbox.push(2) == Ok(Wake::Needed) {
            wakes.fetch_add(1, Ordering::Relaxed);
        }
        poster.join().unwrap();
        assert_eq!(wakes.load(Ordering::Relaxed), 1);
    });
}

/// A close against a loop that falls asleep: it does not, or it is woken.
#[test]
fn a_close_is_never_slept_through() {
    loom::model(|| {
        let (inbox, drain) = inbox::new::<u8>();
        inbox.open();
        let woken = Arc::new(AtomicBool::new(false));
        let (other, waker) = (inbox.clone(), woken.clone());
        let closer = thread::spawn(move || {
            if other.close() == Wake::Needed {
                waker.store(true, Ordering::Release);
            }
        });
        if drain.try_sleep() {
            while !woken.load(Ordering::Acquire) {
                thread::yield_now();
            }
        }
        closer.join().unwrap();
        assert!(drain.is_finished());
    });
}

/// The loop goes away while a poster is posting: what it took is dropped, once.
#[test]
fn a_post_racing_the_end_of_the_drain_is_dropped_or_given_back() {
    loom::model(|| {
        let (inbox, drain) = inbox::new();
        inbox.open();
        let kept = Arc::new(());
        let (other, value) = (inbox.clone(), kept.clone());
        let poster = thread::spawn(move || {
            let _ = other.push(value.clone());
            let _ = other.push(value.clone());
            let _ = other.push(value);
        });
        drop(drain);
        poster.join().unwrap();
        drop(inbox);
        assert!(Arc::try_unwrap(kept).is_ok());
    });
}
