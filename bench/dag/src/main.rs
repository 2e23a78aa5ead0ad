//! One measurement in one process: `bench-dag <topic> <arm> [key=value …]` prints one JSON line.
//!
//! A topic is a file (`feed`, `graph`, `redis`), an arm is who is measured: `dag`, or a peer. Every arm does the same work and
//! checks its own result. The peer in C++ over oneTBB speaks the same lines from `bench/tbb`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a measuring program: a broken invariant has to end it before it prints a number"
)]

mod counted;
mod feed;
mod graph;
#[path = "../../evloop/src/params.rs"]
mod params;
mod redis;
#[path = "../../evloop/src/report.rs"]
#[allow(dead_code, reason = "what other topics say is not said here")]
mod report;
mod shape;

use std::process::ExitCode;

use params::Params;
use report::Outcome;

fn measure() -> Outcome {
    let mut args = std::env::args().skip(1);
    let topic = args.next().unwrap_or_default();
    let arm = args.next().ok_or("usage: bench-dag <feed|graph|redis> <arm> [key=value …]")?;
    let mut params = Params::parse(args)?;
    match topic.as_str() {
        "feed" => feed::run(&arm, &mut params),
        "graph" => graph::run(&arm, &mut params),
        "redis" => redis::run(&arm, &mut params),
        other => Err(format!("no such topic: {other}")),
    }
}

fn main() -> ExitCode {
    match measure() {
        Ok(report) => {
            println!("{}", report.json());
            ExitCode::SUCCESS
        }
        Err(reason) => {
            eprintln!("bench-dag: {reason}");
            ExitCode::FAILURE
        }
    }
}
