//! The functions of `py_nif` behind `py_dag`. On dirty schedulers where there is much to copy or to check.

use std::time::Duration;

use dag::Mode;
use rustler::{Atom, Encoder, Env, LocalPid, NifResult, ResourceArc, Term};

use crate::atoms;
use crate::graphs::{self, Errand, Options, PlanRef, RunRef};
use crate::terms::Saved;

/// The calling process starts the processes of Erlang functions from now on.
#[rustler::nif]
fn graph_host(env: Env<'_>) -> Atom {
    graphs::set_host(env.pid());
    atoms::ok()
}

/// Checks a graph: `{ok, Plan}`, or an error that names the node.
#[rustler::nif(schedule = "DirtyCpu")]
fn graph_compile<'a>(
    env: Env<'a>,
    nodes: Vec<Term<'a>>,
    regions: Vec<u64>,
    limits: Vec<usize>,
    servers: Vec<Term<'a>>,
) -> Term<'a> {
    match PlanRef::compile(env, nodes, regions, limits, servers) {
        Ok(plan) => (atoms::ok(), ResourceArc::new(plan)).encode(env),
        Err(refusal) => (atoms::error(), refusal).encode(env),
    }
}

/// Starts a run: `{py_dag, Run, {done, Result}}` will be sent to `owner`.
#[rustler::nif(schedule = "DirtyCpu")]
#[allow(clippy::too_many_arguments, reason = "as Erlang names them")]
fn graph_start<'a>(
    env: Env<'a>,
    plan: ResourceArc<PlanRef>,
    given: Vec<(String, Term<'a>)>,
    owner: LocalPid,
    deadline: Term<'a>,
    mode: Atom,
    outputs: Term<'a>,
    tells: bool,
    records: bool,
) -> NifResult<Term<'a>> {
    let deadline =
        if atoms::infinity() == deadline { None } else { Some(Duration::from_millis(deadline.decode()?)) };
    let mode = [(atoms::drain(), Mode::Drain), (atoms::collect(), Mode::Collect)]
        .into_iter()
        .find(|(name, _)| *name == mode)
        .map_or(Mode::FailFast, |(_, mode)| mode);
    let outputs = if atoms::all() == outputs { None } else { Some(outputs.decode()?) };
    let options = Options { owner, deadline, mode, outputs, tells, records };
    Ok(match RunRef::start(env, plan, given, options) {
        Ok(run) => (atoms::ok(), run).encode(env),
        Err(refusal) => (atoms::error(), refusal).encode(env),
    })
}

/// Cancels a run; the reason `cancelled` is none. Whether that ended it.
#[rustler::nif(schedule = "DirtyCpu")]
fn graph_cancel(run: ResourceArc<RunRef>, reason: Term<'_>) -> bool {
    run.cancel(if atoms::cancelled() == reason { None } else { Saved::new(reason) })
}

/// What the calling process has to expect of a run: `running`, `done`, or `not_owner`.
#[rustler::nif]
fn graph_state(env: Env<'_>, run: ResourceArc<RunRef>) -> Atom {
    run.state(env.pid())
}

/// A plan for Graphviz.
#[rustler::nif(schedule = "DirtyCpu")]
fn graph_dot(plan: ResourceArc<PlanRef>) -> String {
    graphs::dot(&plan)
}

/// What happened in a run, as Chrome's trace or as a timeline; `undefined` if it was not written down.
#[rustler::nif(schedule = "DirtyCpu")]
fn graph_picture<'a>(env: Env<'a>, run: ResourceArc<RunRef>, kind: Atom) -> Term<'a> {
    let picture = if kind == atoms::svg() { run.timeline() } else { run.trace() };
    picture.map_or_else(|| atoms::undefined().encode(env), |picture| picture.encode(env))
}

/// The calling process does an errand. False if nobody wants it any more.
#[rustler::nif]
fn graph_begin(env: Env<'_>, errand: ResourceArc<Errand>) -> bool {
    Errand::begin(&errand, env)
}

/// The result of an errand. False if nobody wants it.
#[rustler::nif(schedule = "DirtyCpu")]
fn graph_answer<'a>(errand: ResourceArc<Errand>, result: Term<'a>) -> bool {
    errand.answer(|env| result.in_env(env))
}
