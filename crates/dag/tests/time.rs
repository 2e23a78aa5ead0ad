//! Timeouts, regions, deadlines and fallbacks: the earliest counts, and nothing is left of those that are late.
#![allow(clippy::unwrap_used)]

mod common;

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use common::{Failure, Gate, LONG, SHORT, eventually, plan, scheduler};
use dag::{Each, Graph, Inputs, Limit, Mode, NodeError, Recorder, RunError, RunOptions, What};

fn sum(inputs: Inputs<'_, i64>) -> Failure {
    Ok(inputs.iter().sum())
}

#[test]
fn a_late_coroutine_is_dropped_and_its_fallback_counts() {
    let mut graph = Graph::new();
    graph.task("late", |_| pending::<Failure>()).timeout(SHORT).fallback(5);
    graph.task("in time", |_| async { Failure::Ok(2) }).timeout(LONG).fallback(100);
    graph.cpu("sum", sum).inputs(["late", "in time"]);
    let scheduler = scheduler(1);
    let mut runner = scheduler.runner(&plan(graph));
    for _ in 0..20 {
        let outputs = runner.run(RunOptions::default(), vec![]).unwrap();
        assert_eq!(outputs.get("sum").unwrap().unwrap(), &7);
    }
    eventually("no coroutine is left", || scheduler.events().stats().tasks == 0);
    eventually("no timer is left", || scheduler.events().stats().timers == 0);
}

#[test]
fn a_late_node_without_a_fallback_fails_the_run_by_name() {
    let mut graph = Graph::new();
    graph.task("late", |_| pending::<Failure>()).timeout(SHORT);
    let scheduler = scheduler(1);
    let error = scheduler.runner(&plan(graph)).run(RunOptions::default(), vec![]).unwrap_err();
    let timed_out =
        matches!(&error, RunError::Node { node, error: NodeError::TimedOut } if *node == "late".into());
    assert!(timed_out, "{error}");
}

#[test]
fn a_function_that_is_late_is_not_waited_for_and_its_late_value_is_dropped() {
    let gate = Gate::default();
    let mut graph = Graph::new();
    let at_gate = gate.clone();
    let late = move |_: Inputs<'_, i64>| -> Failure {
        at_gate.pass();
        Ok(1_000)
    };
    graph.cpu("late", late).timeout(Duration::from_millis(20)).fallback(3);
    graph.cpu("sum", sum).inputs(["late"]);
    let (scheduler, plan) = (scheduler(2), plan(graph));
    let mut runner = scheduler.runner(&plan);
    let recorder = Arc::new(Recorder::default());
    // On a busy machine it may be late before it has begun, which is not what is looked at here.
    while gate.arrivals() == 0 {
        recorder.clear();
        let outputs = runner.run(RunOptions::default().observer(recorder.clone()), vec![]).unwrap();
        assert_eq!(outputs.get("sum").unwrap().unwrap(), &3);
    }
    let what = |recorder: &Recorder| {
        let events = recorder.events();
        events.iter().filter(|event| event.node == 0).map(|event| event.what).collect::<Vec<_>>()
    };
    assert_eq!(what(&recorder), [What::Started, What::TimedOut]);
    gate.open();
    // The state of the run before may still be in use; this one is not disturbed by it, nor by the late value.
    let outputs = runner.run(RunOptions::default(), vec![]).unwrap();
    let value = *outputs.get("sum").unwrap().unwrap();
    assert!(value == 3 || value == 1_000, "{value}");
    assert_eq!(what(&recorder), [What::Started, What::TimedOut]);
}

#[test]
fn ten_thousand_timeouts_do_not_grow_any_queue() {
    let gate = Gate::default();
    let limit = Limit::new(1);
    let scheduler = scheduler(1);
    let mut holding = Graph::new();
    let at_gate = gate.clone();
    let hold = move |_: Inputs<'_, i64>| -> Failure {
        at_gate.pass();
        Ok(0)
    };
    holding.cpu("hold", hold).limit(&limit);
    let held = scheduler.start(&plan(holding), RunOptions::default(), vec![]).unwrap();
    gate.await_arrivals(1);
    let started = Arc::new(AtomicUsize::new(0));
    let mut graph = Graph::new();
    let (one, two) = (started.clone(), started.clone());
    let never = |count: Arc<AtomicUsize>| {
        move |_: Inputs<'_, i64>| -> Failure {
            count.fetch_add(1, Ordering::SeqCst);
            Ok(0)
        }
    };
    graph.cpu("waits for the thread", never(one)).timeout(SHORT).fallback(1);
    graph.cpu("waits for a permit", never(two)).timeout(SHORT).limit(&limit).fallback(1);
    graph.task("waits on the loop", |_| pending::<Failure>()).timeout(SHORT).fallback(1);
    let plan = plan(graph);
    for _ in 0..100 {
        let start = |_| scheduler.start(&plan, RunOptions::default(), vec![]).unwrap();
        let runs: Vec<_> = (0..100).map(start).collect();
        for run in runs {
            let outputs = run.wait().unwrap();
            assert!(outputs.iter().all(|(_, value)| *value.unwrap() == 1));
        }
        assert_eq!((scheduler.pool().queued(), limit.waiting()), (0, 0));
    }
    eventually("no coroutine is left", || scheduler.events().stats().tasks == 0);
    eventually("no timer is left", || scheduler.events().stats().timers == 0);
    assert_eq!(started.load(Ordering::SeqCst), 0);
    gate.open();
    held.wait().unwrap();
}

#[test]
fn a_region_ends_all_of_its_nodes_and_the_earliest_of_all_times_counts() {
    let mut graph = Graph::new();
    let region = graph.region(SHORT);
    graph.task("first", |_| pending::<Failure>()).region(region);
    graph.task("second", |_| async { Failure::Ok(1) }).inputs(["first"]).region(region);
    graph.task("own time is longer", |_| pending::<Failure>()).region(region).timeout(LONG).fallback(10);
    graph.cpu("exit", sum).inputs(["second"]).region(region).fallback(20);
    graph.cpu("sum", sum).inputs(["exit", "own time is longer"]);
    let scheduler = scheduler(1);
    let mut runner = scheduler.runner(&plan(graph));
    for _ in 0..20 {
        // Two nodes of the region fail, but what they lead to has a fallback: the run goes on.
        let outputs = runner.run(RunOptions::default(), vec![]).unwrap();
        assert_eq!(outputs.get("sum").unwrap().unwrap(), &30);
    }
    eventually("no timer is left", || scheduler.events().stats().timers == 0);
}

#[test]
fn the_deadline_of_the_run_comes_before_longer_timeouts() {
    let mut graph = Graph::new();
    graph.task("late", |_| pending::<Failure>()).timeout(LONG).fallback(1);
    let scheduler = scheduler(1);
    let mut runner = scheduler.runner(&plan(graph));
    for mode in [Mode::FailFast, Mode::Drain, Mode::Collect] {
        let error = runner.run(RunOptions::mode(mode).deadline(SHORT), vec![]).unwrap_err();
        assert!(matches!(error, RunError::Deadline), "{error}");
    }
    eventually("no coroutine is left", || scheduler.events().stats().tasks == 0);
    eventually("no timer is left", || scheduler.events().stats().timers == 0);
    let mut quick = Graph::new();
    quick.cpu("quick", |_| Failure::Ok(1));
    let mut runner = scheduler.runner(&plan(quick));
    for _ in 0..100 {
        runner.run(RunOptions::default().deadline(LONG), vec![]).unwrap();
    }
    eventually("deadlines that were kept leave no timer", || scheduler.events().stats().timers == 0);
}

#[test]
fn a_fallback_stands_in_for_an_error_and_for_an_input_without_a_value() {
    let mut graph = Graph::new();
    graph.cpu("fails", |_| -> Failure { Err("on purpose".into()) });
    graph.cpu("between", sum).inputs(["fails"]);
    graph.cpu("stands in", sum).inputs(["between"]).fallback(4);
    graph.cpu("own", |_| -> Failure { Err("on purpose".into()) }).fallback(5);
    graph.cpu("sum", sum).inputs(["stands in", "own"]);
    let scheduler = scheduler(1);
    let mut runner = scheduler.runner(&plan(graph));
    for mode in [Mode::FailFast, Mode::Drain, Mode::Collect] {
        let outputs = runner.run(RunOptions::mode(mode), vec![]).unwrap();
        assert_eq!(outputs.get("sum").unwrap().unwrap(), &9);
    }
}

#[test]
fn a_map_that_is_late_drops_its_items() {
    let mut graph = Graph::new();
    let each = Each::task(|_: i64| pending::<Failure>());
    graph
        .map("map", 10, |_| Ok::<_, String>((0..100).collect()), each, |items| Ok(items.len() as i64))
        .timeout(SHORT)
        .fallback(-1);
    let scheduler = scheduler(1);
    let mut runner = scheduler.runner(&plan(graph));
    for _ in 0..10 {
        let outputs = runner.run(RunOptions::default(), vec![]).unwrap();
        assert_eq!(outputs.get("map").unwrap().unwrap(), &-1);
    }
    eventually("no coroutine is left", || scheduler.events().stats().tasks == 0);
}
