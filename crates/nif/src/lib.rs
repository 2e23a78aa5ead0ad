//! Python in the BEAM: terms, contexts, calls both ways. The NIF of `py_nif`.
//!
//! ```text
//!  process ── py_nif:submit ──▶ Request ──▶ Pool or a context's inbox ──▶ context thread ──▶ exec: convert, call, convert
//!     ◀────────────── {Ref, Result}, sent by the request itself, exactly once ◀─────────────────────┘
//!
//!  Python ── erlang.call ──▶ Suspension, Ticket ──▶ py_callback ──▶ a process that runs the function
//!     ◀── answer, or nested requests, served by the waiting thread ◀───┘
//!
//!  process ── submit to a loop ──▶ Request ──▶ Poster ──▶ the loop's thread ──▶ Job, the coroutine of an asyncio.Task
//!     ◀────────────── answered by the step that ends the job ◀──────────────────────┘
//!                                     (or Parking, and one of the Crew)
//! ```
//!
//! Who runs where: `api` on schedulers, and never attached; `context` threads, and Python's own, attached; `watch` on a thread of its
//! own. Locks are held for a few instructions, never while attaching or detaching.

mod api;
mod atoms;
mod bare;
mod bare_api;
mod beam;
mod bell;
mod binding;
mod bridge;
mod callback;
mod chain;
mod context;
mod convert;
mod crew;
mod desk;
mod errors;
mod event_loop;
mod exec;
#[cfg(feature = "fuzzing")]
#[path = "../../../fuzz/src/fuzz.rs"]
mod fuzz;
mod graph_api;
mod graphs;
mod inbox;
mod job;
mod jobs;
mod loop_api;
mod marker;
mod objects;
mod output;
mod parcel;
mod parking;
mod pool;
mod processes;
mod promise;
mod python;
mod realm;
mod realm_api;
mod replies;
mod reply_api;
mod request;
mod runner;
mod sandbox;
mod select;
mod slice;
mod small;
mod spare;
mod speaker;
mod stats;
mod stream;
mod strike;
mod submit;
mod table;
mod target;
mod task;
mod terms;
mod test_fds;
mod threads;
mod tray;
mod waiter;
mod watch;
mod weight;

fn load(env: rustler::Env<'_>, _info: rustler::Term<'_>) -> bool {
    select::load(env)
}

rustler::init!("py_nif", load = load);
