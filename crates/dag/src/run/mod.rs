//! A run: `state` is what it consists of, `step` how plain nodes run, `special` the nodes that wait or expire,
//! `coroutine` those on the loop, `handed` those that others do, `halt` how a run is ended early and how it completes, `handle` what the user holds.
//!
//! # Ends
//!
//! The result and the end of a run are two things. The result is there once all outputs are, or the run has failed, was
//! cancelled or is too late. The end is when every node has ended: it ran to its end, or was passed over because the run
//! was halted. Until then the state is kept, so what cannot be stopped goes on with data of its own, and its result is
//! dropped.

mod coroutine;
mod halt;
mod handed;
mod handle;
mod special;
mod state;
mod step;

pub(crate) use coroutine::contained_future;
pub use handed::Reply;
pub use handle::{Outputs, Run, Runner};
pub(crate) use state::{Ctx, Setup, State};
pub use state::{Mode, RunOptions};
pub(crate) use step::contained;
