//! The feed of dag's example, so many requests at a time: requests a second, how long they take, and how many miss their
//! deadline. As a graph on one loop, as the same graph whose Redis nodes block threads of a pool, and a request to a thread.

#[path = "../../../crates/dag/examples/feed/blocking.rs"]
mod blocking;
#[path = "../../../crates/dag/examples/feed/data.rs"]
mod data;
#[path = "../../../crates/dag/examples/feed/load.rs"]
mod load;
#[path = "../../../crates/dag/examples/feed/plan.rs"]
mod plan;

use std::error::Error;
use std::sync::Arc;

use dag::redis::{Client, Config};
use dag::{Pool, PoolConfig, Scheduler};
use evloop::EventLoop;

use crate::params::Params;
use crate::report::{Outcome, Report, cpu_time};

const THREADS: usize = 8;

type Request = dyn Fn(i64) -> Result<Vec<plan::Item>, Box<dyn Error>> + Sync;

pub(crate) fn run(arm: &str, params: &mut Params) -> Outcome {
    let concurrency = params.take("concurrency", 64_usize)?;
    let requests = params.take("requests", 2_000_u32)?;
    params.finish()?;
    measure(arm, concurrency, requests).map_err(|error| error.to_string())
}

fn measure(arm: &str, concurrency: usize, requests: u32) -> Result<Report, Box<dyn Error>> {
    let server = data::Server::start(&std::env::temp_dir())?;
    data::load(&server)?;
    let events = EventLoop::new();
    events.start(evloop::Config::named("feed"))?;
    let request: Box<Request> = match arm {
        "dag" => {
            let scheduler = Scheduler::new(Pool::new(PoolConfig::default())?, events);
            let client = Client::new(scheduler.events(), Config::new(server.address()))?;
            let plan = Arc::new(plan::graph(&plan::OnLoop(client)).compile()?);
            Box::new(move |viewer| plan::request(&scheduler, &plan, viewer))
        }
        "pool" => {
            let scheduler = Scheduler::new(Pool::new(PoolConfig::threads(THREADS))?, events);
            let plan = Arc::new(plan::graph(&blocking::OnPool(server.socket().clone())).compile()?);
            Box::new(move |viewer| plan::request(&scheduler, &plan, viewer))
        }
        "threads" => {
            let threads = blocking::Threads::start(&server, THREADS)?;
            Box::new(move |viewer| threads.request(viewer))
        }
        other => return Err(format!("no such arm: {other}").into()),
    };
    load::load(concurrency, requests / 10 + 1, &request, |_| ())?;
    let cpu = cpu_time();
    let load = load::load(concurrency, requests, &request, |_| ())?;
    let cpu = cpu_time() - cpu;
    Ok(Report {
        topic: "feed",
        row: format!("{concurrency} at a time"),
        arm: arm.to_owned(),
        value: load.rate,
        unit: "requests/s",
        cpu_seconds: cpu.as_secs_f64(),
        also: vec![
            ("p50", load.millis(50)),
            ("p99", load.millis(99)),
            ("late", load.late() as f64),
            ("cpu_us", cpu.as_secs_f64() * 1e6 / f64::from(requests)),
        ],
    })
}
