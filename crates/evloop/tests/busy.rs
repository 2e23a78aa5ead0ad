//! Turns of a core that has work all the time: when it leaves the clock and epoll unasked, and that nobody notices.
#![allow(clippy::unwrap_used)]

use std::io::Write as _;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use evloop::os::now;
use evloop::{Core, Fd, Interest, Tuning, Wait};

#[test]
fn a_timer_that_is_due_at_once_fires_in_the_next_turn_of_a_busy_core() {
    let mut core = Core::<(), u32, ()>::new(Tuning::default()).unwrap();
    for round in 0..1000 {
        core.poll(Wait::Busy).unwrap();
        core.add_timer(now(), round);
        core.poll(Wait::Busy).unwrap();
        assert_eq!(core.pop_due(), Some(round));
    }
}

#[test]
fn a_busy_core_asks_epoll_again_after_a_while() {
    let mut core = Core::<(), u32, ()>::new(Tuning::default()).unwrap();
    let start = now();
    core.poll(Wait::No).unwrap();
    let polls = core.counts().polls;
    while core.counts().polls == polls {
        core.poll(Wait::Busy).unwrap();
        assert!(now() - start < 20_000_000_000, "epoll is never asked");
    }
}

const QUIET: u32 = 5;

/// Asks epoll when it has been quiet, and then not for the rest of the test.
fn patient() -> Core<(), (), ()> {
    let tuning = Tuning { poll_interval: Duration::from_secs(3600), quiet_polls: QUIET, ..Tuning::default() };
    let core = Core::new(tuning).unwrap();
    core.inbox().open();
    core
}

/// How many of a thousand turns ask epoll.
fn asked(core: &mut Core<(), (), ()>) -> u64 {
    let before = core.counts().polls;
    (0..1000).for_each(|_| core.poll(Wait::Busy).unwrap());
    core.counts().polls - before
}

#[test]
fn a_busy_core_asks_epoll_every_turn_until_it_has_been_quiet() {
    let quiet = u64::from(QUIET);
    let mut core = patient();
    assert_eq!(asked(&mut core), quiet);
    assert_eq!(asked(&mut core), 0);

    let (near, mut far) = UnixStream::pair().unwrap();
    let source = core.register(Fd::Owned(near.into()), Interest::READ, ()).unwrap();
    assert_eq!(asked(&mut core), quiet, "after a registration");
    core.set_interest(source, Interest::WRITE).unwrap();
    core.poll(Wait::Busy).unwrap();
    assert!(core.next_event().is_some(), "an event is seen in the very next turn");
    core.set_interest(source, Interest::READ).unwrap();
    assert_eq!(asked(&mut core), quiet, "after an event");

    core.poller().wake();
    core.poll(Wait::Yes).unwrap();
    far.write_all(b"x").unwrap();
    core.poll(Wait::Busy).unwrap();
    assert!(core.next_event().is_some(), "after a wait");
}
