//! The functions of `py_nif`. Called by Erlang processes on schedulers: none of them attaches to Python or waits, except for `start`.

use std::collections::{HashMap, HashSet};
use std::ffi::CStr;
use std::sync::PoisonError;

use rustler::{Atom, Encoder, Env, Error, LocalPid, NifResult, ResourceArc, Term};

use crate::binding::Binding;
use crate::bridge::FUNCTIONS;
use crate::callback::{self, Ticket};
use crate::chain::Continuation;
use crate::context::Context;
use crate::convert::{ATOM_LIMIT, TERM_LIMIT};
use crate::crew::CREW;
use crate::pool::POOL;
use crate::python::{self, Choice};
use crate::stats::STATS;
use crate::stream::Stream;
use crate::table::{self, Id};
use crate::task::Task;
use crate::waiter::{self, Waiter};
use crate::weight::{self, Copies};
use crate::{atoms, errors, jobs, output};

/// Starts Python: its home, the program it stands for, the directory of our packages.
#[rustler::nif(schedule = "DirtyIo")]
fn start(home: String, program: String, packages: String) -> Result<Atom, String> {
    python::start(Choice { home, program, packages }).map(|()| atoms::ok())
}

/// A new context, which ends with the calling process.
#[rustler::nif]
fn context_new(env: Env<'_>) -> NifResult<Term<'_>> {
    if python::main().is_none() {
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
fn task_cancel<'a>(env: Env<'a>, term: Term<'a>) -> bool {
    if let Ok(stream) = term.decode::<ResourceArc<Stream>>() {
        return cancel_stream(env, &stream);
    }
    let Ok(task) = term.decode::<ResourceArc<Task>>() else { return false };
    let won = jobs::stop(task.id());
    if won {
        let answer = task.form().put(term, (atoms::error(), atoms::cancelled()).encode(env));
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

/// The caller of a request waits on, and is told if the context that runs it ends; `closed` if it has.
#[rustler::nif]
fn wait<'a>(env: Env<'a>, id: u64, reference: Term<'a>) -> Term<'a> {
    match waiter::wait(env.pid(), Id::from_word(id), reference) {
        Some(waiter) => waiter.encode(env),
        None => atoms::closed().encode(env),
    }
}

/// It waits no longer.
#[rustler::nif]
fn wait_over(waiter: ResourceArc<Waiter>) -> Atom {
    waiter.over();
    atoms::ok()
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
fn callback_answer<'a>(env: Env<'a>, ticket: Term<'a>, answer: Term<'a>) -> NifResult<Term<'a>> {
    weight::run::<Answer>(env, &[ticket, answer])
}

struct Answer;

impl Copies for Answer {
    const NAME: &'static CStr = c"callback_answer";

    fn run<'a>(env: Env<'a>, args: &[Term<'a>]) -> NifResult<Term<'a>> {
        let &[ticket, answer] = args else { return Err(Error::BadArg) };
        Ok(ticket.decode::<ResourceArc<Ticket>>()?.answer(answer).encode(env))
    }
}

/// The calling process runs the function of a chain: its death is an answer.
#[rustler::nif]
fn schedule_begin(env: Env<'_>, continuation: ResourceArc<Continuation>) -> bool {
    env.monitor(&continuation, &env.pid()).is_some()
}

/// The answer to a chain. False for a cast: nobody will ever see it.
#[rustler::nif]
fn schedule_answer<'a>(env: Env<'a>, continuation: Term<'a>, answer: Term<'a>) -> NifResult<Term<'a>> {
    weight::run::<ScheduleAnswer>(env, &[continuation, answer])
}

struct ScheduleAnswer;

impl Copies for ScheduleAnswer {
    const NAME: &'static CStr = c"schedule_answer";

    fn run<'a>(env: Env<'a>, args: &[Term<'a>]) -> NifResult<Term<'a>> {
        let &[continuation, answer] = args else { return Err(Error::BadArg) };
        Ok(continuation.decode::<ResourceArc<Continuation>>()?.answer(env, answer).encode(env))
    }
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

/// How many bytes one object of Python's may become.
#[rustler::nif]
fn term_limit(limit: usize) -> Atom {
    TERM_LIMIT.store(limit, std::sync::atomic::Ordering::Relaxed);
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
        (atoms::loop_threads(), CREW.threads() as u64),
        (atoms::slots(), table::window() as u64),
    ]);
    all.extend(STATS.all());
    all
}
