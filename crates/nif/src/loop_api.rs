//! The functions of `py_nif` about event loops. Called on schedulers, dirty ones if there is much to copy: none of them attaches
//! to Python or waits.

use std::ffi::CStr;

use rustler::{Atom, Encoder, Env, Error, LocalPid, NifResult, ResourceArc, Term};

use crate::bare::BareLoop;
use crate::event_loop::{Driver, EventLoop, Floor};
use crate::request::{Op, Request, Tags};
use crate::target::Target;
use crate::terms::Saved;
use crate::weight::{self, Copies};
use crate::{atoms, python};

/// A new event loop, which ends with the calling process: with a thread of its own, or waited for by that process. That is sent
/// `{py_loop, Tag, ready}` when the loop is there, and `{py_loop, Tag, ended}` or `{py_loop, Tag, {ended, Text}}` when it is gone;
/// and `{py_loop, Tag, park}` if it is to call `loop_arm`.
#[rustler::nif]
fn loop_start<'a>(env: Env<'a>, tag: Term<'a>, driver: Atom) -> NifResult<Term<'a>> {
    let driver = match driver {
        driver if driver == atoms::thread() => Driver::Thread,
        driver if driver == atoms::subinterp() => Driver::Apart,
        driver if driver == atoms::beam() => Driver::Beam,
        _ => return Ok((atoms::error(), (atoms::event_loop_driver(), driver)).encode(env)),
    };
    if python::main().is_none() {
        return Ok((atoms::error(), atoms::not_started()).encode(env));
    }
    let tag = Saved::new(tag).ok_or(Error::BadArg)?;
    let event_loop = match EventLoop::start(env.pid(), tag, driver) {
        Ok(event_loop) => ResourceArc::new(event_loop),
        Err(error) => return Ok((atoms::error(), error.to_string()).encode(env)),
    };
    env.monitor(&event_loop, &env.pid()).ok_or(Error::BadArg)?;
    Ok((atoms::ok(), event_loop).encode(env))
}

/// The owner waits for a loop that is parked: it is sent `{select, _, Tag, ready_input}`, once, when something is ready.
#[rustler::nif]
fn loop_arm<'a>(env: Env<'a>, event_loop: ResourceArc<EventLoop>, tag: Term<'a>) -> Term<'a> {
    let floor = &event_loop.floor;
    let parking = floor.parking.as_ref().ok_or_else(atoms::badarg);
    match parking.and_then(|parking| parking.arm(env, floor, tag)) {
        Ok(()) => atoms::ok().encode(env),
        Err(reason) => (atoms::error(), reason).encode(env),
    }
}

/// Something is ready on a loop that was waited for: it is run.
#[rustler::nif]
fn loop_ready(event_loop: ResourceArc<EventLoop>) -> Atom {
    if let Some(parking) = &event_loop.floor.parking {
        parking.woken(&event_loop.floor);
    }
    atoms::ok()
}

/// Ends a loop: its tasks are cancelled, and its owner is told when it is gone.
#[rustler::nif]
fn loop_stop(event_loop: ResourceArc<EventLoop>) -> Atom {
    event_loop.floor.stop();
    atoms::ok()
}

/// Hands a task over to a loop: `{async_result, Ref, Result}` will be sent to the caller that is named.
#[rustler::nif]
#[allow(clippy::too_many_arguments, reason = "the shape that users know")]
fn submit_task<'a>(
    env: Env<'a>,
    event_loop: Term<'a>,
    caller: Term<'a>,
    reference: Term<'a>,
    module: Term<'a>,
    function: Term<'a>,
    arguments: Term<'a>,
    kwargs: Term<'a>,
) -> NifResult<Term<'a>> {
    weight::run::<SubmitTask>(env, &[event_loop, caller, reference, module, function, arguments, kwargs])
}

struct SubmitTask;

impl Copies for SubmitTask {
    const NAME: &'static CStr = c"submit_task";

    fn run<'a>(env: Env<'a>, args: &[Term<'a>]) -> NifResult<Term<'a>> {
        let &[event_loop, caller, reference, ref terms @ ..] = args else { return Err(Error::BadArg) };
        let reply = (caller.decode()?, reference, Some(atoms::async_result().to_term(env)));
        if let Ok(bare) = event_loop.decode::<ResourceArc<BareLoop>>() {
            return Ok(queue(env, &bare, reply, four(terms)?));
        }
        match loop_of(event_loop) {
            Some(target) => Ok(hand_over(env, reply, None, Op::Task, four(terms)?, &target)),
            None => Ok((atoms::error(), atoms::invalid_loop()).encode(env)),
        }
    }
}

/// Likewise, with `{py_result, Ref, Value}` or `{py_error, Ref, Reason}`.
#[rustler::nif]
#[allow(clippy::too_many_arguments, reason = "as above")]
fn submit_result<'a>(
    env: Env<'a>,
    event_loop: Term<'a>,
    caller: Term<'a>,
    reference: Term<'a>,
    module: Term<'a>,
    function: Term<'a>,
    arguments: Term<'a>,
    kwargs: Term<'a>,
) -> NifResult<Term<'a>> {
    weight::run::<SubmitResult>(env, &[event_loop, caller, reference, module, function, arguments, kwargs])
}

struct SubmitResult;

impl Copies for SubmitResult {
    const NAME: &'static CStr = c"submit_result";

    fn run<'a>(env: Env<'a>, args: &[Term<'a>]) -> NifResult<Term<'a>> {
        let &[event_loop, caller, reference, ref terms @ ..] = args else { return Err(Error::BadArg) };
        let reply = (caller.decode()?, reference, None);
        match loop_of(event_loop) {
            Some(target) => Ok(hand_over(env, reply, Some(Tags::Result), Op::Task, four(terms)?, &target)),
            None => Ok((atoms::error(), atoms::invalid_loop()).encode(env)),
        }
    }
}

/// Module, function, arguments and keyword arguments.
fn four<'a>(terms: &[Term<'a>]) -> NifResult<[Term<'a>; 4]> {
    terms.try_into().map_err(|_| Error::BadArg)
}

/// Queues a task on a loop that has no Python of its own; its owner is sent `{task_ready, Loop}`.
fn queue<'a>(
    env: Env<'a>,
    bare: &ResourceArc<BareLoop>,
    reply: (LocalPid, Term<'a>, Option<Term<'a>>),
    terms: [Term<'a>; 4],
) -> Term<'a> {
    let Some(request) = Request::new(Op::Task, terms, Some(reply), Target::Pool) else {
        return (atoms::error(), atoms::overloaded()).encode(env);
    };
    match bare.push(request) {
        Ok(owner) => {
            if let Some(owner) = owner {
                // One that is gone is not there to take it; the next one is told when it comes.
                let _gone = env.send(&owner, (atoms::task_ready(), bare.clone()));
            }
            atoms::ok().encode(env)
        }
        Err(request) => {
            request.withdraw();
            (atoms::error(), atoms::invalid_loop()).encode(env)
        }
    }
}

fn loop_of(term: Term<'_>) -> Option<Target> {
    term.decode::<ResourceArc<EventLoop>>().ok().map(Target::Loop)
}

/// Makes a request of a task, and hands it over.
fn hand_over<'a>(
    env: Env<'a>,
    reply: (LocalPid, Term<'a>, Option<Term<'a>>),
    split: Option<Tags>,
    op: Op,
    terms: [Term<'a>; 4],
    target: &Target,
) -> Term<'a> {
    let Some(mut request) = Request::new(op, terms, Some(reply), target.clone()) else {
        return (atoms::error(), atoms::overloaded()).encode(env);
    };
    if let Some(tags) = split {
        request.split(tags);
    }
    match target.accept(request) {
        Ok(()) => atoms::ok().encode(env),
        Err(reason) => (atoms::error(), reason).encode(env),
    }
}

/// Calls a function on a context: `{call_result, Id, Value}` or `{call_error, Id, Reason}` is sent to the process that is named.
#[rustler::nif]
fn submit_call<'a>(
    env: Env<'a>,
    to: Term<'a>,
    id: Term<'a>,
    module: Term<'a>,
    function: Term<'a>,
    arguments: Term<'a>,
    kwargs: Term<'a>,
) -> NifResult<Term<'a>> {
    weight::run::<SubmitCall>(env, &[to, id, module, function, arguments, kwargs])
}

struct SubmitCall;

impl Copies for SubmitCall {
    const NAME: &'static CStr = c"submit_call";

    fn run<'a>(env: Env<'a>, args: &[Term<'a>]) -> NifResult<Term<'a>> {
        let &[to, id, ref terms @ ..] = args else { return Err(Error::BadArg) };
        let reply = (to.decode()?, id, None);
        Ok(hand_over(env, reply, Some(Tags::Call), Op::Call, four(terms)?, &Target::Pool))
    }
}

/// Likewise for a coroutine, on the event loop that the process owns, or on another one if it owns none.
#[rustler::nif]
fn submit_coroutine<'a>(
    env: Env<'a>,
    to: Term<'a>,
    id: Term<'a>,
    module: Term<'a>,
    function: Term<'a>,
    arguments: Term<'a>,
    kwargs: Term<'a>,
) -> NifResult<Term<'a>> {
    weight::run::<SubmitCoroutine>(env, &[to, id, module, function, arguments, kwargs])
}

struct SubmitCoroutine;

impl Copies for SubmitCoroutine {
    const NAME: &'static CStr = c"submit_coroutine";

    fn run<'a>(env: Env<'a>, args: &[Term<'a>]) -> NifResult<Term<'a>> {
        let &[to, id, ref terms @ ..] = args else { return Err(Error::BadArg) };
        let owner: LocalPid = to.decode()?;
        let Some(target) = Floor::of(owner).map(Target::Floor) else {
            return Ok((atoms::error(), atoms::not_started()).encode(env));
        };
        Ok(hand_over(env, (owner, id, None), Some(Tags::Call), Op::Task, four(terms)?, &target))
    }
}
