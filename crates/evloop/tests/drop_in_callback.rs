//! The last handle dropped inside a callback, over and over: safe, and nothing stays behind. Alone in its process, as it
//! counts what the process holds.
// ThreadSanitizer keeps memory of its own for every thread that ever was.
#![cfg(not(tsan))]
#![allow(clippy::unwrap_used)]

mod common;

use std::sync::mpsc;
use std::time::Duration;

use common::{eventually, open_fds, resident_kib, started, threads};
use evloop::sleep;

fn round() {
    let events = started();
    let (tx, rx) = mpsc::channel();
    events.call_later(Duration::from_secs(3600), || ()).unwrap();
    drop(events.spawn(sleep(Duration::from_secs(3600))).unwrap());
    let last = events.clone();
    let after = tx.clone();
    events
        .post(move || {
            last.post(move || after.send("drained").unwrap()).unwrap();
            drop(last);
            tx.send("dropped").unwrap();
        })
        .unwrap();
    // Whichever of the two is last stops the loop; most of the time it is the one inside.
    drop(events);
    assert_eq!(rx.iter().collect::<Vec<_>>(), ["dropped", "drained"]);
}

#[test]
fn the_last_handle_dropped_inside_a_callback_leaks_nothing() {
    let quiet = threads();
    for _ in 0..50 {
        round();
    }
    eventually("the threads end", || threads() == quiet);
    let (fds, memory) = (open_fds(), resident_kib());
    for _ in 0..200 {
        round();
    }
    eventually("the threads end", || threads() == quiet);
    assert_eq!(open_fds(), fds);
    let grown = resident_kib().saturating_sub(memory);
    assert!(grown < 1024, "200 loops left {grown} KiB");
}
