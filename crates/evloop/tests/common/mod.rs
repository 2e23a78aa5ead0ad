//! What the tests of the loop share: a started loop, and counts of what a process holds.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

use std::sync::mpsc;
use std::time::Duration;

use evloop::{Config, EventLoop};

/// A loop that runs.
pub fn started() -> EventLoop {
    let events = EventLoop::new();
    events.start(Config::default()).unwrap();
    events
}

/// Runs `f` on the loop and waits for what it returns.
pub fn on_loop<T: Send + 'static>(events: &EventLoop, f: impl FnOnce() -> T + Send + 'static) -> T {
    let (tx, rx) = mpsc::channel();
    events.post(move || tx.send(f()).unwrap()).unwrap();
    rx.recv().unwrap()
}

/// How many fds this process has open.
pub fn open_fds() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// The process's resident memory in KiB.
pub fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// How many threads this process has.
pub fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").unwrap().count()
}

/// Waits until `condition` holds; a loop that never gets there fails the test instead of hanging it.
pub fn eventually(what: &str, condition: impl Fn() -> bool) {
    let deadline = std::time::Instant::now() + Duration::from_secs(60);
    while !condition() {
        assert!(std::time::Instant::now() < deadline, "never: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}
