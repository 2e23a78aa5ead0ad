//! A million nodes: nothing recurses, and a second run finds everything as the first one did.
// Under ThreadSanitizer it would take minutes.
#![cfg(not(tsan))]
#![allow(clippy::unwrap_used)]

mod common;

use common::{plan, scheduler};
use dag::{Graph, Inputs, Mode, RunError, RunOptions};

const NODES: u32 = 1_000_000;

fn next(inputs: Inputs<'_, u64>) -> Result<u64, String> {
    Ok(inputs.iter().sum::<u64>() + 1)
}

fn one(_: Inputs<'_, u64>) -> Result<u64, String> {
    Ok(1)
}

#[test]
fn a_chain_of_a_million_nodes_runs_and_runs_again() {
    let mut graph = Graph::new();
    graph.cpu(0u32, one);
    for node in 1..NODES {
        graph.cpu(node, next).inputs([node - 1]);
    }
    let scheduler = scheduler(2);
    let mut runner = scheduler.runner(&plan(graph));
    for _ in 0..2 {
        let outputs = runner.run(RunOptions::default(), vec![]).unwrap();
        assert_eq!(outputs.get(NODES - 1).unwrap().unwrap(), &u64::from(NODES));
    }
}

#[test]
fn a_fan_of_a_million_nodes_runs_and_runs_again() {
    let mut graph = Graph::new();
    graph.cpu(0u32, one);
    for node in 1..NODES {
        graph.cpu(node, next).inputs([0u32]);
    }
    graph.cpu(NODES, next).inputs(1..NODES);
    let scheduler = scheduler(2);
    let mut runner = scheduler.runner(&plan(graph));
    for _ in 0..2 {
        let outputs = runner.run(RunOptions::default(), vec![]).unwrap();
        assert_eq!(outputs.get(NODES).unwrap().unwrap(), &(2 * u64::from(NODES) - 1));
    }
}

#[test]
fn a_failure_is_passed_down_a_chain_of_a_million_nodes() {
    let mut graph = Graph::new();
    graph.cpu(0u32, |_| Err::<u64, _>("on purpose"));
    for node in 1..NODES {
        graph.cpu(node, next).inputs([node - 1]);
    }
    let scheduler = scheduler(2);
    let mut runner = scheduler.runner(&plan(graph));
    for mode in [Mode::Drain, Mode::FailFast, Mode::Drain] {
        let error = runner.run(RunOptions::mode(mode), vec![]).unwrap_err();
        assert!(matches!(error, RunError::Node { .. }), "{error}");
    }
    let outputs = runner.run(RunOptions::mode(Mode::Collect), vec![]).unwrap();
    assert!(outputs.get(NODES - 1).unwrap().is_err());
}
