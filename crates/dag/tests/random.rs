//! Random graphs against a sequential run: the same results, every node exactly once, inputs before what takes them.
#![allow(clippy::indexing_slicing, clippy::unwrap_used)]

mod common;

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex, mpsc};

use common::{Failure, LONG, eventually, plan, scheduler};
use dag::{Each, GiveUp, Graph, Inputs, Limit, Mode, Recorder, Reply, RunError, RunOptions, Scheduler, What};
use proptest::prelude::*;

static SCHEDULER: LazyLock<Scheduler> = LazyLock::new(|| scheduler(3));

type Errand = Box<dyn FnOnce() + Send>;

/// A thread that does what it is sent.
static ELSEWHERE: LazyLock<Mutex<mpsc::Sender<Errand>>> = LazyLock::new(|| {
    let (tx, rx) = mpsc::channel::<Errand>();
    std::thread::spawn(move || rx.into_iter().for_each(|answer| answer()));
    Mutex::new(tx)
});

/// What a node is, where its inputs are, and in which place of the list it is written down.
#[derive(Clone, Debug)]
struct Shape {
    kind: u8,
    inputs: Vec<usize>,
    place: u64,
}

fn shapes() -> impl Strategy<Value = Vec<Shape>> {
    let node = |index: usize| {
        let inputs = prop::collection::vec(0..index.max(1), 0..5.min(index + 1));
        (0u8..9, inputs, any::<u64>()).prop_map(move |(kind, mut inputs, place)| {
            inputs.retain(|input| *input < index);
            Shape { kind, inputs, place }
        })
    };
    (1usize..60).prop_flat_map(move |count| (0..count).map(node).collect::<Vec<_>>())
}

/// What a node makes of its inputs: their order and number count.
fn combine<'a>(node: usize, inputs: impl Iterator<Item = &'a i64>) -> i64 {
    inputs.fold(node as i64 + 1, |sum, input| sum.wrapping_mul(31).wrapping_add(*input))
}

fn sequential(shapes: &[Shape]) -> Vec<i64> {
    let mut values = Vec::new();
    for (node, shape) in shapes.iter().enumerate() {
        values.push(combine(node, shape.inputs.iter().map(|input| &values[*input])));
    }
    values
}

/// What the runs of a graph leave behind.
struct Traces {
    runs: Vec<AtomicUsize>,
    order: Vec<AtomicU64>,
    clock: AtomicU64,
}

fn graph(shapes: &[Shape], limit: &Limit, traces: &Arc<Traces>) -> Graph<i64> {
    let mut graph = Graph::new();
    let mut listed: Vec<usize> = (0..shapes.len()).collect();
    listed.sort_by_key(|node| shapes[*node].place);
    for node in listed {
        let shape = &shapes[node];
        let traces = traces.clone();
        let mark = move || {
            traces.runs[node].fetch_add(1, Ordering::SeqCst);
            traces.order[node].store(traces.clock.fetch_add(1, Ordering::SeqCst), Ordering::SeqCst);
        };
        let name = format!("n{node}");
        let added = if shape.kind == 4 {
            graph.task(name, move |values: Vec<i64>| {
                mark();
                async move { Ok::<i64, String>(combine(node, values.iter())) }
            })
        } else if shape.kind > 5 {
            // Answered during the call, or by another thread, before the call is over or after.
            let at_once = shape.kind == 6;
            let work = move |values: Vec<i64>, reply: Reply<i64>| {
                mark();
                let answer = move || reply.send(Ok(combine(node, values.iter())));
                if at_once {
                    answer();
                } else {
                    ELSEWHERE.lock().unwrap().send(Box::new(answer)).unwrap();
                }
                Ok::<GiveUp, String>(Box::new(|| ()))
            };
            let added = graph.hand(name, work);
            if shape.kind == 8 { added } else { added.limit(limit) }
        } else {
            let cpu = move |inputs: Inputs<'_, i64>| -> Failure {
                mark();
                Ok(combine(node, inputs.iter()))
            };
            match shape.kind {
                2 => graph.cpu(name, cpu).limit(limit),
                3 => graph.cpu(name, cpu).timeout(LONG),
                5 => graph.map(
                    name,
                    2,
                    move |inputs: Inputs<'_, i64>| Ok::<_, String>(vec![cpu(inputs)?]),
                    Each::task(|item: i64| async move { Ok::<_, String>(item) }),
                    |items: Vec<i64>| Ok(items[0]),
                ),
                _ => graph.cpu(name, cpu),
            }
        };
        added.inputs(shape.inputs.iter().map(|input| format!("n{input}")));
    }
    graph
}

fn traces(count: usize) -> Arc<Traces> {
    let zeros = || (0..count).map(|_| AtomicU64::new(0)).collect();
    let runs = (0..count).map(|_| AtomicUsize::new(0)).collect();
    Arc::new(Traces { runs, order: zeros(), clock: AtomicU64::new(1) })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_run_equals_a_sequential_run_and_every_node_runs_once_in_order(shapes in shapes()) {
        let limit = Limit::new(2);
        let traces = traces(shapes.len());
        let plan = plan(graph(&shapes, &limit, &traces));
        let expected = sequential(&shapes);
        let mut runner = SCHEDULER.runner(&plan);
        for round in 1..4 {
            let outputs = runner.run(RunOptions::default(), vec![]).unwrap();
            for (name, value) in outputs.iter() {
                let node: usize = name.to_string()[1..].parse().unwrap();
                prop_assert_eq!(*value.unwrap(), expected[node]);
            }
            for (node, shape) in shapes.iter().enumerate() {
                prop_assert_eq!(traces.runs[node].load(Ordering::SeqCst), round);
                let when = traces.order[node].load(Ordering::SeqCst);
                for input in &shape.inputs {
                    prop_assert!(traces.order[*input].load(Ordering::SeqCst) < when);
                }
            }
        }
        prop_assert!(limit.most() <= 2);
        // The result does not wait for the last permit to be given back.
        eventually("all permits are back", || (limit.in_flight(), limit.waiting()) == (0, 0));
    }

    #[test]
    fn asked_for_a_part_only_its_ancestors_run(shapes in shapes(), which in any::<prop::sample::Index>()) {
        let traces = traces(shapes.len());
        let plan = plan(graph(&shapes, &Limit::new(2), &traces));
        let asked = which.index(shapes.len());
        let part = Arc::new(plan.only([format!("n{asked}")]).unwrap());
        let mut needed = vec![false; shapes.len()];
        needed[asked] = true;
        for node in (0..shapes.len()).rev().collect::<Vec<_>>() {
            if needed[node] {
                shapes[node].inputs.iter().for_each(|input| needed[*input] = true);
            }
        }
        let run = SCHEDULER.start(&part, RunOptions::default(), vec![]).unwrap();
        let outputs = run.wait().unwrap();
        prop_assert_eq!(outputs.get(format!("n{asked}")).unwrap().unwrap(), &sequential(&shapes)[asked]);
        for (node, needed) in needed.into_iter().enumerate() {
            prop_assert_eq!(traces.runs[node].load(Ordering::SeqCst), usize::from(needed));
        }
    }

    #[test]
    fn a_failure_keeps_its_descendants_from_running_and_nobody_else(
        shapes in shapes(),
        which in any::<prop::sample::Index>(),
    ) {
        let failing = which.index(shapes.len());
        let mut graph = Graph::new();
        for (node, shape) in shapes.iter().enumerate() {
            let inputs = shape.inputs.iter().map(|input| *input as u32);
            let work = move |inputs: Inputs<'_, i64>| {
                if node == failing { Err("on purpose") } else { Ok(combine(node, inputs.iter())) }
            };
            graph.cpu(node as u32, work).inputs(inputs);
        }
        let plan = plan(graph);
        let mut hit = vec![false; shapes.len()];
        hit[failing] = true;
        for node in 0..shapes.len() {
            hit[node] |= shapes[node].inputs.iter().any(|input| hit[*input]);
        }
        let mut runner = SCHEDULER.runner(&plan);
        for mode in [Mode::Collect, Mode::FailFast, Mode::Drain, Mode::Collect] {
            let recorder = Arc::new(Recorder::default());
            let result = runner.run(RunOptions::mode(mode).observer(recorder.clone()), vec![]);
            if mode == Mode::Collect {
                let outputs = result.unwrap();
                for (name, value) in outputs.iter() {
                    let node: usize = name.to_string().parse().unwrap();
                    prop_assert_eq!(value.is_err(), hit[node]);
                }
                for event in recorder.events().iter().filter(|event| event.what == What::Started) {
                    prop_assert!(!hit[event.node as usize] || event.node as usize == failing);
                }
            } else {
                let named = matches!(result.unwrap_err(), RunError::Node { node, .. } if node == (failing as u32).into());
                prop_assert!(named);
            }
        }
    }
}
