//! Pictures of plans and of runs: Graphviz, Chrome's trace format, and a timeline in SVG with the critical path. Text made
//! of what a [`Recorder`](crate::Recorder) wrote down; nothing here touches a run.

mod dot;
mod spans;
mod timeline;
mod trace;

pub use dot::dot;
pub use spans::{Span, critical_path, spans};
pub use timeline::timeline;
pub use trace::trace;

use crate::observe::What;

/// The word for how a node ended.
fn word(what: What) -> &'static str {
    match what {
        What::Started => "running",
        What::Finished => "finished",
        What::Failed => "failed",
        What::TimedOut => "timed out",
        What::Cancelled => "cancelled",
    }
}
