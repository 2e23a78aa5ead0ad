//! Futures on the loop: polled and dropped there, woken from anywhere.
#![allow(clippy::unwrap_used)]

mod common;

use std::cell::Cell;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Poll, Waker};
use std::time::Duration;

use common::{on_loop, started};
use evloop::{Elapsed, JoinError, Local, sleep, timeout};
use futures_lite::future::{block_on, yield_now};

#[test]
fn a_future_runs_on_the_loop_thread_and_its_result_comes_back() {
    let events = started();
    let inside = events.clone();
    let task = events.spawn(async move { inside.is_loop_thread() }).unwrap();
    assert_eq!(block_on(task), Ok(true));
}

#[test]
fn a_local_future_need_not_be_send() {
    let events = started();
    let task = events.spawn_with(|| async {
        let count = Rc::new(Cell::new(0));
        let adder = count.clone();
        let other = Local::current().unwrap().spawn(async move {
            yield_now().await;
            adder.set(adder.get() + 1);
        });
        other.unwrap().await.unwrap();
        count.get()
    });
    assert_eq!(block_on(task.unwrap()), Ok(1));
}

#[test]
fn interleaved_sleeps_wake_in_deadline_order() {
    let events = started();
    let (tx, rx) = mpsc::channel();
    let all = async move {
        let local = Local::current().unwrap();
        for n in [4u64, 2, 5, 1, 3] {
            let tx = tx.clone();
            let nap = async move {
                for round in 0..3 {
                    sleep(Duration::from_millis(10 * n)).await.unwrap();
                    tx.send((n * (round + 1), n)).unwrap();
                }
            };
            drop(local.spawn(nap).unwrap());
        }
    };
    drop(events.spawn_with(|| all).unwrap());
    let woken: Vec<_> = rx.iter().collect();
    assert_eq!(woken.len(), 15);
    // Each task's own three are in order, and so are the first wake-ups of all five: their deadlines are 10 ms apart
    // and count from the same turn.
    let firsts: Vec<_> = woken.iter().filter(|(at, n)| at == n).map(|(_, n)| *n).collect();
    assert_eq!(firsts, [1, 2, 3, 4, 5]);
}

#[test]
fn a_wake_from_any_thread_resumes_a_future() {
    let events = started();
    for _ in 0..1000 {
        let slot: Arc<Mutex<(bool, Option<Waker>)>> = Arc::default();
        let waits = slot.clone();
        let task = events.spawn(poll_fn(move |cx| {
            let mut slot = waits.lock().unwrap();
            if slot.0 {
                return Poll::Ready(7);
            }
            slot.1 = Some(cx.waker().clone());
            Poll::Pending
        }));
        let waker = std::thread::spawn(move || {
            let mut slot = slot.lock().unwrap();
            slot.0 = true;
            if let Some(waker) = slot.1.take() {
                waker.wake();
            }
        });
        assert_eq!(block_on(task.unwrap()), Ok(7));
        waker.join().unwrap();
    }
}

#[test]
fn a_waker_kept_beyond_the_task_and_beyond_the_loop_does_nothing() {
    let events = started();
    let kept: Arc<Mutex<Option<Waker>>> = Arc::default();
    let keep = kept.clone();
    let task = events
        .spawn(poll_fn(move |cx| {
            *keep.lock().unwrap() = Some(cx.waker().clone());
            Poll::Ready(())
        }))
        .unwrap();
    block_on(task).unwrap();
    let waker = kept.lock().unwrap().take().unwrap();
    waker.wake_by_ref();
    on_loop(&events, || ());
    let before = events.stop().report().unwrap();
    waker.wake();
    assert_eq!(before.panics, 0);
}

#[test]
fn many_wakes_of_one_future_are_one_poll() {
    let events = started();
    let polls = Arc::new(AtomicU64::new(0));
    let (slot, counter): (Arc<Mutex<Option<Waker>>>, _) = (Arc::default(), polls.clone());
    let waits = slot.clone();
    let task = events
        .spawn(poll_fn(move |cx| {
            *waits.lock().unwrap() = Some(cx.waker().clone());
            counter.fetch_add(1, Ordering::SeqCst);
            Poll::<()>::Pending
        }))
        .unwrap();
    common::eventually("the first poll", || slot.lock().unwrap().is_some());
    let waker = slot.lock().unwrap().clone().unwrap();
    let (gate_tx, gate_rx) = mpsc::channel::<()>();
    events.post(move || gate_rx.recv().unwrap()).unwrap();
    for _ in 0..1000 {
        waker.wake_by_ref();
    }
    gate_tx.send(()).unwrap();
    common::eventually("the second poll", || polls.load(Ordering::SeqCst) == 2);
    on_loop(&events, || ());
    on_loop(&events, || ());
    assert_eq!(polls.load(Ordering::SeqCst), 2);
    drop(task);
}

#[test]
fn an_aborted_future_is_dropped_on_the_loop_thread() {
    struct Tells(mpsc::Sender<bool>);
    impl Drop for Tells {
        fn drop(&mut self) {
            self.0.send(Local::current().is_ok()).unwrap();
        }
    }
    let events = started();
    let (tx, rx) = mpsc::channel();
    let (tells, started_flag) = (Tells(tx), Arc::new(AtomicBool::new(false)));
    let flag = started_flag.clone();
    let task = events
        .spawn(async move {
            let _tells = tells;
            flag.store(true, Ordering::SeqCst);
            std::future::pending::<()>().await;
        })
        .unwrap();
    common::eventually("the task runs", || started_flag.load(Ordering::SeqCst));
    task.abort();
    assert!(rx.recv().unwrap());
    assert_eq!(block_on(task), Err(JoinError::Cancelled));
    common::eventually("the slot is free", || events.stats().tasks == 0);
}

#[test]
fn abort_races_with_start_and_end_and_always_answers() {
    let events = started();
    for i in 0..1000 {
        let task = events
            .spawn(async move {
                for _ in 0..i % 4 {
                    yield_now().await;
                }
                i
            })
            .unwrap();
        task.abort();
        match block_on(task) {
            Ok(value) => assert_eq!(value, i),
            Err(error) => assert_eq!(error, JoinError::Cancelled),
        }
    }
}

#[test]
fn a_timeout_drops_what_it_waited_for() {
    let events = started();
    let (tx, rx) = mpsc::channel::<()>();
    let task = events
        .spawn(async move {
            let slow = async move {
                let _tx = tx;
                sleep(Duration::from_secs(3600)).await
            };
            let late = timeout(Duration::from_millis(1), slow).await.unwrap();
            let soon = timeout(Duration::from_secs(3600), async { 7 }).await.unwrap();
            (late.is_err(), soon)
        })
        .unwrap();
    assert_eq!(block_on(task).unwrap(), (true, Ok::<_, Elapsed>(7)));
    assert!(rx.recv().is_err());
    on_loop(&events, || ());
    common::eventually("both sleeps took their timers along", || events.stats().timers == 0);
}

#[test]
fn a_sleep_dropped_on_another_thread_takes_its_timer_along() {
    let events = started();
    let (tx, rx) = mpsc::channel();
    let task = events
        .spawn(async move {
            let mut nap = Box::pin(sleep(Duration::from_secs(3600)));
            assert!(futures_lite::future::poll_once(&mut nap).await.is_none());
            tx.send(nap).unwrap();
        })
        .unwrap();
    block_on(task).unwrap();
    let nap = rx.recv().unwrap();
    common::eventually("the timer is there", || events.stats().timers == 1);
    drop(nap);
    common::eventually("the timer is gone", || {
        on_loop(&events, || ());
        events.stats().timers == 0
    });
}

#[test]
fn ten_thousand_futures_finish() {
    let events = started();
    let tasks: Vec<_> = (0..10_000u64)
        .map(|i| {
            events
                .spawn(async move {
                    sleep(Duration::from_micros(i % 1000)).await.unwrap();
                    i
                })
                .unwrap()
        })
        .collect();
    let sum: u64 = tasks.into_iter().map(|task| block_on(task).unwrap()).sum();
    assert_eq!(sum, 9_999 * 10_000 / 2);
}
