//! One measurement in one process: `bench-evloop <topic> <arm> [key=value …]` prints one JSON line.
//!
//! A topic is a file (`posts`, `timers`, `wakeup`, `sleeps`), an arm is who is measured: `evloop`, or a peer.
//! Every arm does the same work and checks its own result: a closure that did not run or a timer that fired
//! early ends the process with an error instead of a number. `bench/run.py` starts the processes in turn; the
//! libuv peer speaks the same lines from `bench/libuv`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a measuring program: a broken invariant has to end it before it prints a number"
)]

mod loops;
mod params;
mod posts;
mod report;
mod sleeps;
mod tally;
mod timers;
mod wakeup;

use std::process::ExitCode;

use params::Params;
use report::Outcome;

fn measure() -> Outcome {
    let mut args = std::env::args().skip(1);
    let topic = args.next().unwrap_or_default();
    let arm = args.next().ok_or("usage: bench-evloop <posts|timers|wakeup|sleeps> <arm> [key=value …]")?;
    let mut params = Params::parse(args)?;
    match topic.as_str() {
        "posts" => posts::run(&arm, &mut params),
        "timers" => timers::run(&arm, &mut params),
        "wakeup" => wakeup::run(&arm, &mut params),
        "sleeps" => sleeps::run(&arm, &mut params),
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
            eprintln!("bench-evloop: {reason}");
            ExitCode::FAILURE
        }
    }
}
