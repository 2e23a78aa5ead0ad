//! Models of the lifecycle: racing starts and stops, checked by loom.
#![cfg(loom)]
#![allow(clippy::unwrap_used)]

use evloop::inbox;
use evloop::lifecycle::{Lifecycle, State, StopTurn};
use loom::sync::Arc;
use loom::thread;

/// Two stops and the loop's end: one wins, both return after the end.
#[test]
fn two_stops_have_one_winner_and_both_see_the_end() {
    loom::model(|| {
        let life = Arc::new(Lifecycle::default());
        life.begin_start().unwrap();
        life.started().unwrap();
        let stop = |life: Arc<Lifecycle>| {
            let turn = life.begin_stop();
            if turn == StopTurn::Won {
                // The loop, told to end by the winner.
                life.finished().unwrap();
            }
            assert!(life.wait_stopped(None));
            turn
        };
        let other = life.clone();
        let racer = thread::spawn(move || stop(other));
        let turns = [stop(life.clone()), racer.join().unwrap()];
        assert_eq!(turns.iter().filter(|turn| **turn == StopTurn::Won).count(), 1);
        assert_eq!(life.state(), State::Stopped);
    });
}

/// A start against a stop: the loop is stopped in the end, and it was never both running and forgotten.
#[test]
fn a_stop_racing_a_start_waits_for_it_or_forbids_it() {
    loom::model(|| {
        let life = Arc::new(Lifecycle::default());
        let other = life.clone();
        let starter = thread::spawn(move || match other.begin_start() {
            Ok(()) => other.started().is_ok(),
            Err(state) => {
                assert_eq!(state, State::Stopped);
                false
            }
        });
        match life.begin_stop() {
            StopTurn::Won => life.finished().unwrap(),
            StopTurn::NeverRan => {}
            StopTurn::Lost => unreachable!("there is one stop"),
        }
        let ran = starter.join().unwrap();
        assert_eq!(life.state(), State::Stopped);
        assert!(!ran || life.begin_start() == Err(State::Stopped));
    });
}

/// Two starts: one wins, the other waits until the loop runs.
#[test]
fn two_starts_have_one_winner() {
    loom::model(|| {
        let life = Arc::new(Lifecycle::default());
        let start = |life: &Lifecycle| match life.begin_start() {
            Ok(()) => {
                life.started().unwrap();
                true
            }
            Err(_) => {
                assert_eq!(life.wait_while(State::Starting), State::Running);
                false
            }
        };
        let other = life.clone();
        let racer = thread::spawn(move || start(&other));
        let wins = [start(&life), racer.join().unwrap()];
        assert_eq!(wins.iter().filter(|won| **won).count(), 1);
    });
}

/// The whole of a shutdown: a post races a stop, and the loop drains and ends. What was accepted ran.
#[test]
fn a_post_racing_a_stop_runs_if_it_was_accepted() {
    loom::model(|| {
        let life = Arc::new(Lifecycle::default());
        let (inbox, mut drain) = inbox::new();
        life.begin_start().unwrap();
        inbox.open();
        life.started().unwrap();
        let (poster_inbox, looping) = (inbox.clone(), life.clone());
        let poster = thread::spawn(move || poster_inbox.push(1u8).is_ok());
        let the_loop = thread::spawn(move || {
            let mut ran = 0;
            while !drain.is_finished() {
                match drain.pop(drain.mark()) {
                    Some(_) => ran += 1,
                    None => thread::yield_now(),
                }
            }
            looping.finished().unwrap();
            ran
        });
        assert_eq!(life.begin_stop(), StopTurn::Won);
        let _ = inbox.close();
        assert!(life.wait_stopped(None));
        assert_eq!(the_loop.join().unwrap(), u32::from(poster.join().unwrap()));
    });
}
