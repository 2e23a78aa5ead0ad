//! From events to spans: when each node ran, where, and which of them the run had to wait for.

use crate::observe::{Event, What};
use crate::plan::Plan;

/// A node's time in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The node's place in the plan.
    pub node: u32,
    /// When it began, in nanoseconds; when it ended, if it never began.
    pub begin: u64,
    /// When it ended.
    pub end: u64,
    /// How it ended; `Started` if that is not known.
    pub what: What,
    /// The thread it began on.
    pub thread: u32,
}

/// The spans of a run, by their begin.
pub fn spans(events: &[Event]) -> Vec<Span> {
    let nodes = events.iter().map(|event| event.node as usize + 1).max().unwrap_or(0);
    let last = events.iter().map(|event| event.at).max().unwrap_or(0);
    let mut found: Vec<Option<Span>> = vec![None; nodes];
    for event in events {
        let Some(place) = found.get_mut(event.node as usize) else { continue };
        let Event { node, what, at, thread } = *event;
        match (what, place.as_mut()) {
            (What::Started, _) => *place = Some(Span { node, begin: at, end: last, what, thread }),
            (_, Some(span)) if span.what == What::Started => (span.end, span.what) = (at, what),
            (_, Some(_)) => {}
            (_, None) => *place = Some(Span { node, begin: at, end: at, what, thread }),
        }
    }
    let mut spans: Vec<Span> = found.into_iter().flatten().collect();
    spans.sort_by_key(|span| (span.begin, span.end));
    spans
}

/// The nodes that the run had to wait for, in order: from the one that ended last back to the input that came last, and
/// so on.
pub fn critical_path<V>(plan: &Plan<V>, spans: &[Span]) -> Vec<u32> {
    let mut ends: Vec<Option<u64>> = vec![None; plan.len()];
    for span in spans {
        if let Some(end) = ends.get_mut(span.node as usize) {
            *end = Some(span.end);
        }
    }
    let end = |node: &u32| ends.get(*node as usize).copied().flatten();
    let ran = spans.iter().filter(|span| span.what != What::Cancelled);
    let mut path = Vec::new();
    let mut here = ran.max_by_key(|span| span.end).map(|span| span.node);
    while let Some(node) = here {
        path.push(node);
        let inputs = plan.node(node).map_or(&[][..], |(_, inputs)| inputs);
        here = inputs.iter().copied().filter(|input| end(input).is_some()).max_by_key(end);
    }
    path.reverse();
    path
}
