//! Staying awake before a sleep: only for whoever asked for it, only in dense traffic, and never in the way of a sleep.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use evloop::{Core, Interest, Tuning};
use rustix::io::{read, write};
use rustix::pipe::pipe;

type Plain = Core<(), (), ()>;

fn core(watch: Duration) -> Plain {
    let core = Plain::new(Tuning { spin: Duration::ZERO, watch, ..Tuning::default() }).unwrap();
    core.inbox().open();
    core
}

/// Falls asleep, is watched for as long as it says and otherwise woken at once. How long it was to be watched.
fn wait(core: &mut Plain) -> Duration {
    assert!(core.fall_asleep().unwrap(), "there is nothing to do");
    let (poller, mut events, awake) = (core.poller().clone(), core.take_events(), core.watch());
    if awake.is_zero() {
        poller.wake();
        poller.wait(&mut events, true).unwrap();
    } else {
        poller.watch(&mut events, awake).unwrap();
    }
    core.wake_up(events).unwrap();
    awake
}

const LONG: Duration = Duration::from_secs(1000);

#[test]
fn nobody_watches_who_did_not_ask_for_it() {
    let mut core = core(Duration::ZERO);
    (0..10).for_each(|_| assert_eq!(wait(&mut core), Duration::ZERO));
}

#[test]
fn the_first_wait_is_a_sleep_and_after_a_short_one_epoll_is_watched() {
    let mut core = core(LONG);
    let (reader, writer) = pipe().unwrap();
    core.register(reader.try_clone().unwrap().into(), Interest::READ, ()).unwrap();
    assert_eq!(wait(&mut core), Duration::ZERO);
    for _ in 0..100 {
        write(&writer, b"x").unwrap();
        assert_eq!(wait(&mut core), LONG, "it finds something each time, so it goes on");
        assert!(core.next_event().is_some());
        read(&reader, &mut [0u8; 1]).unwrap();
    }
}

#[test]
fn a_watch_in_vain_ends_without_events_and_the_next_waits_are_sleeps() {
    let mut core = core(Duration::from_millis(100));
    wait(&mut core);
    // Dense, as far as it knows; nothing comes, so each of these ends by itself.
    let watched = (0..64).filter(|_| !wait(&mut core).is_zero()).count();
    assert!((1..8).contains(&watched), "{watched} of 64");
}
