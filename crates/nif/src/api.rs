//! The functions of `py_nif`. Called by Erlang processes on schedulers: none of them attaches to Python or waits, except for `start`.

use std::collections::{HashMap, HashSet};
use std::sync::PoisonError;

use rustler::{Atom, Encoder, Env, Error, LocalPid, NifResult, ResourceArc, Term};

use crate::binding::Binding;
use crate::bridge::{ATOM_LIMIT, FUNCTIONS};
use crate::callback::{self, Ticket};
use crate::chain::Continuation;
use crate::context::Context;
use crate::pool::POOL;
use crate::python::{self, Choice};
use crate::request::{Op, Piece, Request};
use crate::stats::STATS;
use crate::stream::{Flow, Stream};
use crate::table::{self, Id};
use crate::target::Target;
use crate::task::Task;
use crate::{atoms, errors, jobs, output};

/// Starts Python: its home, the program it stands for, the directory of our packages.
#[rustler::nif(schedule = "DirtyIo")]
fn start(home: String, program: String, packages: String) -> Result<Atom, String> {
    python::start(Choice { home, program, packages }).map(|()| atoms::ok())
}

/// A new context, which ends with the calling process.
#[rustler::nif]
fn context_new(env: Env<'_>) -> NifResult<Term<'_>> {
    if python::interpreter().is_none() {
        return Ok((atoms::error(), atoms::not_started()).encode(env));
    }
    let context = match Context::start() {
        Ok(context) => ResourceArc::new(context),
        Err(error) => return Ok((atoms::error(), error.to_string()).encode(env)),
    };
    env.monitor(&context, &env.pid()).ok_or(Error::BadArg)?;
    Ok((atoms::ok(), context).encode(env))
}

/// Ends a context after the request that is running.
#[rustler::nif]
fn context_close(context: ResourceArc<Context>) -> Atom {
    context.close();
    atoms::ok()
}

/// Takes a context out of the pool, for as long as the owner lives: only requests addressed to it run there. False if it is not
/// free, `noproc` if the owner is gone.
#[rustler::nif]
fn context_bind(env: Env<'_>, context: ResourceArc<Context>, owner: LocalPid, busy: bool) -> Term<'_> {
    let Some(binding) = Binding::new(&context.seat, busy) else { return false.encode(env) };
    if env.monitor(&binding, &owner).is_none() {
        binding.release();
        return atoms::noproc().encode(env);
    }
    binding.encode(env)
}

/// Gives it back to the pool. False if it was.
#[rustler::nif]
fn context_unbind(binding: ResourceArc<Binding>) -> bool {
    binding.release()
}

/// Whether requests may be sent to it.
#[rustler::nif]
fn context_is_bound(binding: ResourceArc<Binding>) -> bool {
    binding.is_open()
}

fn op(term: Term<'_>) -> NifResult<Op> {
    let known = [
        (atoms::call(), Op::Call),
        (atoms::call_ref(), Op::CallRef),
        (atoms::eval(), Op::Eval),
        (atoms::exec(), Op::Exec),
        (atoms::collect(), Op::Collect),
        (atoms::collect_eval(), Op::CollectEval),
        (atoms::task(), Op::Task),
        (atoms::drain(), Op::Drain),
    ];
    known.into_iter().find(|(name, _)| *name == term).map(|(_, op)| op).ok_or(Error::BadArg)
}

/// Hands a request over: `{Ref, Result}` or `{Tag, Ref, Result}` will be sent to the caller. Its id, or an error.
#[rustler::nif]
#[allow(clippy::too_many_arguments, reason = "no tuple is made for each call")]
fn submit<'a>(
    env: Env<'a>,
    target: Term<'a>,
    reference: Term<'a>,
    tag: Term<'a>,
    operation: Term<'a>,
    first: Term<'a>,
    second: Term<'a>,
    third: Term<'a>,
    fourth: Term<'a>,
) -> NifResult<Term<'a>> {
    let target = Target::decode(target)?;
    let tag = (atoms::undefined() != tag).then_some(tag);
    let reply = (atoms::undefined() != reference).then(|| (env.pid(), reference, tag));
    let request = Request::new(op(operation)?, [first, second, third, fourth], reply, target.clone());
    let Some(request) = request else { return Ok((atoms::error(), atoms::overloaded()).encode(env)) };
    let id = request.id().map_or(0, Id::word);
    match target.accept(request) {
        Ok(()) => Ok(id.encode(env)),
        Err(reason) => Ok((atoms::error(), reason).encode(env)),
    }
}

/// Hands a task over: `{Tag, Task, Result}` will be sent to the caller. The task, or an error.
#[rustler::nif]
#[allow(clippy::too_many_arguments, reason = "no tuple is made for each call")]
fn task_start<'a>(
    env: Env<'a>,
    target: Term<'a>,
    tag: Atom,
    operation: Term<'a>,
    first: Term<'a>,
    second: Term<'a>,
    third: Term<'a>,
    fourth: Term<'a>,
) -> NifResult<Term<'a>> {
    let target = Target::decode(target)?;
    let task = ResourceArc::new(Task::new(env.pid(), tag));
    let reference = task.encode(env);
    let reply = Some((env.pid(), reference, Some(tag.to_term(env))));
    let request = Request::new(op(operation)?, [first, second, third, fourth], reply, target.clone());
    let Some(request) = request else { return Ok((atoms::error(), atoms::overloaded()).encode(env)) };
    if let Some(id) = request.id() {
        task.name(id);
    }
    match target.accept(request) {
        Ok(()) => Ok(reference),
        Err(reason) => Ok((atoms::error(), reason).encode(env)),
    }
}

/// Hands a stream over: `{py_stream, Stream, _}` will be sent to the owner, until that dies, and not more than `credit` values
/// that it has not asked for. The stream, or an error.
#[rustler::nif]
#[allow(clippy::too_many_arguments, reason = "no tuple is made for each call")]
fn stream_start<'a>(
    env: Env<'a>,
    target: Term<'a>,
    owner: LocalPid,
    credit: Term<'a>,
    operation: Term<'a>,
    first: Term<'a>,
    second: Term<'a>,
    third: Term<'a>,
    fourth: Term<'a>,
) -> NifResult<Term<'a>> {
    let target = Target::decode(target)?;
    let credit = if atoms::infinity() == credit { None } else { Some(credit.decode()?) };
    let stream = ResourceArc::new(Stream::new(owner, credit));
    let reference = stream.encode(env);
    let tag = atoms::py_stream().to_term(env);
    let reply = Some((owner, reference, Some(tag)));
    let request = Request::new(op(operation)?, [first, second, third, fourth], reply, target.clone());
    let Some(mut request) = request else { return Ok((atoms::error(), atoms::overloaded()).encode(env)) };
    if let Some(id) = request.id() {
        stream.name(id);
    }
    request.piece = Some(Box::new(Piece::Flow(Flow::new(stream.clone()))));
    if env.monitor(&stream, &owner).is_none() {
        request.withdraw();
        return Ok((atoms::error(), atoms::noproc()).encode(env));
    }
    match target.accept(request) {
        Ok(()) => Ok((atoms::ok(), reference).encode(env)),
        Err(reason) => Ok((atoms::error(), reason).encode(env)),
    }
}

/// The consumer of a stream wants this many more.
#[rustler::nif]
fn stream_ack(stream: ResourceArc<Stream>, more: u64) -> Atom {
    stream.ack(more);
    atoms::ok()
}

/// Ends a stream; its consumer is told so. False if it was over.
#[rustler::nif]
fn stream_cancel(env: Env<'_>, stream: ResourceArc<Stream>) -> bool {
    cancel_stream(env, &stream)
}

fn cancel_stream(env: Env<'_>, stream: &ResourceArc<Stream>) -> bool {
    stream.cancel(|| {
        let end = (atoms::py_stream(), stream, (atoms::error(), atoms::cancelled()));
        // A consumer that is gone needs no answer.
        let _gone = env.send(&stream.owner(), end);
    })
}

/// Cancels a task, which is answered with `{error, cancelled}`. False if it was over.
#[rustler::nif]
fn task_cancel(env: Env<'_>, term: Term<'_>) -> bool {
    if let Ok(stream) = term.decode::<ResourceArc<Stream>>() {
        return cancel_stream(env, &stream);
    }
    let Ok(task) = term.decode::<ResourceArc<Task>>() else { return false };
    let won = jobs::stop(task.id());
    if won {
        let answer = (task.tag(), task.clone(), (atoms::error(), atoms::cancelled()));
        // An owner that is gone needs no answer.
        let _gone = env.send(&task.owner(), answer);
    }
    won
}

/// Cancels a task without an answer. False if it was over.
#[rustler::nif]
fn task_forget(term: Term<'_>) -> bool {
    term.decode::<ResourceArc<Task>>().is_ok_and(|task| jobs::stop(task.id()))
}

/// Takes a request back. True if no answer will ever come.
#[rustler::nif]
fn cancel(id: u64) -> bool {
    jobs::stop(Id::from_word(id))
}

/// Has the code of a task interrupted; its owner is told so. False if it was over.
#[rustler::nif]
fn task_interrupt(term: Term<'_>) -> bool {
    let Ok(task) = term.decode::<ResourceArc<Task>>() else { return false };
    let live = table::is_live(task.id());
    if live {
        jobs::interrupt(task.id());
    }
    live
}

/// The calling process is the one that starts callbacks.
#[rustler::nif]
fn callback_dispatcher(env: Env<'_>) -> Atom {
    callback::set_dispatcher(env.pid());
    atoms::ok()
}

/// The calling process runs a callback: its death is an answer.
#[rustler::nif]
fn callback_begin(env: Env<'_>, ticket: ResourceArc<Ticket>) -> bool {
    env.monitor(&ticket, &env.pid()).is_some()
}

/// The answer of a callback. False if nobody waits for it.
#[rustler::nif]
fn callback_answer(ticket: ResourceArc<Ticket>, answer: Term<'_>) -> bool {
    ticket.answer(answer)
}

/// The calling process runs the function of a chain: its death is an answer.
#[rustler::nif]
fn schedule_begin(env: Env<'_>, continuation: ResourceArc<Continuation>) -> bool {
    env.monitor(&continuation, &env.pid()).is_some()
}

/// The answer to a chain. False for a cast: nobody will ever see it.
#[rustler::nif]
fn schedule_answer(env: Env<'_>, continuation: ResourceArc<Continuation>, answer: Term<'_>) -> bool {
    continuation.answer(env, answer)
}

/// Has a chain go on in Python.
#[rustler::nif]
fn schedule_continue(continuation: ResourceArc<Continuation>) -> Atom {
    continuation.resume();
    atoms::ok()
}

/// What Python printed or logged was dealt with: so many bytes, so many events.
#[rustler::nif]
fn caught_up(what: Atom, amount: usize) -> NifResult<Atom> {
    if what == atoms::output() {
        output::caught_up(&output::BYTES_AHEAD, amount);
    } else if what == atoms::log() {
        output::caught_up(&output::EVENTS_AHEAD, amount);
    } else {
        return Err(Error::BadArg);
    }
    Ok(atoms::ok())
}

/// The names that Python may call.
#[rustler::nif]
fn callback_names(names: Vec<String>) -> Atom {
    let names: HashSet<String> = names.into_iter().collect();
    *FUNCTIONS.write().unwrap_or_else(PoisonError::into_inner) = Some(names);
    atoms::ok()
}

/// How many atoms Python may make.
#[rustler::nif]
fn atom_limit(limit: usize) -> Atom {
    ATOM_LIMIT.store(limit, std::sync::atomic::Ordering::Relaxed);
    atoms::ok()
}

/// The traceback that belongs to an exception's class and text.
#[rustler::nif]
fn traceback<'a>(env: Env<'a>, class: String, text: String) -> Term<'a> {
    match errors::traceback(&class, &text) {
        Some(text) => text.encode(env),
        None => atoms::undefined().encode(env),
    }
}

/// The counters.
#[rustler::nif]
fn stats() -> HashMap<Atom, u64> {
    let counts = POOL.counts();
    let mut all = HashMap::from([
        (atoms::contexts(), counts.contexts as u64),
        (atoms::idle(), counts.idle as u64),
        (atoms::awake(), counts.awake as u64),
        (atoms::bound(), counts.bound as u64),
        (atoms::queued(), counts.queued as u64),
        (atoms::waiting_tasks(), jobs::count() as u64),
    ]);
    all.extend(STATS.all());
    all
}
