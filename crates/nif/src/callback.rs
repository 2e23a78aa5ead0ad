//! `erlang.call`: a thread of Python waits for an Erlang function, and meanwhile serves the requests that function makes.
//!
//! The waiting thread has a [`Suspension`]; Erlang holds a [`Ticket`] to it. The first answer wins and the rest are counted: from
//! the function, from the death of its process, or from the ticket being forgotten. Nested requests come in by the ticket and
//! run on the waiting thread itself, so any depth needs one thread only. Nothing is ever run twice.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use pyloop::Loop;
use pyrt::{Args, Attached, Borrowed, Exception, Fault, Owned, PyResult, Raised};
use rustler::sys::ErlNifTerm;
use rustler::types::tuple::get_tuple;
use rustler::{Atom, Encoder, Env, LocalPid, Monitor, Resource, ResourceArc, Term};

use crate::atoms;
use crate::beam::Mail;
use crate::bridge::Bridge;
use crate::context::Seat;
use crate::convert::{text_of, to_python, to_terms};
use crate::event_loop::Floor;
use crate::exec;
use crate::inbox::{Inbox, Spin, lock};
use crate::parcel;
use crate::pool::{POOL, Pool};
use crate::promise::Promise;
use crate::request::Request;
use crate::runner::Runner;
use crate::stats::STATS;

/// The process that starts callbacks.
static DISPATCHER: Mutex<Option<LocalPid>> = Mutex::new(None);

/// Who is told of callbacks from now on.
pub(crate) fn set_dispatcher(pid: LocalPid) {
    *lock(&DISPATCHER) = Some(pid);
}

/// Sends a message to the dispatcher.
pub(crate) fn dispatch(py: Attached<'_>, mail: Mail, word: ErlNifTerm) -> PyResult<()> {
    let to = *lock(&DISPATCHER);
    match to {
        Some(pid) if mail.send(pid, word) => Ok(()),
        _ => Err(Fault::runtime("the application erlang_python is not running").raise(py)),
    }
}

enum Event {
    Answer(Mail, ErlNifTerm),
    Request(Request),
    Interrupt,
}

/// A thread that waits for Erlang.
pub(crate) struct Suspension {
    inbox: Inbox<Event>,
    answered: AtomicBool,
}

impl Suspension {
    pub(crate) fn new() -> Self {
        Self { inbox: Inbox::new(), answered: AtomicBool::new(false) }
    }

    /// Breaks the wait off.
    pub(crate) fn interrupt(&self) {
        // A closed inbox belongs to a wait that is over.
        let _over = self.inbox.post(Event::Interrupt);
    }

    /// Has the waiting thread serve a request; given back if it waits no longer.
    pub(crate) fn post(&self, request: Request) -> Result<(), Request> {
        match self.inbox.post(Event::Request(request)) {
            Err(Event::Request(request)) => Err(request),
            _ => Ok(()),
        }
    }

    /// Has the waiting thread look at the inbox of its context.
    pub(crate) fn nudge(&self) {
        self.inbox.nudge();
    }

    /// Gives the answer. Whether it was the first and somebody waits for it.
    fn answer(&self, term: impl for<'a> FnOnce(Env<'a>) -> Term<'a>) -> bool {
        if self.answered.swap(true, Ordering::AcqRel) {
            STATS.late_callbacks.fetch_add(1, Ordering::Relaxed);
            return false;
        }
        let Some(mail) = Mail::new() else { return false };
        let word = term(mail.env()).as_c_arg();
        if self.inbox.post(Event::Answer(mail, word)).is_err() {
            STATS.late_callbacks.fetch_add(1, Ordering::Relaxed);
            return false;
        }
        true
    }
}

/// Who waits for an answer.
pub(crate) enum Waiter {
    Thread(Arc<Suspension>),
    /// A coroutine, whose thread goes on.
    Coroutine(Promise),
}

/// What Erlang holds of a call.
pub(crate) struct Ticket {
    waiter: Waiter,
    /// Where requests go that nobody waits for.
    pool: &'static Pool,
}

impl Ticket {
    /// The answer: `{ok, Value}` or `{error, {Class, Reason}}`.
    pub(crate) fn answer(&self, term: Term<'_>) -> bool {
        self.answer_by(|env| term.in_env(env))
    }

    fn answer_by(&self, term: impl for<'a> FnOnce(Env<'a>) -> Term<'a>) -> bool {
        match &self.waiter {
            Waiter::Thread(suspension) => suspension.answer(term),
            Waiter::Coroutine(promise) => promise.answer(term),
        }
    }

    /// A request made by the function; the pool's if no thread waits for that, or not any more. A loop may have an interpreter of its own
    /// where no context has: then it is one of the main interpreter's contexts that serves it.
    pub(crate) fn post(&self, request: Request) -> Result<(), Request> {
        let elsewhere = |request| self.pool.post(request).or_else(|request| POOL.post(request));
        match &self.waiter {
            Waiter::Thread(suspension) => suspension.post(request).or_else(elsewhere),
            Waiter::Coroutine(_) => elsewhere(request),
        }
    }

    /// Whether a thread waits that has an interpreter of its own, and serves requests there.
    pub(crate) fn is_apart(&self) -> bool {
        self.pool.is_apart() && matches!(self.waiter, Waiter::Thread(_))
    }

    /// Nobody will answer.
    fn lost(&self) {
        let answered = match &self.waiter {
            Waiter::Thread(suspension) => suspension.answered.load(Ordering::Acquire),
            Waiter::Coroutine(promise) => promise.is_answered(),
        };
        if !answered {
            self.answer_by(died);
        }
    }
}

#[rustler::resource_impl]
impl Resource for Ticket {
    const IMPLEMENTS_DOWN: bool = true;

    fn down<'a>(&'a self, _env: Env<'a>, _pid: LocalPid, _monitor: Monitor) {
        self.lost();
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.lost();
    }
}

fn died(env: Env<'_>) -> Term<'_> {
    (atoms::error(), (atoms::exit(), atoms::callback_died())).encode(env)
}

/// The message that asks for a call.
pub(crate) fn letter(
    py: Attached<'_>,
    bridge: &Bridge,
    name: Borrowed<'_>,
    args: &[Borrowed<'_>],
    waiter: Waiter,
) -> PyResult<(Mail, ErlNifTerm)> {
    let text = name.str(py)?.to_string_lossy(py)?;
    let mail = Mail::new().ok_or_else(|| Fault::Memory.raise(py))?;
    let args = to_terms(py, bridge, mail.env(), args).map_err(|refused| refused.raise(py))?.as_c_arg();
    let (mail, args) = parcel::pack(mail, args).ok_or_else(|| Fault::Memory.raise(py))?;
    let ticket = ResourceArc::new(Ticket { waiter, pool: bridge.pool() });
    // SAFETY: made in this mail.
    let args = unsafe { mail.term(args) };
    let word = (atoms::py_callback(), ticket, text, args).encode(mail.env()).as_c_arg();
    STATS.callbacks.fetch_add(1, Ordering::Relaxed);
    Ok((mail, word))
}

/// Calls an Erlang function and waits for its answer.
pub(crate) fn call(
    py: Attached<'_>,
    bridge: &Bridge,
    name: Borrowed<'_>,
    args: &[Borrowed<'_>],
) -> PyResult<Owned> {
    send_held(py, bridge)?;
    let suspension = Arc::new(Suspension::new());
    let (mail, word) = letter(py, bridge, name, args, Waiter::Thread(suspension.clone()))?;
    // Before anybody can answer: who does may ask for the contexts that are free, or for this one.
    let seat = Seat::current();
    if let Some(seat) = &seat {
        seat.pool.away(seat);
        seat.suspend(&suspension);
    }
    let floor = Floor::current();
    if let Some(floor) = &floor {
        floor.suspend(&suspension);
    }
    let runner = Runner::current(bridge);
    runner.suspend(suspension.clone());
    let answer =
        dispatch(py, mail, word).and_then(|()| wait(py, bridge, &runner, &suspension, seat.as_deref()));
    runner.resume();
    if let Some(seat) = &seat {
        seat.resume();
    }
    if let Some(floor) = &floor {
        floor.resume();
    }
    // What came too late is for the others.
    for event in suspension.inbox.close() {
        if let Event::Request(request) = event {
            let target = request.target.clone();
            // Dropped if nobody takes it, which answers it.
            let _none = target.post(request);
        }
    }
    if let Some(seat) = &seat {
        seat.pool.back(seat);
    }
    let (mail, word) = answer?;
    // SAFETY: made in this mail.
    result(py, bridge, unsafe { mail.term(word) })
}

fn wait(
    py: Attached<'_>,
    bridge: &Bridge,
    runner: &Runner,
    suspension: &Suspension,
    seat: Option<&Seat>,
) -> PyResult<(Mail, ErlNifTerm)> {
    let mut spin = Spin::new();
    loop {
        let event = bridge.home.detach(py, || {
            let addressed = || seat.is_some_and(|seat| seat.inbox.has_items());
            if !addressed() {
                spin.wait(|| suspension.inbox.is_called() || addressed(), || suspension.inbox.park());
            }
            suspension.inbox.heed();
            suspension.inbox.take().or_else(|| seat?.inbox.take().map(Event::Request))
        });
        match event {
            Some(Event::Answer(mail, word)) => return Ok((mail, word)),
            Some(Event::Request(request)) => {
                let namespace = exec::namespace(py, bridge, runner)?;
                // The thread may be inside of a loop, which nested code knows nothing of.
                let outer = bridge.aside.get(py)?.call0(py)?;
                exec::perform(py, bridge, runner, &namespace, request);
                bridge.rejoin.get(py)?.call1(py, &outer)?;
            }
            Some(Event::Interrupt) => return Err(interrupted(py, bridge)),
            None => {}
        }
    }
}

/// The thread is about to block: what its loop has put off goes out, as Erlang may wait for it.
fn send_held(py: Attached<'_>, bridge: &Bridge) -> PyResult<()> {
    Loop::send_held(py, || bridge.running.get(py)?.call0(py))
}

fn interrupted(py: Attached<'_>, bridge: &Bridge) -> Raised {
    let class = bridge.interrupted.get(py);
    match class.and_then(|class| Exception::new(py, &class, [])) {
        Ok(exception) => exception.raise(py),
        Err(raised) => raised,
    }
}

/// `sleep(seconds)`: as `time.sleep`, and an interrupt ends it. The context is not the pool's meanwhile.
pub(crate) fn sleep(py: Attached<'_>, bridge: &Bridge, args: Args<'_>) -> PyResult<()> {
    let &[seconds] = args.positional() else {
        return Err(Fault::type_error("sleep() takes a number of seconds").raise(py));
    };
    let length = Duration::try_from_secs_f64(seconds.to_f64(py)?)
        .map_err(|_| Fault::value_error("sleep length must be non-negative, and a number").raise(py))?;
    rest(py, bridge, &Arc::new(Suspension::new()), Instant::now().checked_add(length))
}

/// Waits for a nudge, an interrupt or a deadline.
pub(crate) fn rest(
    py: Attached<'_>,
    bridge: &Bridge,
    suspension: &Arc<Suspension>,
    deadline: Option<Instant>,
) -> PyResult<()> {
    send_held(py, bridge)?;
    let runner = Runner::current(bridge);
    let seat = Seat::current();
    if let Some(seat) = &seat {
        seat.pool.away(seat);
    }
    runner.suspend(suspension.clone());
    let event = bridge.home.detach(py, || {
        match deadline {
            Some(deadline) => suspension.inbox.park_until(deadline),
            None => suspension.inbox.park(),
        }
        suspension.inbox.take()
    });
    runner.resume();
    if let Some(seat) = &seat {
        seat.pool.back(seat);
    }
    match event {
        Some(Event::Interrupt) => Err(interrupted(py, bridge)),
        _ => Ok(()),
    }
}

/// The value of an answer, or the exception it stands for.
pub(crate) fn result(py: Attached<'_>, bridge: &Bridge, answer: Term<'_>) -> PyResult<Owned> {
    let parts = get_tuple(answer).unwrap_or_default();
    match parts.as_slice() {
        [tag, value] if atoms::ok() == *tag => {
            to_python(py, bridge, *value).map_err(|refused| refused.raise(py))
        }
        [tag, reason] if atoms::error() == *tag => {
            let parts = get_tuple(*reason).unwrap_or_default();
            let (class, reason) = match parts.as_slice() {
                [class, reason] if class.decode::<Atom>().is_ok() => (*class, *reason),
                _ => (atoms::error().to_term(answer.get_env()), *reason),
            };
            let class = Owned::str(py, &text_of(class).unwrap_or_default())?;
            let text = Owned::str(py, &format!("{reason:?}"))?;
            let reason = match to_python(py, bridge, reason) {
                Ok(reason) => reason,
                Err(refused) => {
                    refused.raise(py).clear(py);
                    text.clone_ref(py)
                }
            };
            let error = bridge.erlang_error.get(py)?;
            Err(Exception::new(py, &error, [class.borrow(), reason.borrow(), text.borrow()])?.raise(py))
        }
        _ => Err(Fault::system("an answer that is none").raise(py)),
    }
}
