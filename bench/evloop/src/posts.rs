//! Posts per second: P producers hand small closures to one loop, measured from the moment the first producer
//! starts to the execution of the last closure.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use crate::loops::{Loop, Poster, on_evloop, on_tokio};
use crate::params::Params;
use crate::report::{Outcome, Report, cpu_time};

pub(crate) fn run(arm: &str, params: &mut Params) -> Outcome {
    let producers = params.take("producers", 1_u64)?;
    let posts = params.take("posts", 2_000_000_u64)?;
    params.finish()?;
    if producers == 0 || posts == 0 || posts % producers != 0 {
        return Err(format!("{posts} posts cannot be shared out to {producers} producers"));
    }
    let (rate, cpu) = match arm {
        "evloop" => measure::<on_evloop::Running>(producers, posts),
        "tokio" => measure::<on_tokio::Channel<false>>(producers, posts),
        "tokio-recv-many" => measure::<on_tokio::Channel<true>>(producers, posts),
        other => Err(format!("no such arm: {other}")),
    }?;
    Ok(Report {
        topic: "posts",
        row: format!("{producers} producers"),
        arm: arm.to_owned(),
        value: rate,
        unit: "posts/s",
        cpu_seconds: cpu.as_secs_f64(),
        also: vec![],
    })
}

/// What a closure works on. Only the loop's thread writes, so a load and a store are enough and no arm's time
/// is hidden behind a contended counter.
struct Sink {
    expected: u64,
    count: AtomicU64,
    sum: AtomicU64,
    last: Sender<Instant>,
}

impl Sink {
    fn take(&self, value: u64) {
        self.sum.store(self.sum.load(Relaxed).wrapping_add(value), Relaxed);
        let count = self.count.load(Relaxed) + 1;
        self.count.store(count, Relaxed);
        if count == self.expected {
            let _ = self.last.send(Instant::now());
        }
    }
}

fn measure<L: Loop>(producers: u64, posts: u64) -> Result<(f64, Duration), String> {
    let (last, last_ran) = channel();
    let sink: &'static Sink =
        Box::leak(Box::new(Sink { expected: posts, count: AtomicU64::new(0), sum: AtomicU64::new(0), last }));
    let the_loop = L::start();
    warm_up(&the_loop.poster());

    let share = posts / producers;
    let barrier = Arc::new(Barrier::new(usize::try_from(producers).unwrap() + 1));
    let threads: Vec<_> = (0..producers)
        .map(|producer| {
            let (poster, barrier) = (the_loop.poster(), Arc::clone(&barrier));
            thread::spawn(move || {
                barrier.wait();
                let started = Instant::now();
                for value in producer * share..(producer + 1) * share {
                    poster.post(move || sink.take(value));
                }
                started
            })
        })
        .collect();
    let cpu = cpu_time();
    barrier.wait();
    let started = threads.into_iter().map(|thread| thread.join().unwrap()).min().unwrap();
    let last = last_ran.recv_timeout(Duration::from_secs(60));
    let cpu = cpu_time() - cpu;
    the_loop.stop();

    let (count, sum) = (sink.count.load(Relaxed), sink.sum.load(Relaxed));
    let last = last.map_err(|_| format!("{count} of {posts} closures ran"))?;
    if count != posts || sum != posts * (posts - 1) / 2 {
        return Err(format!("{count} of {posts} closures ran, their sum is {sum}"));
    }
    Ok((posts as f64 / last.duration_since(started).as_secs_f64(), cpu))
}

/// The loop's thread is up and has run something before the clock starts.
fn warm_up<P: Poster>(poster: &P) {
    let (done, ran) = channel();
    poster.post(move || done.send(()).unwrap());
    ran.recv().unwrap();
}
