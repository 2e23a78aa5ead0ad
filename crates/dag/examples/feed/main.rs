//! A feed, made of data in a real Redis: viewer → follow + recommend → media → score → filter → concat → sort → take.
//! Runs it at growing concurrency, as a graph with all commands of all requests in flight on one loop, and on
//! eight threads that block; then draws a run. `make run-dag`; arguments: a directory for the pictures, and `quick`.

mod blocking;
mod data;
mod load;
mod plan;

use std::error::Error;
use std::io::{IsTerminal, Write};
use std::path::Path;
use std::sync::Arc;

use dag::redis::{Client, Config};
use dag::{Pool, PoolConfig, Recorder, RunOptions, Scheduler, picture};
use evloop::EventLoop;

use load::Load;

type Request<'a> = dyn Fn(i64) -> Result<Vec<plan::Item>, Box<dyn Error>> + Sync + 'a;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let directory = arguments.next().unwrap_or_else(|| "build/dag".to_owned());
    let requests = if arguments.next().as_deref() == Some("quick") { 64 } else { 1_200 };
    std::fs::create_dir_all(&directory)?;
    let server = data::Server::start(Path::new(&directory))?;
    let events = EventLoop::new();
    events.start(evloop::Config::named("feed"))?;
    let scheduler = Scheduler::new(Pool::new(PoolConfig::default())?, events);
    let client = Client::new(scheduler.events(), Config::new(server.address()))?;
    let keys = data::load(&server)?;
    println!("loaded {keys} keys; a request takes about {} commands", data::COMMANDS);
    let plan = Arc::new(plan::graph(&plan::OnLoop(client)).compile()?);
    let blocking = Arc::new(plan::graph(&blocking::OnPool(server.socket().clone())).compile()?);
    let threads = Scheduler::new(Pool::new(PoolConfig::threads(8))?, scheduler.events().clone());
    let (graph, same, each) =
        ("the graph, one loop", "the same plan on 8 threads that block", "8 threads, a request each");
    println!(
        "\n{:>11}   {:37} {:>9} {:>9} {:>9} {:>6}",
        "concurrency", "", "req/s", "p50 ms", "p99 ms", "late"
    );
    for concurrency in [1, 8, 64, 128] {
        let run = |what: &str, request: &Request<'_>| -> Result<(), Box<dyn Error>> {
            let told = |done| bar(what, concurrency, done, requests);
            let load = load::load(concurrency, requests, request, told)?;
            println!("{concurrency:>11}   {what:37} {}", line(&load));
            Ok(())
        };
        run(graph, &|viewer| plan::request(&scheduler, &plan, viewer))?;
        run(same, &|viewer| plan::request(&threads, &blocking, viewer))?;
        let pool = blocking::Threads::start(&server, 8)?;
        run(each, &|viewer| pool.request(viewer))?;
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
    let given = vec![("viewer".into(), plan::Data::One(plan::one(1)))];
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

fn line(load: &Load) -> String {
    format!("{:>9.0} {:>9.2} {:>9.2} {:>6}", load.rate, load.millis(50), load.millis(99), load.late())
}

/// A progress bar, on a terminal.
fn bar(what: &str, concurrency: usize, done: usize, all: u32) {
    if std::io::stderr().is_terminal() {
        let all = all as usize;
        let filled = done * 30 / all;
        let end = if done == all { "\r\x1b[K" } else { "" };
        eprint!("\r{what:>37} × {concurrency:<4} [{:<30}] {done}/{all}{end}", "█".repeat(filled));
        let _ = std::io::stderr().flush();
    }
}
