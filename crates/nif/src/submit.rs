//! The functions of `py_nif` that hand requests over. Called by Erlang processes on schedulers, dirty ones if there is much to copy.

use std::ffi::CStr;

use rustler::{Atom, Encoder, Env, Error, LocalPid, NifResult, ResourceArc, Term};

use crate::atoms;
use crate::desk;
use crate::request::{Op, Piece, Request};
use crate::small::Small;
use crate::stream::{Flow, Stream};
use crate::table::Id;
use crate::target::Target;
use crate::task::Task;
use crate::weight::{self, Copies};

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

/// Hands a request over: `{Ref, Result}` or `{Tag, Ref, Result}` will be sent to the caller. Its id, or an error. With
/// the negative of its id the caller is to look for the answer first.
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
    weight::run::<Submit>(env, &[target, reference, tag, operation, first, second, third, fourth])
}

struct Submit;

impl Copies for Submit {
    const NAME: &'static CStr = c"submit";

    fn run<'a>(env: Env<'a>, args: &[Term<'a>]) -> NifResult<Term<'a>> {
        let &[target, reference, tag, operation, first, second, third, fourth] = args else {
            return Err(Error::BadArg);
        };
        let target = Target::decode(target)?;
        let tag = (atoms::undefined() != tag).then_some(tag);
        let reply = (atoms::undefined() != reference).then(|| (env.pid(), reference, tag));
        let op = op(operation)?;
        let watched = reply.is_some() && tag.is_none() && target.is_quick() && desk::is_promising();
        let make = if watched { Request::watched } else { Request::new };
        let request = make(op, [first, second, third, fourth], reply, target.clone());
        let Some(request) = request else { return Ok((atoms::error(), atoms::overloaded()).encode(env)) };
        let id = request.id().map_or(0, Id::word).cast_signed();
        match target.accept(request) {
            Ok(()) => Ok(if watched { -id } else { id }.encode(env)),
            Err(reason) => Ok((atoms::error(), reason).encode(env)),
        }
    }
}

/// Looks for the answer of a request that was handed over by this process, at its first, second, ... turn.
#[rustler::nif]
fn look(env: Env<'_>, id: u64, turn: u32) -> Term<'_> {
    match desk::look(env, Id::from_word(id), turn) {
        Ok(value) => (atoms::ok(), value).encode(env),
        Err(true) => atoms::again().encode(env),
        Err(false) => atoms::sent().encode(env),
    }
}

/// Hands a task over: `{Tag, Task, Result}` will be sent to the caller. The task, or an error.
#[rustler::nif]
#[allow(clippy::too_many_arguments, reason = "no tuple is made for each call")]
fn task_start<'a>(
    env: Env<'a>,
    target: Term<'a>,
    tag: Term<'a>,
    operation: Term<'a>,
    first: Term<'a>,
    second: Term<'a>,
    third: Term<'a>,
    fourth: Term<'a>,
) -> NifResult<Term<'a>> {
    weight::run::<TaskStart>(env, &[target, tag, operation, first, second, third, fourth])
}

struct TaskStart;

impl Copies for TaskStart {
    const NAME: &'static CStr = c"task_start";

    fn run<'a>(env: Env<'a>, args: &[Term<'a>]) -> NifResult<Term<'a>> {
        let &[target, tag, operation, first, second, third, fourth] = args else { return Err(Error::BadArg) };
        let target = Target::decode(target)?;
        let tag: Atom = tag.decode()?;
        let task = ResourceArc::new(Task::new(env.pid(), tag));
        let reference = task.encode(env);
        let (op, terms) = (op(operation)?, [first, second, third, fourth]);
        let request = match Small::of(op, terms) {
            Some(small) => Request::of_small(op, small, task, target.clone()),
            None => {
                let reply = Some((env.pid(), reference, None));
                let request = Request::new(op, terms, reply, target.clone());
                request.map(|mut request| {
                    request.belong_to(&task);
                    request
                })
            }
        };
        let Some(request) = request else { return Ok((atoms::error(), atoms::overloaded()).encode(env)) };
        match target.accept(request) {
            Ok(()) => Ok(reference),
            Err(reason) => Ok((atoms::error(), reason).encode(env)),
        }
    }
}

/// Hands a stream over: `{py_stream, Stream, _}` will be sent to the owner, until that dies, and not more than `credit` values
/// that it has not asked for. The stream, or an error.
#[rustler::nif]
#[allow(clippy::too_many_arguments, reason = "no tuple is made for each call")]
fn stream_start<'a>(
    env: Env<'a>,
    target: Term<'a>,
    owner: Term<'a>,
    credit: Term<'a>,
    operation: Term<'a>,
    first: Term<'a>,
    second: Term<'a>,
    third: Term<'a>,
    fourth: Term<'a>,
) -> NifResult<Term<'a>> {
    weight::run::<StreamStart>(env, &[target, owner, credit, operation, first, second, third, fourth])
}

struct StreamStart;

impl Copies for StreamStart {
    const NAME: &'static CStr = c"stream_start";

    fn run<'a>(env: Env<'a>, args: &[Term<'a>]) -> NifResult<Term<'a>> {
        let &[target, owner, credit, operation, first, second, third, fourth] = args else {
            return Err(Error::BadArg);
        };
        let target = Target::decode(target)?;
        let owner: LocalPid = owner.decode()?;
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
}
