//! What a graph is refused for, and what it is told.
// One thread: for ThreadSanitizer there is nothing to see.
#![cfg(not(tsan))]
#![allow(clippy::unwrap_used)]

mod common;

use common::{Failure, LONG};
use dag::{Each, Error, Graph, Inputs, Name};

fn none(_: Inputs<'_, i64>) -> Failure {
    Ok(0)
}

#[test]
fn two_nodes_of_one_name_are_refused_by_name() {
    let mut graph = Graph::new();
    graph.cpu("a", none);
    graph.cpu("b", none);
    graph.cpu("a", none);
    let error = graph.compile().unwrap_err();
    assert_eq!(error, Error::Duplicate("a".into()));
    assert!(error.to_string().contains("called a"), "{error}");
}

#[test]
fn an_input_that_nobody_produces_is_refused_by_name() {
    let mut graph = Graph::new();
    graph.cpu("a", none).inputs(["b"]);
    let error = graph.compile().unwrap_err();
    assert_eq!(error, Error::Missing { node: "a".into(), input: "b".into() });
    assert!(error.to_string().contains("a needs b"), "{error}");
    let mut numbered = Graph::new();
    numbered.cpu(0u32, none);
    numbered.cpu(1u32, none).inputs([2u32]);
    let missing = Error::Missing { node: Name::Number(1), input: Name::Number(2) };
    assert_eq!(numbered.compile().unwrap_err(), missing);
}

#[test]
fn a_circle_is_refused_naming_its_nodes_and_no_others() {
    let mut graph = Graph::new();
    graph.cpu("start", none);
    graph.cpu("a", none).inputs(["start", "c"]);
    graph.cpu("b", none).inputs(["a"]);
    graph.cpu("c", none).inputs(["b"]);
    graph.cpu("after", none).inputs(["c"]);
    let error = graph.compile().unwrap_err();
    let Error::Cycle(mut names) = error.clone() else { panic!("{error}") };
    assert!(error.to_string().contains("a → b → c → a") || error.to_string().contains("→"), "{error}");
    names.sort();
    assert_eq!(names, ["a".into(), "b".into(), "c".into()]);
    let mut own = Graph::new();
    own.cpu("self", none).inputs(["self"]);
    assert_eq!(own.compile().unwrap_err(), Error::Cycle(vec!["self".into()]));
}

#[test]
fn a_circle_of_a_million_nodes_is_found_without_recursion() {
    const NODES: u32 = 1_000_000;
    let mut graph = Graph::new();
    for node in 0..NODES {
        graph.cpu(node, none).inputs([(node + 1) % NODES]);
    }
    let Error::Cycle(names) = graph.compile().unwrap_err() else { panic!() };
    assert_eq!(names.len(), NODES as usize);
}

#[test]
fn a_map_without_room_and_a_foreign_region_are_refused_by_name() {
    let mut graph = Graph::<i64>::new();
    graph.map("m", 0, |_| Ok::<_, String>(vec![]), Each::cpu(|item: &i64| Ok::<_, String>(*item)), |_| Ok(0));
    assert_eq!(graph.compile().unwrap_err(), Error::NoRoom("m".into()));
    let region = Graph::<i64>::new().region(LONG);
    let mut graph = Graph::new();
    graph.cpu("a", none).region(region);
    assert_eq!(graph.compile().unwrap_err(), Error::ForeignRegion("a".into()));
}

#[test]
fn outputs_are_the_nodes_that_no_other_takes() {
    let mut graph = Graph::new();
    graph.cpu("a", none);
    graph.cpu("b", none).inputs(["a"]);
    graph.cpu("c", none).inputs(["a"]);
    let plan = graph.compile().unwrap();
    assert_eq!(plan.outputs().collect::<Vec<_>>(), [&"b".into(), &"c".into()]);
    let part = plan.only(["a", "b", "a"]).unwrap();
    assert_eq!(part.outputs().collect::<Vec<_>>(), [&"a".into(), &"b".into()]);
    assert_eq!(part.len(), 2);
    assert_eq!(plan.only(["z"]).unwrap_err(), Error::Unknown("z".into()));
}
