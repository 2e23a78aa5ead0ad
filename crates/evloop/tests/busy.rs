//! Turns of a core that has work all the time: it may leave the clock unasked, and nobody notices.
#![allow(clippy::unwrap_used)]

use evloop::os::now;
use evloop::{Core, Tuning, Wait};

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
