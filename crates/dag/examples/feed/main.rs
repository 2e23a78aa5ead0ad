//! A feed, made of data in a real Redis: viewer → follow + recommend → media → score → filter → concat → sort → take.
//! Runs it at growing concurrency, as a graph with all commands of all requests in flight on one loop, and on a pool of
//! eight threads that block; then draws a run. `make run-dag`; arguments: a directory for the pictures, and `quick`.

mod blocking;
mod data;
mod plan;

use std::error::Error;
use std::io::{IsTerminal, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

use dag::redis::{Client, Config};
use dag::{Pool, PoolConfig, Recorder, RunOptions, Scheduler, picture};
use evloop::EventLoop;

/// The time a request has.
const DEADLINE: Duration = Duration::from_millis(200);

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let directory = arguments.next().unwrap_or_else(|| "build/dag".to_owned());
    let requests = if arguments.next().as_deref() == Some("quick") { 64 } else { 600 };
    std::fs::create_dir_all(&directory)?;
    let server = data::Server::start(Path::new(&directory))?;
    let events = EventLoop::new();
    events.start(evloop::Config::named("feed"))?;
    let scheduler = Scheduler::new(Pool::new(PoolConfig::default())?, events);
    let client = Client::new(scheduler.events(), Config::new(server.address()))?;
    let keys = data::load(&server)?;
    println!("loaded {keys} keys; a request takes about {} commands", data::COMMANDS);
    let plan = Arc::new(plan::graph(&client).compile()?);
    println!("\n{:>11} {:>22} {:>44}", "", "the graph, one loop", "eight threads that block");
    println!(
        "{:>11} {:>9} {:>9} {:>9} {:>6}   {:>9} {:>9} {:>9} {:>6}",
        "concurrency", "req/s", "p50 ms", "p99 ms", "late", "req/s", "p50 ms", "p99 ms", "late"
    );
    for concurrency in [1, 8, 64, 128] {
        let graph = load("graph", concurrency, requests, |viewer| {
            let given = vec![("viewer".into(), plan::ids(&[viewer]))];
            let outputs = scheduler.start(&plan, RunOptions::default(), given)?.wait()?;
            let feed = outputs.get("take").and_then(Result::ok).map(|feed| feed.len());
            Ok(feed.unwrap_or(0))
        })?;
        let pool = blocking::Pool::start(&server, 8)?;
        let threads = load("threads", concurrency, requests, |viewer| pool.request(viewer))?;
        println!("{concurrency:>11} {graph}   {threads}");
    }
    draw(&scheduler, &plan, Path::new(&directory))
}

/// Draws one run.
fn draw(
    scheduler: &Scheduler,
    plan: &Arc<dag::Plan<plan::Data>>,
    directory: &Path,
) -> Result<(), Box<dyn Error>> {
    let recorder = Arc::new(Recorder::default());
    let given = vec![("viewer".into(), plan::ids(&[1]))];
    scheduler.start(plan, RunOptions::default().observer(recorder.clone()), given)?.wait()?;
    let events = recorder.events();
    for (name, text) in [
        ("feed.svg", picture::timeline(plan, &events)),
        ("feed.trace.json", picture::trace(plan, &events)),
        ("feed.dot", picture::dot(plan)),
    ] {
        std::fs::write(directory.join(name), text)?;
    }
    println!(
        "\none run, drawn: {0}/feed.svg; for chrome://tracing: feed.trace.json; the plan: feed.dot",
        directory.display()
    );
    Ok(())
}

/// What came of a load.
struct Load {
    rate: f64,
    times: Vec<Duration>,
}

impl std::fmt::Display for Load {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let at =
            |percent: usize| self.times.get((self.times.len() * percent / 100).min(self.times.len() - 1));
        let millis = |percent| at(percent).copied().unwrap_or_default().as_secs_f64() * 1e3;
        let late = self.times.iter().filter(|time| **time > DEADLINE).count();
        write!(f, "{:>9.0} {:>9.2} {:>9.2} {late:>6}", self.rate, millis(50), millis(99))
    }
}

/// Makes so many requests, so many at a time, with a bar to look at.
fn load(
    what: &str,
    concurrency: usize,
    requests: u32,
    request: impl Fn(i64) -> Result<usize, Box<dyn Error>> + Sync,
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
                    let _ = tx.send(answer.map(|feed| (feed, began.elapsed())));
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
            bar(what, concurrency, times.len(), requests as usize);
        }
        times.sort();
        Ok(Load { rate: f64::from(requests) / began.elapsed().as_secs_f64(), times })
    })
}

/// A progress bar, on a terminal.
fn bar(what: &str, concurrency: usize, done: usize, all: usize) {
    if std::io::stderr().is_terminal() {
        let filled = done * 30 / all;
        let end = if done == all { "\r\x1b[K" } else { "" };
        eprint!("\r{what:>8} × {concurrency:<4} [{:<30}] {done}/{all}{end}", "█".repeat(filled));
        let _ = std::io::stderr().flush();
    }
}
