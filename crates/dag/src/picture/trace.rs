//! A run in Chrome's trace format, for `chrome://tracing` and Perfetto.

use std::collections::HashSet;
use std::fmt::Write;

use super::spans::{critical_path, spans};
use super::word;
use crate::observe::Event;
use crate::plan::Plan;

fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            control if control < ' ' => drop(write!(quoted, "\\u{:04x}", control as u32)),
            other => quoted.push(other),
        }
    }
    quoted
}

/// Microseconds, to the nanosecond.
fn micros(nanos: u64) -> String {
    format!("{}.{:03}", nanos / 1_000, nanos % 1_000)
}

/// The run as JSON: one complete event per node, with its inputs, its end and whether the run waited for it.
pub fn trace<V>(plan: &Plan<V>, events: &[Event]) -> String {
    let spans = spans(events);
    let path: HashSet<u32> = critical_path(plan, &spans).into_iter().collect();
    let zero = spans.first().map_or(0, |span| span.begin);
    let name = |node: u32| {
        plan.names().get(node as usize).map_or_else(String::new, |name| quoted(&name.to_string()))
    };
    let mut lines = Vec::with_capacity(spans.len());
    for span in &spans {
        let inputs = plan.node(span.node).map_or(&[][..], |(_, inputs)| inputs);
        let inputs: Vec<String> = inputs.iter().map(|input| format!("\"{}\"", name(*input))).collect();
        lines.push(format!(
            "{{\"name\":\"{}\",\"cat\":\"{}\",\"ph\":\"X\",\"ts\":{},\"dur\":{},\"pid\":1,\"tid\":{},\
             \"args\":{{\"inputs\":[{}],\"critical\":{}}}}}",
            name(span.node),
            word(span.what),
            micros(span.begin - zero),
            micros(span.end - span.begin),
            span.thread,
            inputs.join(","),
            path.contains(&span.node),
        ));
    }
    format!("{{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n{}\n]}}\n", lines.join(",\n"))
}
