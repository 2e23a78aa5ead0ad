//! The pictures of a run: whole, escaped, and with the critical path that the times give.
#![allow(clippy::unwrap_used)]

mod common;

use std::sync::Arc;

use common::{Failure, plan, scheduler};
use dag::picture::{critical_path, dot, spans, timeline, trace};
use dag::{Event, Graph, Recorder, RunOptions, What};

const HOSTILE: &str = "a<b>&\"c\\d\n";

fn diamond() -> Graph<i64> {
    let mut graph = Graph::new();
    graph.cpu(HOSTILE, |_| Failure::Ok(1));
    graph.task("left", |_| async { Failure::Ok(1) }).inputs([HOSTILE]);
    graph.cpu("right", |_| Failure::Ok(1)).inputs([HOSTILE]);
    graph.cpu("join", |_| Failure::Ok(1)).inputs(["left", "right"]);
    graph
}

/// A run whose times are known: node, begin, end.
fn events(times: &[(u32, u64, u64)]) -> Vec<Event> {
    let event = |node, what, at| Event { node, what, at, thread: node % 2 };
    times
        .iter()
        .flat_map(|(node, begin, end)| {
            [event(*node, What::Started, *begin), event(*node, What::Finished, *end)]
        })
        .collect()
}

#[test]
fn the_critical_path_goes_by_way_of_the_input_that_came_last() {
    let plan = diamond().compile().unwrap();
    let slow_left = spans(&events(&[(0, 10, 20), (1, 21, 90), (2, 21, 30), (3, 91, 95)]));
    assert_eq!(critical_path(&plan, &slow_left), [0, 1, 3]);
    let slow_right = spans(&events(&[(0, 10, 20), (1, 21, 30), (2, 21, 90), (3, 91, 95)]));
    assert_eq!(critical_path(&plan, &slow_right), [0, 2, 3]);
    assert_eq!(critical_path(&plan, &[]), []);
}

#[test]
fn a_trace_is_json_and_a_timeline_is_xml_whatever_the_nodes_are_called() {
    let plan = plan(diamond());
    let scheduler = scheduler(1);
    let recorder = Arc::new(Recorder::default());
    scheduler.runner(&plan).run(RunOptions::default().observer(recorder.clone()), vec![]).unwrap();
    let events = recorder.events();
    let json = trace(&plan, &events);
    assert_eq!(json.matches("\"ph\":\"X\"").count(), 4);
    assert!(json.contains(r#""name":"a<b>&\"c\\d\u000a""#), "{json}");
    let svg = timeline(&plan, &events);
    assert_eq!(svg.matches("<title>").count(), 4);
    assert!(svg.contains("a&lt;b&gt;&amp;&quot;c\\d"), "{svg}");
    assert!(!svg.contains("<b>"), "{svg}");
    let dot = dot(&plan);
    assert!(dot.contains(r#"label="a<b>&\"c\\d\n" shape=box"#), "{dot}");
    assert_eq!(dot.matches(" -> ").count(), 4);
}

#[test]
fn spans_of_one_thread_that_overlap_are_drawn_in_rows_of_their_own() {
    let plan = diamond().compile().unwrap();
    // Nodes 0 and 2 are on one thread, at the same time.
    let svg = timeline(&plan, &events(&[(0, 10, 50), (2, 20, 60), (1, 10, 20), (3, 30, 40)]));
    assert_eq!(svg.matches(">loop<").count(), 2);
    assert_eq!(svg.matches(">pool 1<").count(), 1);
}
