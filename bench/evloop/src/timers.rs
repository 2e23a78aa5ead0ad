//! Timers, made and fired on the loop's own thread.
//!
//! - `fire`: 10 000 timers of 1 ms, from before the first is armed until the last has fired; none may fire
//!   early.
//! - `alive`: 10^6 timers of 30 s, all armed before the first is cancelled.
//! - `spread`: the same with delays spread over a minute, so that no structure profits from equal deadlines.
//! - `pair`: 10^6 times one timer armed and cancelled at once.
//!
//! The first round warms memory up and is thrown away; the value is the median of the others.

mod on_evloop;
mod on_tokio;

use std::time::Duration;

use crate::params::Params;
use crate::report::{Outcome, Report, cpu_time, percentile};
use crate::tally::Tally;

/// One implementation, its loop running.
trait Timers {
    /// Arms `tally.expected()` timers of `tally.delay()`, each calling `tally.fired`; returns the time until
    /// the last fired.
    fn fire(&mut self, tally: &'static Tally, last: std::sync::mpsc::Receiver<std::time::Instant>) -> Taken;
    /// Arms one timer per delay, then cancels all of them, in the order of their making.
    fn alive(&mut self, delays: &'static [Duration]) -> Taken;
    /// Arms and cancels one timer at a time.
    fn pair(&mut self, count: u64, delay: Duration) -> Taken;
    fn stop(self: Box<Self>);
}

type Taken = Result<Duration, String>;

const LONG: Duration = Duration::from_secs(30);

pub(crate) fn run(arm: &str, params: &mut Params) -> Outcome {
    let row: String = params.take("row", "fire".to_owned())?;
    let count = params.take("timers", if row == "fire" { 10_000_u64 } else { 1_000_000 })?;
    let rounds = params.take("rounds", if row == "fire" { 40_u64 } else { 3 })?;
    params.finish()?;
    let mut timers: Box<dyn Timers> = match arm {
        "evloop" => Box::new(on_evloop::OnEvloop::start()),
        "tokio" => Box::new(on_tokio::OnTokio::start(false)),
        "tokio-unordered" => Box::new(on_tokio::OnTokio::start(true)),
        other => return Err(format!("no such arm: {other}")),
    };
    let mut round: Box<dyn FnMut() -> Taken> = match row.as_str() {
        "fire" => Box::new(|| {
            let (tally, last) = Tally::leak(Duration::from_millis(1), count);
            timers.fire(tally, last)
        }),
        "alive" => {
            let delays = vec![LONG; usize::try_from(count).unwrap()].leak();
            Box::new(|| timers.alive(delays))
        }
        "spread" => {
            let delays = spread(count).leak();
            Box::new(|| timers.alive(delays))
        }
        "pair" => Box::new(|| timers.pair(count, LONG)),
        other => return Err(format!("no such row: {other}")),
    };
    round()?;
    let cpu = cpu_time();
    let mut taken = (0..rounds).map(|_| round()).collect::<Result<Vec<_>, _>>()?;
    let cpu = cpu_time() - cpu;
    drop(round);
    timers.stop();

    let median = percentile(&mut taken, 50).as_secs_f64();
    let (value, unit) =
        if row == "fire" { (median * 1e3, "ms") } else { (count as f64 / median, "timers/s") };
    Ok(Report {
        topic: "timers",
        row,
        arm: arm.to_owned(),
        value,
        unit,
        cpu_seconds: cpu.as_secs_f64(),
        also: vec![],
    })
}

/// Whole milliseconds from 1 to 60 000 in a fixed pseudo-random order; the libuv peer makes the same ones.
fn spread(count: u64) -> Vec<Duration> {
    let mut state = 1_u32;
    (0..count)
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            Duration::from_millis(u64::from((state >> 8) % 60_000 + 1))
        })
        .collect()
}
