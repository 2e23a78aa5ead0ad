//! What a failure, a panic, a cancel and a stopped loop mean for a run, and for the runs beside it.
#![allow(clippy::unwrap_used)]

mod common;

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use common::{Failure, Gate, LONG, eventually, plan, scheduler};
use dag::{Error, Graph, Inputs, Mode, Name, NodeError, Pool, PoolConfig, RunError, RunOptions, Scheduler};
use evloop::EventLoop;

/// Counts itself down when it is dropped.
struct Alive(Arc<AtomicUsize>);

impl Alive {
    fn new(count: &Arc<AtomicUsize>) -> Alive {
        count.fetch_add(1, Ordering::SeqCst);
        Alive(count.clone())
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

fn failed_node(error: &RunError) -> Name {
    match error {
        RunError::Node { node, .. } => node.clone(),
        other => other.to_string().into(),
    }
}

#[test]
fn a_panic_in_a_node_is_its_error_and_the_pool_and_the_loop_live() {
    let mut graph = Graph::new();
    graph.cpu("cpu", |_: Inputs<'_, i64>| -> Failure { panic!("in a function") });
    graph.task("task", |_| async { if true { panic!("in a coroutine") } else { Failure::Ok(0) } });
    graph.task("maker", |_| {
        if true {
            panic!("before the coroutine")
        };
        async { Failure::Ok(0) }
    });
    let scheduler = scheduler(1);
    let mut runner = scheduler.runner(&plan(graph));
    for _ in 0..3 {
        let outputs = runner.run(RunOptions::mode(Mode::Collect), vec![]).unwrap();
        let said = |name| outputs.get(name).unwrap().unwrap_err().to_string();
        assert!(said("cpu").contains("in a function"));
        assert!(said("task").contains("in a coroutine"));
        assert!(said("maker").contains("before the coroutine"));
    }
    let error = runner.run(RunOptions::default(), vec![]).unwrap_err();
    assert!(matches!(error, RunError::Node { error: NodeError::Panicked(_), .. }), "{error}");
}

#[test]
fn fail_fast_does_not_wait_for_what_cannot_be_stopped_whose_data_lives_on() {
    let gate = Gate::default();
    let data = Arc::new(7);
    let held = Arc::downgrade(&data);
    let seen = Arc::new(AtomicUsize::new(0));
    let mut graph = Graph::<Arc<i64>>::new();
    graph.cpu("data", move |_| Ok::<_, String>(data.clone()));
    let (at_gate, sees) = (gate.clone(), seen.clone());
    let stuck = move |inputs: Inputs<'_, Arc<i64>>| {
        at_gate.pass();
        sees.fetch_add(**inputs.get(0).unwrap() as usize, Ordering::SeqCst);
        Ok::<_, String>(inputs.get(0).unwrap().clone())
    };
    graph.cpu("stuck", stuck).inputs(["data"]);
    let waits = gate.clone();
    graph.cpu("fails", move |_| {
        waits.await_arrivals(1);
        Err::<Arc<i64>, _>("on purpose")
    });
    let scheduler = scheduler(2);
    let plan = plan(graph);
    let mut runner = scheduler.runner(&plan);
    let error = runner.run(RunOptions::default(), vec![]).unwrap_err();
    assert_eq!(failed_node(&error), "fails".into());
    // It is still at it, with its data, though nobody holds the run any more.
    drop((runner, plan));
    assert_eq!(seen.load(Ordering::SeqCst), 0);
    assert!(held.upgrade().is_some());
    gate.open();
    eventually("it ends with its data", || seen.load(Ordering::SeqCst) == 7);
    eventually("its data goes with it", || held.upgrade().is_none());
}

#[test]
fn drain_waits_for_what_has_begun_and_begins_nothing() {
    let gate = Gate::default();
    let (finished, begun) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let mut graph = Graph::new();
    let (at_gate, counts) = (gate.clone(), finished.clone());
    graph.cpu("begun", move |inputs: Inputs<'_, i64>| -> Failure {
        at_gate.pass();
        eventually("it learns of the failure", || inputs.cancelled());
        counts.fetch_add(1, Ordering::SeqCst);
        Ok(1)
    });
    let waits = gate.clone();
    graph.cpu("fails", move |_| -> Failure {
        waits.await_arrivals(1);
        Err("on purpose".into())
    });
    let counts = begun.clone();
    let after = move |_: Inputs<'_, i64>| -> Failure {
        counts.fetch_add(1, Ordering::SeqCst);
        Ok(0)
    };
    graph.cpu("after", after).inputs(["begun"]);
    gate.open();
    let scheduler = scheduler(2);
    let mut runner = scheduler.runner(&plan(graph));
    let error = runner.run(RunOptions::mode(Mode::Drain), vec![]).unwrap_err();
    assert_eq!(failed_node(&error), "fails".into());
    assert_eq!(finished.load(Ordering::SeqCst), 1);
    assert_eq!(begun.load(Ordering::SeqCst), 0);
}

#[test]
fn cancel_drops_coroutines_and_keeps_queued_jobs_from_starting() {
    let (alive, started) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let gate = Gate::default();
    let mut graph = Graph::new();
    let counts = alive.clone();
    graph.task("waits", move |_| {
        let alive = Alive::new(&counts);
        async move {
            let _alive = alive;
            pending::<Failure>().await
        }
    });
    let at_gate = gate.clone();
    graph.cpu("holds the only thread", move |_: Inputs<'_, i64>| -> Failure {
        at_gate.pass();
        Ok(0)
    });
    for queued in ["plain", "timed"] {
        let counts = started.clone();
        let node = graph.cpu(queued, move |_| -> Failure {
            counts.fetch_add(1, Ordering::SeqCst);
            Ok(0)
        });
        let node = node.inputs(["holds the only thread"]);
        if queued == "timed" {
            node.timeout(LONG);
        }
    }
    let scheduler = scheduler(1);
    let mut runner = scheduler.runner(&plan(graph));
    let run = runner.start(RunOptions::default(), vec![]).unwrap();
    gate.await_arrivals(1);
    eventually("the coroutine runs", || alive.load(Ordering::SeqCst) == 1);
    assert!(run.cancel());
    assert!(!run.cancel(), "once is enough");
    assert!(matches!(run.wait().unwrap_err(), RunError::Cancelled));
    eventually("the coroutine is dropped", || alive.load(Ordering::SeqCst) == 0);
    gate.open();
    // The next run on the only thread comes behind whatever the first has left there.
    let mut after = Graph::new();
    after.cpu("after", |_: Inputs<'_, i64>| Failure::Ok(0));
    scheduler.runner(&plan(after)).run(RunOptions::default(), vec![]).unwrap();
    assert_eq!(started.load(Ordering::SeqCst), 0);
    eventually("no timer is left", || scheduler.events().stats().timers == 0);
}

#[test]
fn a_run_cancelled_before_a_thread_took_it_leaves_the_queue_at_once() {
    let gate = Gate::default();
    let scheduler = scheduler(1);
    let hold = hold(&scheduler, &gate);
    let mut graph = Graph::new();
    graph.cpu("a", |_: Inputs<'_, i64>| Failure::Ok(0));
    graph.cpu("b", |_| Failure::Ok(0)).inputs(["a"]);
    let mut runner = scheduler.runner(&plan(graph));
    for _ in 0..10_000 {
        drop(runner.start(RunOptions::default(), vec![]).unwrap());
        assert_eq!(scheduler.pool().queued(), 0);
    }
    gate.open();
    drop(hold.join());
}

/// Holds the only thread of a pool at a gate.
fn hold(scheduler: &Scheduler, gate: &Gate) -> std::thread::JoinHandle<()> {
    let mut graph = Graph::new();
    let at_gate = gate.clone();
    graph.cpu("hold", move |_: Inputs<'_, i64>| -> Failure {
        at_gate.pass();
        Ok(0)
    });
    let run = scheduler.start(&plan(graph), RunOptions::default(), vec![]).unwrap();
    gate.await_arrivals(1);
    std::thread::spawn(move || drop(run.wait()))
}

#[test]
fn a_full_pool_refuses_new_runs() {
    let events = EventLoop::new();
    let mut config = PoolConfig::threads(1);
    config.capacity = 3;
    let scheduler = Scheduler::new(Pool::new(config).unwrap(), events);
    let gate = Gate::default();
    let hold = hold(&scheduler, &gate);
    let mut graph = Graph::new();
    graph.cpu("a", |_: Inputs<'_, i64>| Failure::Ok(0));
    let plan = plan(graph);
    let runs: Vec<_> =
        (0..3).map(|_| scheduler.start(&plan, RunOptions::default(), vec![]).unwrap()).collect();
    let refused = scheduler.start(&plan, RunOptions::default(), vec![]).unwrap_err();
    assert_eq!(refused, Error::Overloaded(3));
    gate.open();
    for run in runs {
        run.wait().unwrap();
    }
    hold.join().unwrap();
}

#[test]
fn a_loop_that_stops_fails_the_coroutines_and_so_the_run() {
    let mut graph = Graph::new();
    graph.task("waits", |_| pending::<Failure>());
    let scheduler = scheduler(1);
    let plan = plan(graph);
    let run = scheduler.start(&plan, RunOptions::default(), vec![]).unwrap();
    let _ = scheduler.events().stop();
    let error = run.wait().unwrap_err();
    assert!(matches!(&error, RunError::Node { error: NodeError::Loop(_), .. }), "{error}");
    assert_eq!(scheduler.start(&plan, RunOptions::default(), vec![]).unwrap_err(), Error::NoLoop);
}

#[test]
fn what_a_run_is_given_is_checked_by_name() {
    let mut graph = Graph::new();
    graph.input("x");
    graph.cpu("y", |inputs: Inputs<'_, i64>| Failure::Ok(inputs.get(0).unwrap() * 2)).inputs(["x"]);
    let (scheduler, plan) = (scheduler(1), plan(graph));
    let refused = |given| scheduler.start(&plan, RunOptions::default(), given).unwrap_err();
    assert_eq!(refused(vec![]), Error::InputNotGiven("x".into()));
    assert_eq!(refused(vec![("y".into(), 1)]), Error::NotAnInput("y".into()));
    assert_eq!(refused(vec![("z".into(), 1)]), Error::Unknown("z".into()));
    let mut runner = scheduler.runner(&plan);
    for value in 0..10 {
        let outputs = runner.run(RunOptions::default(), vec![("x".into(), value)]).unwrap();
        assert_eq!(outputs.get("y").unwrap().unwrap(), &(2 * value));
        assert!(outputs.get("x").is_none(), "not an output");
    }
}

#[test]
fn cancelling_at_any_moment_ends_every_run_exactly_once() {
    let mut graph = Graph::new();
    for node in 0..50u32 {
        let inputs = (0..node).filter(|input| (node - input) % 7 == 1);
        match node % 3 {
            0 => graph.cpu(node, |_| Failure::Ok(1)),
            1 => graph.task(node, |_| async { Failure::Ok(1) }),
            _ => graph.cpu(node, |_| Failure::Ok(1)).timeout(LONG),
        }
        .inputs(inputs);
    }
    let (scheduler, plan) = (scheduler(2), plan(graph));
    let mut runner = scheduler.runner(&plan);
    let (mut cancelled, mut finished) = (0, 0);
    for round in 0..500u32 {
        let run = runner.start(RunOptions::default(), vec![]).unwrap();
        for _ in 0..round * 20 {
            std::hint::spin_loop();
        }
        let won = run.cancel();
        match run.wait() {
            Ok(_) => finished += 1,
            Err(error) => {
                assert!(matches!(error, RunError::Cancelled), "{error}");
                assert!(won);
                cancelled += 1;
            }
        }
    }
    assert_eq!(cancelled + finished, 500);
    eventually("no coroutine is left", || scheduler.events().stats().tasks == 0);
    eventually("no timer is left", || scheduler.events().stats().timers == 0);
    assert_eq!(scheduler.pool().queued(), 0);
}
