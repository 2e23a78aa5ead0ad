//! Posts per second: P producers hand small closures to one loop, measured from the moment the first producer
//! starts to the execution of the last closure.
//!
//! The loop lives through the whole process. After a small round that warms it up, rounds of all posts follow
//! until the given time is over, at least one: a slow arm takes one round and a fast one many, and the value is
//! the median. The CPU time is that of one round.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use crate::loops::{Loop, Poster, on_evloop, on_tokio};
use crate::params::Params;
use crate::report::{Outcome, Report, cpu_time, percentile};

pub(crate) fn run(arm: &str, params: &mut Params) -> Outcome {
    let producers = params.take("producers", 1_u64)?;
    let posts = params.take("posts", 2_000_000_u64)?;
    let enough = Duration::from_millis(params.take("millis", 500_u64)?);
    params.finish()?;
    if producers == 0 || posts == 0 || posts % (WARM_UP * producers) != 0 {
        return Err(format!("{posts} posts cannot be shared out to {producers} producers"));
    }
    let (time, cpu) = match arm {
        "evloop" => measure::<on_evloop::Running>(producers, posts, enough),
        "tokio" => measure::<on_tokio::Channel<false>>(producers, posts, enough),
        "tokio-recv-many" => measure::<on_tokio::Channel<true>>(producers, posts, enough),
        other => Err(format!("no such arm: {other}")),
    }?;
    Ok(Report {
        topic: "posts",
        row: format!("{producers} producers"),
        arm: arm.to_owned(),
        value: posts as f64 / time.as_secs_f64(),
        unit: "posts/s",
        cpu_seconds: cpu.as_secs_f64(),
        also: vec![],
    })
}

/// The round that warms up has this part of the posts.
const WARM_UP: u64 = 10;

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

fn measure<L: Loop>(producers: u64, posts: u64, enough: Duration) -> Result<(Duration, Duration), String> {
    let the_loop = L::start();
    round(&the_loop, producers, posts / WARM_UP)?;
    let mut times = Vec::new();
    let cpu = cpu_time();
    let started = Instant::now();
    while times.is_empty() || started.elapsed() < enough {
        times.push(round(&the_loop, producers, posts)?);
    }
    let cpu = (cpu_time() - cpu) / u32::try_from(times.len()).unwrap();
    the_loop.stop();
    Ok((percentile(&mut times, 50), cpu))
}

fn round<L: Loop>(the_loop: &L, producers: u64, posts: u64) -> Result<Duration, String> {
    let (last, last_ran) = channel();
    let sink: &'static Sink =
        Box::leak(Box::new(Sink { expected: posts, count: AtomicU64::new(0), sum: AtomicU64::new(0), last }));
    let share = posts / producers;
    let barrier = Arc::new(Barrier::new(usize::try_from(producers).unwrap()));
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
    let started = threads.into_iter().map(|thread| thread.join().unwrap()).min().unwrap();
    let last = last_ran.recv_timeout(Duration::from_secs(60));

    let (count, sum) = (sink.count.load(Relaxed), sink.sum.load(Relaxed));
    let last = last.map_err(|_| format!("{count} of {posts} closures ran"))?;
    if count != posts || sum != posts * (posts - 1) / 2 {
        return Err(format!("{count} of {posts} closures ran, their sum is {sum}"));
    }
    Ok(last.duration_since(started))
}
