//! A run as a picture that a person looks at: a bar per node, a band per thread, the critical path in red.

use std::collections::HashSet;
use std::fmt::Write;

use super::spans::{Span, critical_path, spans};
use super::word;
use crate::observe::{Event, What};
use crate::plan::Plan;

const WIDTH: f64 = 1200.0;
const LEFT: f64 = 80.0;
const ROW: f64 = 22.0;
const TOP: f64 = 46.0;

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn colour(what: What) -> &'static str {
    match what {
        What::Finished => "#7fb3d5",
        What::Failed => "#c0392b",
        What::TimedOut => "#e59866",
        What::Cancelled => "#bdc3c7",
        What::Started => "#f7dc6f",
    }
}

fn thread_name(thread: u32) -> String {
    if thread == 0 { "loop".to_owned() } else { format!("pool {thread}") }
}

/// Which row each span is drawn in: the spans of one thread lie side by side, and in rows of their own where they overlap.
fn rows(spans: &[Span]) -> (Vec<(usize, &Span)>, Vec<u32>) {
    let mut threads: Vec<u32> = spans.iter().map(|span| span.thread).collect();
    threads.sort_unstable();
    threads.dedup();
    let (mut placed, mut names) = (Vec::new(), Vec::new());
    for thread in threads {
        let first = names.len();
        let mut free: Vec<u64> = Vec::new();
        for span in spans.iter().filter(|span| span.thread == thread) {
            let row = match free.iter().position(|end| *end <= span.begin) {
                Some(row) => row,
                None => {
                    free.push(0);
                    free.len() - 1
                }
            };
            if let Some(end) = free.get_mut(row) {
                *end = span.end.max(span.begin + 1);
            }
            placed.push((first + row, span));
        }
        names.extend(std::iter::repeat_n(thread, free.len()));
    }
    (placed, names)
}

/// The run as SVG.
pub fn timeline<V>(plan: &Plan<V>, events: &[Event]) -> String {
    let spans = spans(events);
    let path: HashSet<u32> = critical_path(plan, &spans).into_iter().collect();
    let zero = spans.iter().map(|span| span.begin).min().unwrap_or(0);
    let total = spans.iter().map(|span| span.end).max().unwrap_or(0).saturating_sub(zero).max(1);
    let x = |at: u64| LEFT + (at.saturating_sub(zero)) as f64 / total as f64 * (WIDTH - LEFT - 10.0);
    let (placed, names) = rows(&spans);
    let height = TOP + names.len() as f64 * ROW + 10.0;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" \
         font-size=\"11\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"{LEFT}\" y=\"16\">{} nodes, {:.3} ms, {} on the critical path (red)</text>\n",
        spans.len(),
        total as f64 / 1e6,
        path.len(),
    );
    for tick in 0..=10u64 {
        let at = zero + total * tick / 10;
        let _ = writeln!(
            svg,
            "<line x1=\"{0:.1}\" x2=\"{0:.1}\" y1=\"34\" y2=\"{height}\" stroke=\"#eee\"/>\
             <text x=\"{0:.1}\" y=\"30\" text-anchor=\"middle\" fill=\"#666\">{1:.3}</text>",
            x(at),
            (total * tick / 10) as f64 / 1e6,
        );
    }
    for (row, thread) in names.iter().enumerate() {
        let y = TOP + row as f64 * ROW + 14.0;
        let _ = writeln!(svg, "<text x=\"4\" y=\"{y:.1}\" fill=\"#333\">{}</text>", thread_name(*thread));
    }
    for (row, span) in placed {
        let name =
            plan.names().get(span.node as usize).map_or_else(String::new, |name| escaped(&name.to_string()));
        let (left, width) = (x(span.begin), (x(span.end) - x(span.begin)).max(1.5));
        let top = TOP + row as f64 * ROW;
        let critical = path.contains(&span.node);
        let stroke = if critical {
            "stroke=\"#e00\" stroke-width=\"2\""
        } else {
            "stroke=\"#456\" stroke-width=\"0.5\""
        };
        let label = if width > 7.0 * name.chars().count() as f64 { name.as_str() } else { "" };
        let _ = writeln!(
            svg,
            "<g><title>{name}: {}, {:.3} ms from {:.3} ms</title><rect x=\"{left:.1}\" y=\"{top:.1}\" \
             width=\"{width:.1}\" height=\"{:.1}\" rx=\"2\" fill=\"{}\" {stroke}/>\
             <text x=\"{:.1}\" y=\"{:.1}\">{label}</text></g>",
            word(span.what),
            (span.end - span.begin) as f64 / 1e6,
            (span.begin - zero) as f64 / 1e6,
            ROW - 4.0,
            colour(span.what),
            left + 4.0,
            top + 13.0,
        );
    }
    svg.push_str("</svg>\n");
    svg
}
