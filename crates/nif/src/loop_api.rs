//! The functions of `py_nif` about event loops. Called on schedulers: none of them attaches to Python or waits.

use rustler::{Atom, Encoder, Env, Error, LocalPid, NifResult, ResourceArc, Term};

use crate::event_loop::EventLoop;
use crate::request::{Op, Request};
use crate::target::Target;
use crate::terms::Saved;
use crate::{atoms, python};

/// A new event loop with a thread of its own, which ends with the calling process. That is sent `{py_loop, Tag, ready}` when the
/// loop is there, and `{py_loop, Tag, ended}` or `{py_loop, Tag, {ended, Text}}` when it is gone.
#[rustler::nif]
fn loop_start<'a>(env: Env<'a>, tag: Term<'a>) -> NifResult<Term<'a>> {
    if python::interpreter().is_none() {
        return Ok((atoms::error(), atoms::not_started()).encode(env));
    }
    let tag = Saved::new(tag).ok_or(Error::BadArg)?;
    let event_loop = match EventLoop::start(env.pid(), tag) {
        Ok(event_loop) => ResourceArc::new(event_loop),
        Err(error) => return Ok((atoms::error(), error.to_string()).encode(env)),
    };
    env.monitor(&event_loop, &env.pid()).ok_or(Error::BadArg)?;
    Ok((atoms::ok(), event_loop).encode(env))
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
    caller: LocalPid,
    reference: Term<'a>,
    module: Term<'a>,
    function: Term<'a>,
    arguments: Term<'a>,
    kwargs: Term<'a>,
) -> Term<'a> {
    let refuse = |reason: Atom| (atoms::error(), reason).encode(env);
    let Ok(event_loop) = event_loop.decode::<ResourceArc<EventLoop>>() else {
        return refuse(atoms::invalid_loop());
    };
    let tag = atoms::async_result().to_term(env);
    let target = Target::Loop(event_loop);
    let reply = Some((caller, reference, Some(tag)));
    let Some(request) = Request::new(Op::Task, [module, function, arguments, kwargs], reply, target.clone())
    else {
        return refuse(atoms::overloaded());
    };
    match target.accept(request) {
        Ok(()) => atoms::ok().encode(env),
        Err(reason) => refuse(reason),
    }
}
