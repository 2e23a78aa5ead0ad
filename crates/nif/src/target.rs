//! `Target`: who is to run a request, and so where its continuations go. Any thread.

use std::sync::Arc;

use rustler::{Atom, Encoder, Env, NifResult, ResourceArc, Term};

use crate::atoms;
use crate::binding::Binding;
use crate::callback::Ticket;
use crate::context::{Context, Seat};
use crate::event_loop::{EventLoop, Floor};
use crate::pool::{APART, POOL};
use crate::request::Request;

/// Who is to run a request.
#[derive(Clone)]
pub(crate) enum Target {
    /// Whichever context is free.
    Pool,
    /// Likewise, of those with an interpreter of their own.
    Apart,
    /// The context where a request was begun that cannot go on elsewhere.
    Seat(Arc<Seat>),
    Context(ResourceArc<Context>),
    /// A context that a process has to itself.
    Binding(ResourceArc<Binding>),
    /// The thread that waits for the callback which makes the request.
    Ticket(ResourceArc<Ticket>),
    Loop(ResourceArc<EventLoop>),
    /// An event loop, asked by a process that Python waits for.
    Nested(ResourceArc<EventLoop>),
    /// An event loop that the NIF has found by itself.
    Floor(Arc<Floor>),
}

impl Target {
    pub(crate) fn decode(term: Term<'_>) -> NifResult<Self> {
        if term.is_atom() {
            return Ok(if atoms::subinterp() == term { Self::Apart } else { Self::Pool });
        }
        // Loops first: thousands of tasks may be handed over at once.
        if let Ok(event_loop) = term.decode() {
            return Ok(Self::Loop(event_loop));
        }
        if let Ok(context) = term.decode() {
            return Ok(Self::Context(context));
        }
        if let Ok(binding) = term.decode() {
            return Ok(Self::Binding(binding));
        }
        if let Ok((_nested, event_loop)) = term.decode::<(Atom, ResourceArc<EventLoop>)>() {
            return Ok(Self::Nested(event_loop));
        }
        Ok(Self::Ticket(term.decode()?))
    }

    /// As Erlang names it.
    pub(crate) fn encode<'a>(&self, env: Env<'a>) -> Term<'a> {
        match self {
            Self::Pool | Self::Seat(_) => atoms::pool().encode(env),
            Self::Apart => atoms::subinterp().encode(env),
            Self::Context(context) => context.encode(env),
            Self::Binding(binding) => binding.encode(env),
            Self::Ticket(ticket) => ticket.encode(env),
            Self::Loop(event_loop) => event_loop.encode(env),
            Self::Nested(event_loop) => (atoms::nested(), event_loop).encode(env),
            // What its chains ask of Python is the pool's.
            Self::Floor(_) => atoms::pool().encode(env),
        }
    }

    /// Whether a request may be answered within microseconds: it goes to a context.
    pub(crate) fn is_quick(&self) -> bool {
        match self {
            Self::Pool | Self::Apart | Self::Seat(_) | Self::Context(_) | Self::Binding(_) => true,
            Self::Ticket(_) | Self::Loop(_) | Self::Nested(_) | Self::Floor(_) => false,
        }
    }

    /// The event loop it is.
    pub(crate) fn floor(&self) -> Option<&Arc<Floor>> {
        match self {
            Self::Loop(event_loop) | Self::Nested(event_loop) => Some(&event_loop.floor),
            Self::Floor(floor) => Some(floor),
            Self::Pool
            | Self::Apart
            | Self::Seat(_)
            | Self::Context(_)
            | Self::Binding(_)
            | Self::Ticket(_) => None,
        }
    }

    /// Queues a new request. What is said if it cannot be, in which case nothing is sent.
    pub(crate) fn accept(&self, request: Request) -> Result<(), Atom> {
        if matches!(self, Self::Binding(binding) if binding.is_released()) {
            request.withdraw();
            return Err(atoms::not_bound());
        }
        self.post(request).map_err(|request| {
            request.withdraw();
            atoms::closed()
        })
    }

    /// Queues a request there, or gives it back.
    pub(crate) fn post(&self, request: Request) -> Result<(), Request> {
        match self {
            Self::Pool => POOL.post(request),
            Self::Apart => APART.post(request),
            Self::Seat(seat) => seat.post(request),
            Self::Context(context) => context.seat.post(request),
            Self::Binding(binding) => binding.post(request),
            Self::Ticket(ticket) => ticket.post(request),
            Self::Loop(event_loop) => event_loop.floor.post(request),
            Self::Nested(event_loop) => event_loop.floor.post_nested(request),
            Self::Floor(floor) => floor.post(request),
        }
    }
}
