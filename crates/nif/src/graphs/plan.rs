//! `PlanRef`: a graph as `py_dag` writes it down, checked and kept. What is refused is refused by the name of its node.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use dag::{Each, Error, Graph, Inputs, Limit, Name, Plan, Region};
use rustler::types::tuple::get_tuple;
use rustler::{Encoder, Env, Resource, Term};

use super::node::{Call, Place, Work};
use super::redis::{self, Part};
use super::scheduler;
use super::value::{self, Failure, Value, items, list};
use crate::atoms;
use crate::inbox::lock;
use crate::terms::Saved;

/// So many choices of outputs are kept compiled.
const KEPT: usize = 16;

/// The resource.
pub(crate) struct PlanRef {
    pub(super) plan: Arc<Plan<Value>>,
    /// The nodes as their author calls them.
    names: HashMap<Name, Saved>,
    partial: Mutex<HashMap<Vec<String>, Arc<Plan<Value>>>>,
}

#[rustler::resource_impl]
impl Resource for PlanRef {}

/// Why there is no plan, as a term of the calling process.
pub(crate) type Refusal<'a> = Term<'a>;

impl PlanRef {
    /// Compiles the nodes, with the times of regions, the sizes of limits, and the servers they name by their places. A node is `{Text, Name,
    /// Work, Inputs, Map, {Timeout, Region, Limit, Fallback}}`.
    pub(crate) fn compile<'a>(
        env: Env<'a>,
        nodes: Vec<Term<'a>>,
        regions: Vec<u64>,
        limits: Vec<usize>,
        servers: Vec<Term<'a>>,
    ) -> Result<Self, Refusal<'a>> {
        let bad = |what: Term<'a>| (atoms::bad_node(), what).encode(env);
        let events = scheduler().map_err(|text| (atoms::error(), text).encode(env))?.events();
        let mut graph = Graph::new();
        let regions: Vec<Region> =
            regions.into_iter().map(|time| graph.region(Duration::from_millis(time))).collect();
        let limits: Vec<Limit> = limits.into_iter().map(Limit::new).collect();
        let mut clients = Vec::new();
        for server in servers {
            clients.push(redis::client(events, server).ok_or_else(|| (atoms::redis(), server).encode(env))?);
        }
        let mut names = HashMap::new();
        for node in nodes {
            let parts = get_tuple(node).unwrap_or_default();
            let [text, name, work, inputs, each, terms] = parts.as_slice() else { return Err(bad(node)) };
            let (Ok(text), Some(saved)) = (text.decode::<String>(), Saved::new(*name)) else {
                return Err(bad(*name));
            };
            let Ok(inputs) = inputs.decode::<Vec<String>>() else { return Err(bad(*name)) };
            let terms = get_tuple(*terms).unwrap_or_default();
            let [timeout, region, limit, fallback] = terms.as_slice() else { return Err(bad(*name)) };
            let builder = if atoms::input() == *work {
                graph.input(text.clone())
            } else {
                let work = work_of(*work, &clients).ok_or_else(|| bad(*name))?;
                match (each.decode::<usize>(), &*work) {
                    (Ok(in_flight), _) => map(&mut graph, &text, in_flight, work),
                    (Err(_), Work::Call(_)) => graph.hand(text.clone(), move |values, reply| match &*work {
                        Work::Call(call) => call.hand(&values, reply),
                        _ => Err(value::failure(atoms::bad_node())),
                    }),
                    (Err(_), _) => graph
                        .task(text.clone(), move |values: Vec<Value>| work.clone().run(list(values.iter()))),
                }
            };
            let mut builder = builder.inputs(inputs);
            if let Ok(time) = timeout.decode() {
                builder = builder.timeout(Duration::from_millis(time));
            }
            if let Some(region) = region.decode().ok().and_then(|place: usize| regions.get(place)) {
                builder = builder.region(*region);
            }
            if let Some(limit) = limit.decode().ok().and_then(|place: usize| limits.get(place)) {
                builder = builder.limit(limit);
            }
            if let Ok((_value, fallback)) = fallback.decode::<(Term<'_>, Term<'_>)>() {
                builder.fallback(Arc::new(Saved::new(fallback).ok_or_else(|| bad(*name))?));
            }
            names.entry(Name::from(text)).or_insert(saved);
        }
        match graph.compile() {
            Ok(plan) => Ok(Self { plan: Arc::new(plan), names, partial: Mutex::default() }),
            Err(error) => Err(refusal(env, &names, &error)),
        }
    }

    /// A node as its author calls it.
    pub(super) fn name<'a>(&self, env: Env<'a>, name: &Name) -> Term<'a> {
        name_in(env, &self.names, name)
    }

    /// As much of the plan as certain outputs need.
    pub(super) fn only(&self, outputs: Vec<String>) -> Result<Arc<Plan<Value>>, Error> {
        if let Some(plan) = lock(&self.partial).get(&outputs) {
            return Ok(plan.clone());
        }
        let plan = Arc::new(self.plan.only(outputs.iter())?);
        let mut kept = lock(&self.partial);
        if kept.len() < KEPT {
            kept.insert(outputs, plan.clone());
        }
        Ok(plan)
    }

    /// Why a plan or a run is refused.
    pub(super) fn refusal<'a>(&self, env: Env<'a>, error: &Error) -> Term<'a> {
        refusal(env, &self.names, error)
    }
}

fn name_in<'a>(env: Env<'a>, names: &HashMap<Name, Saved>, name: &Name) -> Term<'a> {
    names.get(name).map_or_else(|| name.to_string().encode(env), |saved| saved.term(env))
}

fn refusal<'a>(env: Env<'a>, names: &HashMap<Name, Saved>, error: &Error) -> Term<'a> {
    let named = |name: &Name| name_in(env, names, name);
    match error {
        Error::Duplicate(name) => (atoms::duplicate_node(), named(name)).encode(env),
        Error::Missing { node, input } => (atoms::missing_input(), named(node), named(input)).encode(env),
        Error::Cycle(circle) => (atoms::cycle(), circle.iter().map(named).collect::<Vec<_>>()).encode(env),
        Error::Unknown(name) => (atoms::unknown_node(), named(name)).encode(env),
        Error::NotAnInput(name) => (atoms::not_an_input(), named(name)).encode(env),
        Error::InputNotGiven(name) => (atoms::input_not_given(), named(name)).encode(env),
        Error::Overloaded(_) => atoms::overloaded().encode(env),
        other => (atoms::bad_plan(), other.to_string()).encode(env),
    }
}

fn map<'g>(
    graph: &'g mut Graph<Value>,
    name: &str,
    in_flight: usize,
    work: Arc<Work>,
) -> dag::NodeBuilder<'g, Value> {
    let each = Each::task(move |args: Value| {
        let work = work.clone();
        async move {
            // Already the list of what the work is given.
            let args = Saved::new(args.get()).ok_or_else(|| value::failure(atoms::overloaded()))?;
            work.run(args).await
        }
    });
    let split = |inputs: Inputs<'_, Value>| items(&inputs.iter().collect::<Vec<_>>());
    let join = |values: Vec<Value>| Ok::<_, Failure>(Arc::new(list(values.iter())));
    graph.map(name, in_flight, split, each, join)
}

/// `{call, Place, Module, Function, Kwargs}`, `{erl, Fun}` or `{redis, Server, Parts}`.
fn work_of(term: Term<'_>, clients: &[dag::redis::Client]) -> Option<Arc<Work>> {
    let parts = get_tuple(term).ok()?;
    Some(Arc::new(match parts.as_slice() {
        [tag, place, module, function, kwargs] if atoms::call() == *tag => Work::Call(Call {
            place: place_of(*place)?,
            module: Saved::new(*module)?,
            function: Saved::new(*function)?,
            kwargs: Saved::new(*kwargs)?,
        }),
        [tag, function] if atoms::erl() == *tag => Work::Erlang { function: Saved::new(*function)? },
        [tag, server, command] if atoms::redis() == *tag => Work::Redis {
            client: clients.get(server.decode::<usize>().ok()?)?.clone(),
            parts: command
                .decode::<Vec<Term<'_>>>()
                .ok()?
                .into_iter()
                .map(Part::decode)
                .collect::<Option<_>>()?,
        },
        _ => return None,
    }))
}

fn place_of(term: Term<'_>) -> Option<Place> {
    [(atoms::cpu(), Place::Pool), (atoms::subinterp(), Place::Apart), (atoms::async_(), Place::Loop)]
        .into_iter()
        .find(|(name, _)| *name == term)
        .map(|(_, place)| place)
}
