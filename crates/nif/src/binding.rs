//! `Binding`: a context lent to one process, until it is given back or that process dies. Any thread.
//!
//! The seat holds the binding too, so it does not end by being forgotten. Once released it is never valid again, also if the same
//! context is lent to the same process a second time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustler::{Env, LocalPid, Monitor, Resource, ResourceArc};

use crate::context::Seat;
use crate::request::Request;

/// The resource; the term of it is the context that users see.
pub(crate) struct Binding {
    seat: Arc<Seat>,
    released: AtomicBool,
}

impl Binding {
    /// Takes a context out of the pool; one that runs a request only if `busy` says so. `None` if it is lent already, waits for
    /// Erlang, or has ended.
    pub(crate) fn new(seat: &Arc<Seat>, busy: bool) -> Option<ResourceArc<Self>> {
        if !seat.pool.bind(seat, busy) {
            return None;
        }
        let binding = ResourceArc::new(Self { seat: seat.clone(), released: AtomicBool::new(false) });
        seat.lend(Some(binding.clone()));
        Some(binding)
    }

    /// Gives the context back to the pool. False if it was.
    pub(crate) fn release(&self) -> bool {
        let first = !self.released.swap(true, Ordering::AcqRel);
        if first {
            self.seat.lend(None);
            self.seat.pool.unbind(&self.seat);
        }
        first
    }

    /// Whether it was given back.
    pub(crate) fn is_released(&self) -> bool {
        self.released.load(Ordering::Acquire)
    }

    /// Whether requests may be posted: it is lent, and its context lives.
    pub(crate) fn is_open(&self) -> bool {
        !self.is_released() && !self.seat.is_stopped()
    }

    /// Queues a request there, or gives it back if the context has ended.
    pub(crate) fn post(&self, request: Request) -> Result<(), Request> {
        self.seat.post(request)
    }
}

#[rustler::resource_impl]
impl Resource for Binding {
    const IMPLEMENTS_DOWN: bool = true;

    fn down<'a>(&'a self, _env: Env<'a>, _pid: LocalPid, _monitor: Monitor) {
        self.release();
    }
}
