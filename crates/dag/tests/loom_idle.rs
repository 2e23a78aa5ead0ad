//! A model of the sleep of the pool's workers, checked by loom: work that was added is never slept over.
#![cfg(loom)]

use dag::idle::Idle;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;

/// Takes one piece of work, if there is some.
fn take(work: &AtomicUsize) -> bool {
    work.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok()
}

/// What a worker of the pool does until it has found one piece of work.
fn find(idle: &Idle, work: &AtomicUsize) {
    idle.search();
    while !take(work) {
        idle.sleep(|| work.load(Ordering::Relaxed) > 0);
    }
    idle.found();
}

/// If a wake-up got lost, a worker would sleep for ever, and loom reports a deadlock.
#[test]
fn work_is_never_slept_over() {
    loom::model(|| {
        let (idle, work) = (Arc::new(Idle::default()), Arc::new(AtomicUsize::new(0)));
        let worker = {
            let (idle, work) = (idle.clone(), work.clone());
            thread::spawn(move || find(&idle, &work))
        };
        work.fetch_add(1, Ordering::Release);
        idle.added();
        worker.join().unwrap();
        assert_eq!(work.load(Ordering::SeqCst), 0);
    });
}

/// Two pieces of work for two workers, and wakes that are left out while somebody looks: both find one.
#[test]
fn a_wake_left_out_is_made_up_for_by_who_was_looking() {
    loom::model(|| {
        let (idle, work) = (Arc::new(Idle::default()), Arc::new(AtomicUsize::new(0)));
        let workers: Vec<_> = (0..2)
            .map(|_| {
                let (idle, work) = (idle.clone(), work.clone());
                thread::spawn(move || find(&idle, &work))
            })
            .collect();
        for _ in 0..2 {
            work.fetch_add(1, Ordering::Release);
            idle.added();
        }
        for worker in workers {
            worker.join().unwrap();
        }
    });
}
