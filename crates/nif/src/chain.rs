//! Chains: what becomes of a request whose result is a [`Marker`]. The request travels on, and whoever ends the chain answers it;
//! so timeouts, cancellation and the caller's death hold for all of it.
//!
//! - *inline*: the next step is taken at once by the same thread, until others have waited for [`TURN`]; then the request goes
//!   to the end of the queue it came by, with what comes next.
//! - *Python*: the request goes to Erlang as a [`Continuation`], comes back by a message, and is queued.
//! - *Erlang*: likewise, and a process there runs the function and answers.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use pyrt::{Attached, Borrowed, Obj, Owned, Remote};
use rustler::sys::ErlNifTerm;
use rustler::{Encoder, Env, LocalPid, Monitor, Resource, ResourceArc, Term};

use crate::beam::Mail;
use crate::bridge::Bridge;
use crate::callback;
use crate::context::Seat;
use crate::convert::to_terms;
use crate::exec::{Failure, Reason};
use crate::inbox::lock;
use crate::marker::{Marker, Way};
use crate::parcel;
use crate::pool::POOL;
use crate::request::{Op, Piece, Request};
use crate::target::Target;
use crate::{atoms, slice};

/// How long a chain of inline steps goes on while others wait.
const TURN: Duration = Duration::from_millis(1);

/// What comes after a step.
pub(crate) enum Next {
    /// The end: the answer.
    Answer(Result<Owned, Reason>),
    /// The others first.
    Queue,
    /// A message to Erlang, and back.
    Message,
    /// An Erlang function; its name and arguments in a mail.
    Call(Mail, ErlNifTerm),
}

/// Takes steps, from the result of the first, for as long as they are to be taken here.
pub(crate) fn follow(
    py: Attached<'_>,
    bridge: &Bridge,
    namespace: &Obj,
    request: &mut Request,
    mut outcome: Result<Owned, Reason>,
) -> Next {
    let mut turn = None;
    loop {
        let marker = match &outcome {
            Ok(value) if request.op != Op::Exec => {
                bridge.as_marker(value.borrow()).map(|marker| marker.clone_ref(py))
            }
            _ => None,
        };
        let Some(marker) = marker.filter(|_| request.is_live()) else { return Next::Answer(outcome) };
        match marker.way {
            Way::Inline => {
                let since = turn.get_or_insert_with(Instant::now);
                if others_wait() && since.elapsed() > TURN && keep(py, bridge, request, marker.object()) {
                    return Next::Queue;
                }
                slice::renew();
                outcome = step(py, bridge, namespace, marker.payload());
            }
            Way::Python => {
                if keep(py, bridge, request, marker.object()) {
                    return Next::Message;
                }
                outcome = step(py, bridge, namespace, marker.payload());
            }
            // What Erlang answers is a term; who wants an object is served by waiting.
            Way::Erlang if request.op == Op::CallRef => {
                outcome = arguments(py, &marker)
                    .and_then(|args| callback::call(py, bridge, marker.name.borrow(), args))
                    .map_err(|raised| Reason::of(py, bridge, Failure::Raised(raised)));
            }
            Way::Erlang => match call(py, bridge, &marker) {
                Ok((mail, word)) => return Next::Call(mail, word),
                Err(reason) => return Next::Answer(Err(reason)),
            },
        }
    }
}

/// Takes the step that a request was queued with.
pub(crate) fn step(
    py: Attached<'_>,
    bridge: &Bridge,
    namespace: &Obj,
    marker: &Marker,
) -> Result<Owned, Reason> {
    marker.step(py, namespace).map_err(|raised| Reason::of(py, bridge, Failure::Raised(raised)))
}

/// Whether this thread keeps requests of others waiting.
fn others_wait() -> bool {
    match Seat::current() {
        Some(seat) => seat.pool.has_work() || seat.inbox.is_called(),
        None => POOL.has_work(),
    }
}

/// Gives the request what comes next along.
fn keep(py: Attached<'_>, bridge: &Bridge, request: &mut Request, marker: &Owned) -> bool {
    match Remote::new(py, marker.clone_ref(py), &bridge.home) {
        Ok(marker) => {
            request.piece = Some(Box::new(Piece::Next(marker)));
            // It lives in this interpreter, which no other context has.
            if let Some(seat) = Seat::current().filter(|seat| seat.is_apart()) {
                request.target = Target::Seat(seat);
            }
            true
        }
        Err(_) => false,
    }
}

fn arguments<'a>(py: Attached<'_>, marker: &'a Marker) -> pyrt::PyResult<&'a [Borrowed<'a>]> {
    marker.args.as_tuple(py)
}

fn call(py: Attached<'_>, bridge: &Bridge, marker: &Marker) -> Result<(Mail, ErlNifTerm), Reason> {
    let raise = |raised| Reason::of(py, bridge, Failure::Raised(raised));
    let Some(mail) = Mail::new() else { return Err(Reason::NoMemory) };
    let name = marker.name.to_str(py).map_err(raise)?.to_owned();
    let word = {
        let args = arguments(py, marker).map_err(raise)?;
        match to_terms(py, bridge, mail.env(), args) {
            Ok(args) => (name, args).encode(mail.env()).as_c_arg(),
            Err(refused) => return Err(Reason::of(py, bridge, Failure::Refused(refused))),
        }
    };
    Ok((mail, word))
}

/// Sends a request on its way to Erlang. It has left this thread's stack.
pub(crate) fn hand_over(py: Attached<'_>, bridge: &Bridge, request: Request, next: Next) {
    match next {
        Next::Queue => {
            let target = request.target.clone();
            // One that nobody takes any more is answered by being dropped.
            let _closed = target.post(request);
        }
        Next::Message => {
            let Some(mail) = Mail::new() else { return };
            let continuation = Continuation::new(request);
            let word = (atoms::py_continue(), continuation).encode(mail.env()).as_c_arg();
            send(py, bridge, mail, word);
        }
        Next::Call(mail, word) => {
            let Some((mail, word)) = parcel::pack(mail, word) else { return };
            let target = request.target.encode(mail.env());
            // SAFETY: made in this mail.
            let call = unsafe { mail.term(word) };
            let continuation = Continuation::new(request);
            let word = (atoms::py_schedule(), continuation, target, call).encode(mail.env()).as_c_arg();
            send(py, bridge, mail, word);
        }
        Next::Answer(_) => {}
    }
}

fn send(py: Attached<'_>, _bridge: &Bridge, mail: Mail, word: ErlNifTerm) {
    if let Err(raised) = callback::dispatch(py, mail, word) {
        // The mail was dropped, the continuation with it, which has answered.
        raised.clear(py);
    }
}

/// A request that Erlang holds. Forgotten, it is answered with an error.
pub(crate) struct Continuation(Mutex<Option<Request>>);

impl Continuation {
    fn new(request: Request) -> ResourceArc<Self> {
        ResourceArc::new(Self(Mutex::new(Some(request))))
    }

    fn take(&self) -> Option<Request> {
        lock(&self.0).take()
    }

    /// Queues it again, where it came from.
    pub(crate) fn resume(&self) {
        if let Some(request) = self.take() {
            let target = request.target.clone();
            // One that nobody takes any more is answered by being dropped.
            let _closed = target.post(request);
        }
    }

    /// Answers it. Whether anybody waits, or did.
    pub(crate) fn answer(&self, env: Env<'_>, answer: Term<'_>) -> bool {
        let Some(request) = self.take() else { return true };
        let waited = request.id().is_some();
        request.answer_from(env, |env| answer.in_env(env));
        waited
    }

    fn lost(&self) {
        if let Some(request) = self.take() {
            request.answer(|env| (atoms::error(), (atoms::exit(), atoms::callback_died())).encode(env));
        }
    }
}

#[rustler::resource_impl]
impl Resource for Continuation {
    const IMPLEMENTS_DOWN: bool = true;

    fn down<'a>(&'a self, _env: Env<'a>, _pid: LocalPid, _monitor: Monitor) {
        self.lost();
    }
}

impl Drop for Continuation {
    fn drop(&mut self) {
        self.lost();
    }
}
