//! So many requests, so many at a time, and what came of it.

use std::error::Error;
use std::sync::{Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

use super::data;
use super::plan::Item;

/// The time a request has.
const DEADLINE: Duration = Duration::from_millis(200);

/// What came of a load.
pub(crate) struct Load {
    /// Requests a second.
    pub(crate) rate: f64,
    times: Vec<Duration>,
}

impl Load {
    /// So many percent of the requests took no longer, in milliseconds.
    pub(crate) fn millis(&self, percent: usize) -> f64 {
        let rank = (self.times.len() * percent).div_ceil(100).max(1);
        self.times.get(rank - 1).copied().unwrap_or_default().as_secs_f64() * 1e3
    }

    /// How many missed their deadline.
    pub(crate) fn late(&self) -> usize {
        self.times.iter().filter(|time| **time > DEADLINE).count()
    }
}

/// Makes the requests, looks at how long their feeds are, and tells how many are done.
pub(crate) fn load(
    concurrency: usize,
    requests: u32,
    request: impl Fn(i64) -> Result<Vec<Item>, Box<dyn Error>> + Sync,
    done: impl Fn(usize),
) -> Result<Load, Box<dyn Error>> {
    let (tx, rx) = mpsc::channel();
    let next = Mutex::new(0..i64::from(requests));
    let began = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..concurrency {
            let (tx, next, request) = (tx.clone(), &next, &request);
            scope.spawn(move || {
                while let Some(number) = { next.lock().unwrap_or_else(PoisonError::into_inner).next() } {
                    let began = Instant::now();
                    let answer = request(number % data::VIEWERS).map_err(|error| error.to_string());
                    let _ = tx.send(answer.map(|feed| (feed.len(), began.elapsed())));
                }
            });
        }
        drop(tx);
        let mut times = Vec::new();
        for answer in rx {
            let (feed, time) = answer?;
            if feed != data::TAKEN {
                return Err(format!("a feed of {feed} instead of {}", data::TAKEN).into());
            }
            times.push(time);
            done(times.len());
        }
        let rate = f64::from(requests) / began.elapsed().as_secs_f64();
        times.sort();
        Ok(Load { rate, times })
    })
}
