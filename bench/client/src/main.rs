//! The load client: `bench-client <echo|hold> key=value …` prints one JSON line.
//!
//! `echo` keeps one message in flight on every connection, compares every byte that comes back, and reads the
//! server's CPU clock at both ends of the measured time. `hold` opens connections, says so, and keeps them
//! until its standard input ends. One thread; anything unexpected ends the process with an error.

mod cpu;
mod echo;
mod hold;
mod link;
mod message;
#[path = "../../evloop/src/params.rs"]
mod params;
mod tls;
mod udp;
mod websocket;

use std::process::ExitCode;

use params::Params;

type Outcome = Result<String, String>;

fn work() -> Outcome {
    let mut args = std::env::args().skip(1);
    let mode = args.next().unwrap_or_default();
    let mut params = Params::parse(args)?;
    match mode.as_str() {
        "echo" => echo::run(&mut params),
        "hold" => hold::run(&mut params),
        _ => Err("usage: bench-client <echo|hold> [key=value …]".to_owned()),
    }
}

fn main() -> ExitCode {
    match work() {
        Ok(line) => {
            println!("{line}");
            ExitCode::SUCCESS
        }
        Err(reason) => {
            eprintln!("bench-client: {reason}");
            ExitCode::FAILURE
        }
    }
}
