//! Idle means idle: no wake-up, no turn, no poll while nothing is due. Alone in its process and counted twice, by the
//! loop and by the kernel.
#![allow(clippy::unwrap_used)]

mod common;

use std::time::Duration;

use common::{on_loop, started};
use evloop::{Interest, Local};

/// Whether the kernel says that the loop's thread sleeps, and how often it has put it to sleep and woken it.
fn sleeps(thread: i32) -> (bool, u64) {
    let status = std::fs::read_to_string(format!("/proc/self/task/{thread}/status")).unwrap();
    let of = |name| {
        let line = status.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().nth(1).unwrap()
    };
    let switches = |name| of(name).parse::<u64>().unwrap();
    (of("State:") == "S", switches("voluntary_ctxt_switches") + switches("nonvoluntary_ctxt_switches"))
}

#[test]
fn an_idle_loop_with_a_far_timer_and_a_quiet_fd_does_not_wake_up_in_five_seconds() {
    let events = started();
    let (read, _write) = rustix::pipe::pipe().unwrap();
    events.call_later(Duration::from_secs(3600), || ()).unwrap();
    // A timer that is cancelled must not leave its deadline armed.
    let near = events.call_later(Duration::from_secs(1), || ()).unwrap();
    drop(events.spawn(evloop::sleep(Duration::from_secs(3600))).unwrap());
    let thread = on_loop(&events, move || {
        Local::current().unwrap().register(read, Interest::READ, |_| ()).unwrap();
        rustix::thread::gettid().as_raw_nonzero().get()
    });
    assert!(near.cancel());
    on_loop(&events, || ());
    // Let the loop go to sleep for good: wait until the kernel sees it sleeping, twice the same. On a busy machine a
    // thread that wants to run may not get to it for long; it does not count as sleeping.
    common::eventually("the loop sleeps", || {
        let seen = sleeps(thread);
        std::thread::sleep(Duration::from_millis(50));
        seen.0 && sleeps(thread) == seen
    });
    let settled = sleeps(thread);
    let before = events.stats();
    std::thread::sleep(Duration::from_secs(5));
    assert_eq!(events.stats(), before);
    assert_eq!(sleeps(thread), settled);
    // And it is not dead.
    assert_eq!(on_loop(&events, || 7), 7);
    // The loop publishes its counts at the end of a turn, which may be after the answer above.
    common::eventually("the wake-up is counted", || events.stats().wakeups > before.wakeups);
}
