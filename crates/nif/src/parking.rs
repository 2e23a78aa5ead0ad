//! `Parking`: a loop without a thread. The BEAM waits for it, by one `enif_select` on its own epoll descriptor, and the `crew` runs
//! it while something is ready. Any thread.
//!
//! ```text
//!   Parked ── ready ──▶ Queued ── a thread takes it ──▶ Running ── nothing is ready ──▶ Parked
//!                         ▲                                │ ready
//!                         └───── more, after others ◀── Again
//! ```
//!
//! A run takes everything until epoll has nothing more, and arms the deadline. Then `{py_loop, Tag, park}` asks the owner to wait,
//! unless it does already, for only a process may select; it is sent `{select, _, Tag, ready_input}` and says so to `woken`. Posts
//! make the loop ready without that way round.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex};

use pyrt::{Attached, Owned, Raised};
use rustler::{Atom, Env, Term};

use crate::bridge::Bridge;
use crate::crew::CREW;
use crate::event_loop::Floor;
use crate::inbox::lock;
use crate::select::Selected;
use crate::{atoms, errors};

const PARKED: u8 = 0;
const QUEUED: u8 = 1;
const RUNNING: u8 = 2;
const AGAIN: u8 = 3;
const ENDED: u8 = 4;

/// How many seconds a loop is run before others have their turn.
const SLICE: f64 = 0.001;

/// Who waits for a loop, and whether it is to be run.
pub(crate) struct Parking {
    state: AtomicU8,
    /// The owner waits, or was asked to.
    waited_for: AtomicBool,
    selected: Mutex<Option<Selected>>,
}

/// How a run ended.
enum Outcome {
    Parked,
    More,
    Ended(Option<String>),
}

impl Parking {
    pub(crate) fn new() -> Self {
        Self { state: AtomicU8::new(PARKED), waited_for: AtomicBool::new(false), selected: Mutex::new(None) }
    }

    /// Something is ready, or may be.
    pub(crate) fn ready(&self, floor: &Arc<Floor>) {
        let next = |state| match state {
            PARKED => Some(QUEUED),
            RUNNING => Some(AGAIN),
            _ => None,
        };
        match self.state.fetch_update(Ordering::AcqRel, Ordering::Acquire, next) {
            Ok(PARKED) => CREW.post(floor.clone()),
            // Its thread may watch epoll before it leaves, and would not see what was posted until it has.
            Ok(RUNNING) | Err(AGAIN) => {
                if let Some(poster) = floor.poster() {
                    poster.poller().wake();
                }
            }
            _ => {}
        }
    }

    /// The owner was woken.
    pub(crate) fn woken(&self, floor: &Arc<Floor>) {
        self.waited_for.store(false, Ordering::Release);
        self.ready(floor);
    }

    /// The owner waits from now on: `{select, _, Reference, ready_input}` is sent to it, once.
    pub(crate) fn arm(&self, env: Env<'_>, floor: &Floor, reference: Term<'_>) -> Result<(), Atom> {
        if env.pid() != floor.owner() {
            return Err(atoms::not_owner());
        }
        let Some(poster) = floor.poster() else { return Err(atoms::closed()) };
        let mut selected = lock(&self.selected);
        if self.state.load(Ordering::Acquire) == ENDED {
            return Err(atoms::closed());
        }
        if selected.is_none() {
            *selected = Selected::new(poster.poller());
        }
        let armed = selected.as_ref().is_some_and(|selected| selected.arm(env, env.pid(), reference));
        if armed { Ok(()) } else { Err(atoms::badarg()) }
    }

    /// Nobody waits any more.
    pub(crate) fn let_go(&self, env: Env<'_>) {
        if let Some(selected) = lock(&self.selected).take() {
            selected.stop(env);
        }
    }

    /// Runs a loop that was queued. By a thread of the crew.
    pub(crate) fn run(floor: &Arc<Floor>) {
        let Some(parking) = &floor.parking else { return };
        parking.state.store(RUNNING, Ordering::Release);
        let outcome = catch_unwind(AssertUnwindSafe(|| slice(floor)));
        match outcome.unwrap_or_else(|_| Outcome::Ended(Some(String::from("a panic")))) {
            Outcome::Parked => {
                let parked =
                    parking.state.compare_exchange(RUNNING, PARKED, Ordering::AcqRel, Ordering::Acquire);
                if parked.is_err() {
                    parking.again(floor);
                } else if !parking.waited_for.swap(true, Ordering::AcqRel) {
                    floor.tell(atoms::park());
                }
            }
            Outcome::More => parking.again(floor),
            Outcome::Ended(reason) => {
                parking.state.store(ENDED, Ordering::Release);
                floor.finish(reason);
            }
        }
    }

    fn again(&self, floor: &Arc<Floor>) {
        self.state.store(QUEUED, Ordering::Release);
        CREW.post(floor.clone());
    }
}

/// Opens the loop if it is not, and runs what is ready.
fn slice(floor: &Arc<Floor>) -> Outcome {
    let ran = floor.attach(|py, bridge| {
        floor.occupied(bridge, || match turns(py, bridge, floor) {
            Ok(0) => Outcome::Parked,
            Ok(1) => Outcome::More,
            Ok(_) => Outcome::Ended(None),
            Err(raised) => Outcome::Ended(Some(errors::Thrown::new(py, bridge, raised).into_traceback())),
        })
    });
    ran.unwrap_or(Outcome::Ended(None))
}

/// As `_run_ready` of a loop says, for one that was stopped after it was closed.
fn turns(py: Attached<'_>, bridge: &Bridge, floor: &Arc<Floor>) -> Result<i64, Raised> {
    let event_loop = match floor.event_loop(py) {
        Some(event_loop) => event_loop,
        // It is closed.
        None if floor.poster().is_some() => return Ok(2),
        None => floor.open(py, bridge)?,
    };
    let seconds = Owned::float(py, SLICE)?;
    bridge.turns.get(py)?.call(py, [event_loop.borrow(), seconds.borrow()])?.to_i64(py)
}
