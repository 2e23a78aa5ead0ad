//! Nodes that do nothing: the time to build a graph and make it ready, and to run it again, per node. The first run is
//! not counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use dag::{Graph, Inputs, Pool, PoolConfig, RunOptions, Scheduler};
use evloop::EventLoop;

use crate::counted;
use crate::params::Params;
use crate::report::{Outcome, Report, cpu_time};
use crate::shape::Shape;

/// What is measured: how long building took, and each run after the first.
struct Times {
    build: Duration,
    runs: Vec<Duration>,
}

pub(crate) fn run(arm: &str, params: &mut Params) -> Outcome {
    let name: String = params.take("shape", "chain".to_owned())?;
    let nodes = params.take("nodes", 1_000_000_u32)?;
    let runs = params.take("runs", 10_usize)?;
    let threads = params.take("threads", 2_usize)?;
    params.finish()?;
    let shape = Shape::named(&name)?;
    let cpu = cpu_time();
    let mut times = match arm {
        "dag" => with_dag(shape, nodes, runs, threads)?,
        "rayon" => with_rayon(shape, nodes, runs, threads)?,
        other => return Err(format!("no such arm: {other}")),
    };
    let cpu = cpu_time() - cpu;
    let expected = u64::from(nodes) * (runs as u64 + 1);
    if counted::total() != expected {
        return Err(format!("{} nodes ran instead of {expected}", counted::total()));
    }
    times.runs.sort();
    let per_node = |time: Duration| time.as_secs_f64() * 1e9 / f64::from(nodes);
    let median = times.runs.get(times.runs.len() / 2).copied().unwrap_or_default();
    Ok(Report {
        topic: "graph",
        row: name,
        arm: arm.to_owned(),
        value: per_node(median),
        unit: "ns",
        cpu_seconds: cpu.as_secs_f64(),
        also: vec![("build", per_node(times.build))],
    })
}

fn timed<T>(work: impl FnOnce() -> T) -> (Duration, T) {
    let start = Instant::now();
    let result = work();
    (start.elapsed(), result)
}

fn with_dag(shape: Shape, nodes: u32, runs: usize, threads: usize) -> Result<Times, String> {
    let pool = Pool::new(PoolConfig::threads(threads)).map_err(|error| error.to_string())?;
    let scheduler = Scheduler::new(pool, EventLoop::new());
    let (build, mut runner) = timed(|| {
        let mut graph = Graph::with_capacity(nodes as usize, nodes as usize * 3);
        let mut inputs = Vec::new();
        for node in 0..nodes {
            shape.inputs(node, nodes, |input| inputs.push(input));
            graph.cpu(node, work).inputs(inputs.drain(..));
        }
        scheduler.runner(&Arc::new(graph.compile().unwrap()))
    });
    let mut run = || {
        runner.run(RunOptions::default(), vec![]).unwrap();
    };
    run();
    let runs = (0..runs).map(|_| timed(&mut run).0).collect();
    Ok(Times { build, runs })
}

fn work(_: Inputs<'_, ()>) -> Result<(), String> {
    counted::node();
    Ok(())
}

/// rayon has no graphs: this is what one would write with its scope, a job for every node but the one gone on with.
struct Plain {
    left: Vec<(AtomicU32, u32)>,
    begins: Vec<u32>,
    successors: Vec<u32>,
    first: Vec<u32>,
}

fn with_rayon(shape: Shape, nodes: u32, runs: usize, threads: usize) -> Result<Times, String> {
    let pool =
        rayon::ThreadPoolBuilder::new().num_threads(threads).build().map_err(|error| error.to_string())?;
    let (build, plain) = timed(|| Plain::new(shape, nodes));
    let run = || pool.scope(|scope| plain.first.iter().for_each(|node| plain.spawn(*node, scope)));
    run();
    let runs = (0..runs).map(|_| timed(run).0).collect();
    Ok(Times { build, runs })
}

impl Plain {
    fn new(shape: Shape, nodes: u32) -> Plain {
        let mut begins = vec![0u32; nodes as usize + 2];
        let mut left = Vec::with_capacity(nodes as usize);
        let mut first = Vec::new();
        for node in 0..nodes {
            let mut inputs = 0;
            shape.inputs(node, nodes, |input| {
                begins[input as usize + 2] += 1;
                inputs += 1;
            });
            left.push((AtomicU32::new(inputs), inputs));
            if inputs == 0 {
                first.push(node);
            }
        }
        for node in 2..begins.len() {
            begins[node] += begins[node - 1];
        }
        let mut successors = vec![0; begins[nodes as usize + 1] as usize];
        for node in 0..nodes {
            shape.inputs(node, nodes, |input| {
                let place = &mut begins[input as usize + 1];
                successors[*place as usize] = node;
                *place += 1;
            });
        }
        Plain { left, begins, successors, first }
    }

    fn spawn<'a>(&'a self, node: u32, scope: &rayon::Scope<'a>) {
        scope.spawn(move |scope| self.step(node, scope));
    }

    fn step<'a>(&'a self, mut node: u32, scope: &rayon::Scope<'a>) {
        loop {
            counted::node();
            let mut next = None;
            let range = self.begins[node as usize] as usize..self.begins[node as usize + 1] as usize;
            for successor in &self.successors[range] {
                let (left, all) = &self.left[*successor as usize];
                if left.fetch_sub(1, Ordering::AcqRel) == 1 {
                    left.store(*all, Ordering::Relaxed);
                    if let Some(other) = next.replace(*successor) {
                        self.spawn(other, scope);
                    }
                }
            }
            match next {
                Some(successor) => node = successor,
                None => return,
            }
        }
    }
}
