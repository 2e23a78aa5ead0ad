//! 1 000 sleeps of 10 ms handed over by one outside thread: from before the first hand-over until the last
//! has woken. On a loop they overlap; eight blocking threads take them eight at a time.

mod on_evloop;
mod on_pool;
mod on_tokio;

use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use crate::params::Params;
use crate::report::{Outcome, Report, cpu_time};
use crate::tally::Tally;

pub(crate) fn run(arm: &str, params: &mut Params) -> Outcome {
    let sleeps = params.take("sleeps", 1_000_u64)?;
    let millis = params.take("millis", 10_u64)?;
    params.finish()?;
    let (tally, last) = Tally::leak(Duration::from_millis(millis), sleeps);
    let measure: fn(&'static Tally, &Receiver<Instant>) -> Result<Duration, String> = match arm {
        "evloop" => on_evloop::measure,
        "tokio" => on_tokio::measure,
        "pool" => on_pool::measure,
        other => return Err(format!("no such arm: {other}")),
    };
    let cpu = cpu_time();
    let taken = measure(tally, &last)?;
    let cpu = cpu_time() - cpu;
    Ok(Report {
        topic: "sleeps",
        row: format!("{sleeps} sleeps of {millis} ms"),
        arm: arm.to_owned(),
        value: taken.as_secs_f64() * 1e3,
        unit: "ms",
        cpu_seconds: cpu.as_secs_f64(),
        also: vec![],
    })
}
