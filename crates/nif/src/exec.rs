//! Performing one request: finding the function, calling it, and what becomes of its result or exception. Attached threads only.

use std::ffi::CString;
use std::sync::atomic::Ordering;

use pyrt::{Attached, Borrowed, Fault, Obj, Owned, PyResult, Raised, Source, compile, import_name, imported};
use rustler::{Encoder, Env, ResourceArc, Term};

use crate::bridge::Bridge;
use crate::chain::{self, Next};
use crate::convert::{Leaf, Refused, to_python, to_term};
use crate::objects::Kept;
use crate::request::{Op, Piece, Request};
use crate::runner::Runner;
use crate::stats::STATS;
use crate::tray::Reply;
use crate::waiter::Known;
use crate::{atoms, errors, output, slice, spare, stream, tray, watch};

/// Why there is no result.
pub(crate) enum Failure<'a> {
    Raised(Raised),
    Refused(Refused<'a>),
    /// A keyword that is no identifier, or what is no map of keywords.
    BadKeyword(Term<'a>),
    /// Arguments that are no proper list.
    Improper(Term<'a>),
}

impl From<Raised> for Failure<'_> {
    fn from(raised: Raised) -> Self {
        Self::Raised(raised)
    }
}

impl<'a> From<Refused<'a>> for Failure<'a> {
    fn from(refused: Refused<'a>) -> Self {
        Self::Refused(refused)
    }
}

/// Runs a request on this thread and answers it.
pub(crate) fn perform(
    py: Attached<'_>,
    bridge: &Bridge,
    runner: &Runner,
    namespace: &Obj,
    mut request: Request,
) {
    if matches!(request.piece.as_deref(), Some(Piece::Flow(_))) {
        return stream::perform(py, bridge, runner, namespace, request);
    }
    runner.enter(request.id().zip(request.caller()), request.task().map(Known::Task));
    if !request.is_wanted() {
        STATS.skipped.fetch_add(1, Ordering::Relaxed);
        runner.leave(py);
        return;
    }
    STATS.started.fetch_add(1, Ordering::SeqCst);
    watch::notice();
    let outer = slice::begin();
    let mut outcome = first(py, bridge, namespace, &mut request);
    if matches!(request.op, Op::Task | Op::Drain) {
        // No loop runs here, so one is run for it.
        outcome = outcome.and_then(|value| run_awaited(py, bridge, value));
    }
    let next = chain::follow(py, bridge, namespace, &mut request, outcome);
    slice::end(outer);
    output::end(py, bridge, request.id().is_some());
    conclude(py, bridge, runner, request, next);
}

/// What comes of awaiting a value, if that can be.
fn run_awaited(py: Attached<'_>, bridge: &Bridge, value: Owned) -> Result<Owned, Reason> {
    let awaited = match value.awaited(py) {
        Ok(Some(_)) => bridge.run_awaitable.get(py).and_then(|run| run.call1(py, &value)),
        Ok(None) => Ok(value),
        Err(raised) => Err(raised),
    };
    awaited.map_err(|raised| Reason::raised(py, bridge, raised))
}

/// The first step of a request, or the next one of a chain.
pub(crate) fn first(
    py: Attached<'_>,
    bridge: &Bridge,
    namespace: &Obj,
    request: &mut Request,
) -> Result<Owned, Reason> {
    match request.piece.take().map(|piece| *piece) {
        Some(Piece::Next(next)) => match next.into_owned(py) {
            Ok(next) => match bridge.as_marker(next.borrow()) {
                Some(marker) => chain::step(py, bridge, namespace, marker.payload()),
                None => Ok(next),
            },
            Err(_) => Err(Reason::NoMemory),
        },
        _ => value(py, bridge, namespace, request),
    }
}

/// A request leaves this thread: answered, or on its way to its next step.
pub(crate) fn conclude(py: Attached<'_>, bridge: &Bridge, runner: &Runner, request: Request, next: Next) {
    let outcome = match next {
        Next::Answer(outcome) => outcome,
        next => {
            // It is not this thread's any more once others may have it.
            runner.leave(py);
            return chain::hand_over(py, bridge, request, next);
        }
    };
    answer_by(py, bridge, request, outcome, |reply| runner.tray.put(reply));
    runner.leave(py);
}

/// Answers a request; one that nobody waits for has its exceptions reported.
pub(crate) fn answer(py: Attached<'_>, bridge: &Bridge, request: Request, outcome: Result<Owned, Reason>) {
    answer_by(py, bridge, request, outcome, |reply| {
        tray::clear();
        drop(reply);
    });
}

/// Likewise, with a say in when a small answer is sent.
fn answer_by(
    py: Attached<'_>,
    bridge: &Bridge,
    request: Request,
    outcome: Result<Owned, Reason>,
    send: impl FnOnce(Reply),
) {
    let by_reference = request.op == Op::CallRef;
    if let (Err(Reason::Exception(thrown)), true) = (&outcome, request.id().is_none()) {
        thrown.report(py);
    }
    let request = match &outcome {
        Ok(value) if !by_reference && request.is_watched() => match Leaf::of(py, value) {
            Some(leaf) => match request.leave_answer(leaf) {
                Ok(()) => return,
                Err(request) => request,
            },
            None => request,
        },
        Ok(value) if request.small().is_some() => match Leaf::of(py, value) {
            Some(leaf) => match request.into_reply(leaf) {
                Ok(reply) => return send(reply),
                Err(request) => request,
            },
            None => request,
        },
        _ => request,
    };
    request.answer(|env| match outcome {
        Ok(value) if by_reference => match Kept::new(py, &bridge.home, value) {
            Some(kept) => (atoms::ok(), ResourceArc::new(kept)).encode(env),
            None => (atoms::error(), atoms::dropped()).encode(env),
        },
        Ok(value) => match to_term(py, bridge, env, &value) {
            Ok(term) => (atoms::ok(), term).encode(env),
            Err(refused) => {
                let reason = match refused.reason(env) {
                    Ok(reason) => reason,
                    Err(raised) => errors::Thrown::new(py, bridge, raised).reason(env),
                };
                (atoms::error(), reason).encode(env)
            }
        },
        Err(reason) => (atoms::error(), reason.term(env)).encode(env),
    });
}

/// What a request comes to. The reason is made before the answer's environment is handed over, which the terms of the request live
/// in as well.
pub(crate) fn value(
    py: Attached<'_>,
    bridge: &Bridge,
    namespace: &Obj,
    request: &Request,
) -> Result<Owned, Reason> {
    if let Some(small) = request.small() {
        let found = spare::lend(|mail| {
            let [module, function] = small.names(mail.env());
            let function = find(py, bridge, namespace, module, function)?;
            Ok((function, small.arguments(py, bridge, mail.env())?))
        });
        let called = found.ok_or(Reason::NoMemory)?.and_then(|(function, args)| args.call(py, &function));
        return called.map_err(|raised| Reason::raised(py, bridge, raised));
    }
    let Some(terms) = request.terms() else { return Err(Reason::NoMemory) };
    run(py, bridge, namespace, request.op, terms).map_err(|failure| Reason::of(py, bridge, failure))
}

/// A reason outside of any environment.
pub(crate) enum Reason {
    Exception(errors::Thrown),
    Term(crate::terms::Saved),
    /// One of our own words.
    Word(rustler::Atom),
    NoMemory,
}

impl Reason {
    /// The reason for a failure, whose terms may end with their environment.
    pub(crate) fn of(py: Attached<'_>, bridge: &Bridge, failure: Failure<'_>) -> Self {
        match failure {
            Failure::Raised(raised) => Self::raised(py, bridge, raised),
            Failure::Refused(refused) => keep(py, bridge, |env| refused.reason(env)),
            Failure::BadKeyword(key) => {
                keep(py, bridge, |env| Ok((atoms::bad_keyword(), key.in_env(env)).encode(env)))
            }
            Failure::Improper(args) => {
                keep(py, bridge, |env| Ok((atoms::improper_list(), args.in_env(env)).encode(env)))
            }
        }
    }

    /// An exception.
    pub(crate) fn raised(py: Attached<'_>, bridge: &Bridge, raised: Raised) -> Self {
        Self::Exception(errors::Thrown::new(py, bridge, raised))
    }

    pub(crate) fn term<'a>(&self, env: Env<'a>) -> Term<'a> {
        match self {
            Self::Exception(thrown) => thrown.reason(env),
            Self::Term(saved) => saved.term(env),
            Self::Word(atom) => atom.encode(env),
            Self::NoMemory => atoms::dropped().encode(env),
        }
    }
}

/// A reason kept in an environment of its own.
pub(crate) fn keep(
    py: Attached<'_>,
    bridge: &Bridge,
    reason: impl for<'b> FnOnce(Env<'b>) -> Result<Term<'b>, Raised>,
) -> Reason {
    let Some(mail) = crate::beam::Mail::new() else { return Reason::NoMemory };
    match reason(mail.env()) {
        Ok(term) => crate::terms::Saved::new(term).map_or(Reason::NoMemory, Reason::Term),
        Err(raised) => Reason::raised(py, bridge, raised),
    }
}

/// What `eval` sees on a thread: the namespace of its context, or that of `__main__`.
pub(crate) fn namespace(py: Attached<'_>, bridge: &Bridge, runner: &Runner) -> PyResult<Owned> {
    match runner.namespace(py) {
        Some(namespace) => Ok(namespace),
        None => bridge.main.get(py),
    }
}

fn run<'a>(
    py: Attached<'_>,
    bridge: &Bridge,
    namespace: &Obj,
    op: Op,
    terms: [Term<'a>; 4],
) -> Result<Owned, Failure<'a>> {
    let [first, second, args, kwargs] = terms;
    match op {
        Op::Call | Op::CallRef | Op::Task => {
            let function = find(py, bridge, namespace, first, second)?;
            call(py, bridge, &function, args, kwargs)
        }
        Op::Collect => collect(py, bridge, run(py, bridge, namespace, Op::Call, terms)?),
        // A coroutine, for the loop that runs the request.
        Op::Drain => Ok(bridge.drain.get(py)?.call1(py, &run(py, bridge, namespace, Op::Call, terms)?)?),
        Op::CollectEval => collect(py, bridge, run(py, bridge, namespace, Op::Eval, terms)?),
        Op::Eval => {
            let code = code(py, first, Source::Expression)?;
            if second.map_size().unwrap_or(0) == 0 {
                return Ok(code.run_code(py, namespace, namespace)?);
            }
            // One dict for both: functions and comprehensions of the expression see globals only.
            let scope = namespace.getattr_str(py, c"copy")?.call0(py)?;
            let locals = to_python(py, bridge, second)?;
            scope.getattr_str(py, c"update")?.call1(py, &locals)?;
            Ok(code.run_code(py, &scope, &scope)?)
        }
        Op::Exec => {
            let code = code(py, first, Source::Statements)?;
            Ok(code.run_code(py, namespace, namespace)?)
        }
    }
}

fn collect<'a>(py: Attached<'_>, bridge: &Bridge, source: Owned) -> Result<Owned, Failure<'a>> {
    Ok(bridge.collect.get(py)?.call1(py, &source)?)
}

fn code(py: Attached<'_>, term: Term<'_>, source: Source) -> PyResult<Owned> {
    let text: &str = match term.decode() {
        Ok(text) => text,
        Err(_) => return Err(Fault::value_error("source code is to be UTF-8").raise(py)),
    };
    let text = match source {
        // `eval` allows for leading space.
        Source::Expression => text.trim_start_matches([' ', '\t', '\n', '\r']),
        Source::Statements => text,
    };
    let text = CString::new(text).map_err(|_| Fault::value_error("source code with a NUL").raise(py))?;
    compile(py, &text, c"<erlang>", source)
}

/// The text of a name: atoms by way of the cache.
fn name(py: Attached<'_>, bridge: &Bridge, term: Term<'_>) -> PyResult<Owned> {
    if term.is_atom() {
        return bridge.name(py, term);
    }
    match term.decode::<&str>() {
        Ok(text) => Owned::str(py, text),
        Err(_) => Err(Fault::value_error("a name is to be UTF-8").raise(py)),
    }
}

fn find(
    py: Attached<'_>,
    bridge: &Bridge,
    namespace: &Obj,
    module: Term<'_>,
    function: Term<'_>,
) -> PyResult<Owned> {
    let module = name(py, bridge, module)?;
    let function = name(py, bridge, function)?;
    find_in(py, namespace, namespace, &module, &function)
}

/// A function of a module, both named by a `str`. `__main__` is looked for in two namespaces and then as a module.
pub(crate) fn find_in(
    py: Attached<'_>,
    first: &Obj,
    second: &Obj,
    module: &Obj,
    function: &Obj,
) -> PyResult<Owned> {
    let mut path = function.to_str(py)?.split('.').peekable();
    let plain = !function.to_str(py)?.contains('.');
    if module.to_str(py)? == "__main__" {
        let head = Owned::str(py, path.next().unwrap_or_default())?;
        let found = match first.dict_get(py, &head)? {
            None if !first.is(second) => second.dict_get(py, &head)?,
            found => found,
        };
        if let Some(mut found) = found {
            for step in path {
                found = found.getattr(py, &Owned::str(py, step)?)?;
            }
            return Ok(found);
        }
    }
    let module = match imported(py, module)? {
        Some(module) => module,
        None => import_name(py, module)?,
    };
    if plain {
        let in_its_own = !function.to_str(py)?.starts_with("__");
        if in_its_own && let Some(found) = module.module_get(py, function)? {
            return Ok(found);
        }
        return module.getattr(py, function);
    }
    let mut found = module;
    for step in function.to_str(py)?.split('.') {
        found = found.getattr(py, &Owned::str(py, step)?)?;
    }
    Ok(found)
}

fn call<'a>(
    py: Attached<'_>,
    bridge: &Bridge,
    function: &Obj,
    args: Term<'a>,
    kwargs: Term<'a>,
) -> Result<Owned, Failure<'a>> {
    let mut values = Vec::new();
    let mut rest = args;
    while let Ok((head, tail)) = rest.list_get_cell() {
        values.push(to_python(py, bridge, head)?);
        rest = tail;
    }
    if !rest.is_empty_list() {
        return Err(Failure::Improper(args));
    }
    match kwargs.map_size() {
        Ok(0) => return Ok(function.call_slice(py, Borrowed::slice(&values))?),
        Ok(_) => {}
        Err(_) => return Err(Failure::BadKeyword(kwargs)),
    }
    let mut names = Vec::new();
    for (key, value) in rustler::MapIterator::new(kwargs).into_iter().flatten() {
        let Ok(name) = name(py, bridge, key).map_err(|raised| raised.clear(py)) else {
            return Err(Failure::BadKeyword(key));
        };
        if !name.getattr_str(py, c"isidentifier")?.call0(py)?.is_true(py)? {
            return Err(Failure::BadKeyword(key));
        }
        for other in &names {
            if name.equals(py, other)? {
                return Err(Refused::Collision(key).into());
            }
        }
        names.push(name);
        values.push(to_python(py, bridge, value)?);
    }
    let names = Owned::tuple_of(py, Borrowed::slice(&names))?;
    Ok(function.call_names(py, Borrowed::slice(&values), &names)?)
}
