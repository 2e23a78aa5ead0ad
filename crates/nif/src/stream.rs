//! `Stream`: a generator whose values are sent one by one, and how many its consumer wants.
//!
//! A stream is one request that is performed in pieces. While there is credit a thread takes steps; without it the request is
//! parked here, with its generator, and occupies nobody. An ack posts it again, to the context it began in. It ends once: at the
//! end of the generator, by an error, or cancelled, also by the consumer's death; then the generator is closed, by a thread that
//! may run Python.
//!
//! Values and the end are sent under one lock, so nothing comes after the end.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pyrt::{Attached, Obj, Owned, Raised, Remote};
use rustler::{Encoder, Env, LocalPid, Monitor, Resource, ResourceArc};

use crate::beam::Mail;
use crate::bridge::Bridge;
use crate::context::Seat;
use crate::convert::to_term;
use crate::exec::{self, Reason};
use crate::inbox::lock;
use crate::pool::POOL;
use crate::request::{Piece, Request};
use crate::runner::Runner;
use crate::stats::STATS;
use crate::table::{self, Id};
use crate::waiter::Known;
use crate::{atoms, output, watch};

/// How many values are sent before other threads of Python get their turn: an iterator in C gives none away by itself.
const BATCH: u32 = 64;
/// How long a generator may take to clean up before it is interrupted.
const GRACE: Duration = Duration::from_secs(2);

struct State {
    /// How many more values may be sent; none if there is no limit.
    credit: Option<u64>,
    parked: Option<Parked>,
}

/// A stream without credit, and where it goes on.
struct Parked {
    request: Request,
    /// Where it began; none if that is no context that lasts.
    seat: Option<Arc<Seat>>,
}

/// The resource; the term of it is the `Ref` that users see.
pub(crate) struct Stream {
    id: AtomicU64,
    owner: LocalPid,
    state: Mutex<State>,
}

/// The stream a request belongs to, and its generator once there is one.
pub(crate) struct Flow {
    pub(crate) stream: ResourceArc<Stream>,
    steps: Option<Remote>,
}

impl Flow {
    pub(crate) fn new(stream: ResourceArc<Stream>) -> Self {
        Self { stream, steps: None }
    }
}

impl Stream {
    pub(crate) fn new(owner: LocalPid, credit: Option<u64>) -> Self {
        Self { id: AtomicU64::new(0), owner, state: Mutex::new(State { credit, parked: None }) }
    }

    /// Says which request it is, before anybody else knows the stream.
    pub(crate) fn name(&self, id: Id) {
        self.id.store(id.word(), Ordering::Release);
    }

    fn id(&self) -> Id {
        Id::from_word(self.id.load(Ordering::Acquire))
    }

    pub(crate) fn owner(&self) -> LocalPid {
        self.owner
    }

    /// The consumer wants this many more.
    pub(crate) fn ack(&self, more: u64) {
        let mut state = lock(&self.state);
        state.credit = state.credit.map(|credit| credit.saturating_add(more));
        let parked = if state.credit == Some(0) { None } else { state.parked.take() };
        drop(state);
        if let Some(parked) = parked {
            parked.go_on();
        }
    }

    /// Ends the stream, and tells the consumer by `tell` before anything else can. False if it was over.
    pub(crate) fn cancel(&self, tell: impl FnOnce()) -> bool {
        let mut state = lock(&self.state);
        if !table::cancel(self.id()) {
            return false;
        }
        tell();
        let parked = state.parked.take();
        drop(state);
        match parked {
            // It is not wanted any more, so all that is done is to close the generator.
            Some(parked) => parked.go_on(),
            None => watch::interrupt(self.id()),
        }
        true
    }

    /// Uses one credit up. False if there is none.
    fn spend(&self) -> bool {
        match &mut lock(&self.state).credit {
            None => true,
            Some(0) => false,
            Some(credit) => {
                *credit -= 1;
                true
            }
        }
    }

    /// Sends a message made in `mail`. False if the stream is over.
    fn emit(&self, mail: Mail, word: rustler::sys::ErlNifTerm) -> bool {
        let _order = lock(&self.state);
        table::is_live(self.id()) && mail.send(self.owner, word)
    }

    /// Keeps a request until there is credit; it goes on at once if there is, or if the stream is over.
    fn park(&self, request: Request) {
        // A reserve may end at any time.
        let parked = Parked { request, seat: Seat::current().filter(|seat| !seat.is_reserve()) };
        let mut state = lock(&self.state);
        if state.credit == Some(0) && table::is_live(self.id()) {
            state.parked = Some(parked);
            return;
        }
        drop(state);
        parked.go_on();
    }
}

impl Parked {
    /// Queues the request where it began.
    fn go_on(self) {
        let refused = match &self.seat {
            Some(seat) => seat.post(self.request),
            None => POOL.post(self.request),
        };
        if let Err(request) = refused {
            request.answer(|env| (atoms::error(), atoms::closed()).encode(env));
        }
    }
}

#[rustler::resource_impl]
impl Resource for Stream {
    const IMPLEMENTS_DOWN: bool = true;

    fn down<'a>(&'a self, _env: Env<'a>, _pid: LocalPid, _monitor: Monitor) {
        self.cancel(|| ());
    }
}

/// What came of some steps.
enum Outcome {
    /// No credit.
    Paused,
    Done,
    Failed(Reason),
    /// Nobody wants more.
    Over,
}

/// Takes steps of a stream on this thread: until there is no credit, or to its end.
pub(crate) fn perform(
    py: Attached<'_>,
    bridge: &Bridge,
    runner: &Runner,
    namespace: &Obj,
    mut request: Request,
) {
    let Some(Piece::Flow(mut flow)) = request.piece.take().map(|piece| *piece) else { return };
    runner.enter(request.id().zip(request.caller()), Some(Known::Stream(flow.stream.clone())));
    let outcome = if request.is_wanted() {
        STATS.started.fetch_add(1, Ordering::SeqCst);
        watch::notice();
        match begin(py, bridge, namespace, &request, &mut flow) {
            Ok(steps) => advance(py, bridge, &flow.stream, &steps),
            Err(reason) => Outcome::Failed(reason),
        }
    } else {
        STATS.skipped.fetch_add(1, Ordering::Relaxed);
        Outcome::Over
    };
    output::end(py, bridge, true);
    runner.leave(py);
    if matches!(outcome, Outcome::Paused) {
        let stream = flow.stream.clone();
        request.piece = Some(Box::new(Piece::Flow(flow)));
        stream.park(request);
        return;
    }
    if let Some(steps) = flow.steps.take() {
        close(py, bridge, runner, steps);
    }
    match outcome {
        Outcome::Failed(reason) => request.answer(|env| (atoms::error(), reason.term(env)).encode(env)),
        Outcome::Done => request.answer(|env| atoms::done().encode(env)),
        Outcome::Over | Outcome::Paused => drop(request),
    }
}

/// The generator: the one there is, or a new one.
fn begin(
    py: Attached<'_>,
    bridge: &Bridge,
    namespace: &Obj,
    request: &Request,
    flow: &mut Flow,
) -> Result<Owned, Reason> {
    let raised = |raised: Raised| Reason::raised(py, bridge, raised);
    if let Some(steps) = flow.steps.as_ref().and_then(|steps| steps.get(py)) {
        return Ok(steps.clone_ref(py));
    }
    let source = exec::value(py, bridge, namespace, request)?;
    let steps = bridge.steps.get(py).and_then(|steps| steps.call1(py, &source)).map_err(raised)?;
    flow.steps = Remote::new(py, steps.clone_ref(py), &bridge.home).ok();
    Ok(steps)
}

fn advance(py: Attached<'_>, bridge: &Bridge, stream: &ResourceArc<Stream>, steps: &Owned) -> Outcome {
    let raised = |raised: Raised| Outcome::Failed(Reason::raised(py, bridge, raised));
    let mut sent = 0u32;
    while stream.spend() {
        let value = match steps.next(py) {
            Ok(Some(value)) => value,
            Ok(None) => return Outcome::Done,
            Err(error) => return raised(error),
        };
        let Some(mail) = Mail::new() else { return Outcome::Over };
        let word = match to_term(py, bridge, mail.env(), &value) {
            Ok(term) => (atoms::py_stream(), stream, (atoms::data(), term)).encode(mail.env()).as_c_arg(),
            Err(refused) => {
                return Outcome::Failed(exec::keep(py, bridge, |env| refused.reason(env)));
            }
        };
        if !stream.emit(mail, word) {
            return Outcome::Over;
        }
        sent = sent.wrapping_add(1);
        if sent.is_multiple_of(BATCH) {
            bridge.home.detach(py, || ());
        }
    }
    Outcome::Paused
}

/// Ends the generator. What stopped the last step does not stop its cleaning up, unless that takes too long.
fn close(py: Attached<'_>, bridge: &Bridge, runner: &Runner, steps: Remote) {
    let Ok(steps) = steps.into_owned(py) else { return };
    let id = table::open();
    runner.enter_unwatched(id);
    if let Some(id) = id {
        watch::interrupt_after(id, GRACE);
    }
    let closed = bridge.close.get(py).and_then(|close| close.call1(py, &steps));
    if let Err(raised) = closed {
        raised.write_unraisable(py, Some(&steps));
    }
    drop(steps);
    runner.leave(py);
    if let Some(id) = id {
        table::close(id);
    }
}
