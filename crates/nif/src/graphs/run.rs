//! `RunRef`: one run of a plan. Its owner is told how it ends, and what happens if it wants; when the owner dies it is cancelled.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use dag::{
    BoxError, Event, Mode, Name, NodeError, Observer, Outputs, Plan, Recorder, RunError, RunOptions, What,
    picture,
};
use rustler::{Atom, Encoder, Env, LocalPid, Monitor, Resource, ResourceArc, Term};

use super::plan::PlanRef;
use super::scheduler;
use super::value::{Failure, Value};
use crate::atoms;
use crate::beam::{self, Mail};
use crate::terms::Saved;

type Cancel = Box<dyn Fn(Option<BoxError>) -> bool + Send + Sync>;

/// The resource; the term of it is the `Run` that users see.
pub(crate) struct RunRef {
    owner: LocalPid,
    source: ResourceArc<PlanRef>,
    plan: Arc<Plan<Value>>,
    /// What happened, if that is to be drawn.
    record: Option<Recorder>,
    /// Whether the owner is told of each event.
    tells: bool,
    collects: bool,
    cancel: OnceLock<Cancel>,
    /// The owner has its result.
    told: AtomicBool,
}

#[rustler::resource_impl]
impl Resource for RunRef {
    const IMPLEMENTS_DOWN: bool = true;

    fn down<'a>(&'a self, _env: Env<'a>, _pid: LocalPid, _monitor: Monitor) {
        self.cancel(None);
    }
}

/// How to run.
pub(crate) struct Options {
    pub(crate) owner: LocalPid,
    pub(crate) deadline: Option<Duration>,
    pub(crate) mode: Mode,
    /// Which outputs are wanted; none is all.
    pub(crate) outputs: Option<Vec<String>>,
    pub(crate) tells: bool,
    pub(crate) records: bool,
}

impl RunRef {
    /// Starts a run. `{py_dag, Run, {done, Result}}` is sent to its owner.
    pub(crate) fn start<'a>(
        env: Env<'a>,
        source: ResourceArc<PlanRef>,
        given: Vec<(String, Term<'a>)>,
        options: Options,
    ) -> Result<ResourceArc<Self>, Term<'a>> {
        let Options { owner, deadline, mode, outputs, tells, records } = options;
        let plan = match outputs {
            Some(outputs) => source.only(outputs).map_err(|error| source.refusal(env, &error))?,
            None => source.plan.clone(),
        };
        // What a choice of outputs does not need is given in vain.
        let needed = |name: &str| plan.given().any(|input| *input == Name::from(name));
        let known = |name: &str| source.plan.given().any(|input| *input == Name::from(name));
        let given = given
            .into_iter()
            .filter(|(name, _)| needed(name) || !known(name))
            .map(|(name, value)| Some((Name::from(name), Arc::new(Saved::new(value)?))))
            .collect::<Option<Vec<_>>>();
        let given = given.ok_or_else(|| atoms::overloaded().encode(env))?;
        let run = ResourceArc::new(Self {
            owner,
            source: source.clone(),
            plan: plan.clone(),
            record: records.then(Recorder::default),
            tells,
            collects: mode == Mode::Collect,
            cancel: OnceLock::new(),
            told: AtomicBool::new(false),
        });
        if env.monitor(&run, &owner).is_none() {
            return Err(atoms::noproc().encode(env));
        }
        let mut how = RunOptions::mode(mode);
        if let Some(deadline) = deadline {
            how = how.deadline(deadline);
        }
        if tells || records {
            how = how.observer(Arc::new(Watching(run.clone())));
        }
        let scheduler = scheduler().map_err(|text| (atoms::error(), text).encode(env))?;
        let started = scheduler.start(&plan, how, given).map_err(|error| source.refusal(env, &error))?;
        // Nobody else sets it. An owner that has died since it was monitored found nothing to cancel.
        let _first = run.cancel.set(Box::new(started.canceller()));
        if !beam::is_alive(owner) {
            run.cancel(None);
        }
        let told = run.clone();
        let ends = async move {
            let result = started.await;
            if told.tells {
                // Behind its events.
                in_order(move || told.done(result));
            } else {
                told.done(result);
            }
        };
        if scheduler.events().spawn(ends).is_err() {
            return Err(atoms::not_started().encode(env));
        }
        Ok(run)
    }

    /// Cancels it, for a reason if there is one. Whether that ended it.
    pub(crate) fn cancel(&self, reason: Option<Saved>) -> bool {
        let reason = reason.map(|reason| Box::new(Failure(reason)) as BoxError);
        self.cancel.get().is_some_and(|cancel| cancel(reason))
    }

    /// What a process that wants the result has to expect.
    pub(crate) fn state(&self, asks: LocalPid) -> Atom {
        if asks != self.owner {
            atoms::not_owner()
        } else if self.told.load(Ordering::Acquire) {
            atoms::done()
        } else {
            atoms::running()
        }
    }

    /// The events so far: as Chrome's trace, or as a timeline.
    pub(crate) fn trace(&self) -> Option<String> {
        Some(picture::trace(&self.plan, &self.record.as_ref()?.events()))
    }

    pub(crate) fn timeline(&self) -> Option<String> {
        Some(picture::timeline(&self.plan, &self.record.as_ref()?.events()))
    }
}

/// The plan for Graphviz.
pub(crate) fn dot(plan: &PlanRef) -> String {
    picture::dot(&plan.plan)
}

/// Tells by the scheduler's loop, one after the other. Events come from many threads, and what schedulers send takes longer.
fn in_order(tell: impl FnOnce() + Send + 'static) {
    if let Ok(scheduler) = scheduler() {
        let _told = scheduler.events().post(tell);
    }
}

/// Tells the owner something, by the reference of the run.
fn tell(run: &ResourceArc<RunRef>, what: impl for<'a> FnOnce(Env<'a>) -> Term<'a>) {
    if let Some(mail) = Mail::new() {
        let what = what(mail.env());
        let word = (atoms::py_dag(), run.clone(), what).encode(mail.env()).as_c_arg();
        mail.send(run.owner, word);
    }
}

trait Done {
    fn done(&self, result: Result<Outputs<'_, Value>, RunError>);
}

impl Done for ResourceArc<RunRef> {
    fn done(&self, result: Result<Outputs<'_, Value>, RunError>) {
        tell(self, |env| {
            let result = match result {
                Ok(outputs) => (atoms::ok(), self.outputs(env, &outputs)).encode(env),
                Err(error) => (atoms::error(), self.reason(env, &error)).encode(env),
            };
            (atoms::done(), result).encode(env)
        });
        self.told.store(true, Ordering::Release);
    }
}

impl RunRef {
    fn outputs<'a>(&self, env: Env<'a>, outputs: &Outputs<'_, Value>) -> Term<'a> {
        let pair = |(name, outcome): (&Name, Result<&Value, &NodeError>)| {
            let value = match outcome {
                Ok(value) if self.collects => (atoms::ok(), value.term(env)).encode(env),
                Ok(value) => value.term(env),
                Err(error) => (atoms::error(), self.node_reason(env, error)).encode(env),
            };
            (self.source.name(env, name), value)
        };
        let pairs: Vec<_> = outputs.iter().map(pair).collect();
        Term::map_from_pairs(env, &pairs).unwrap_or_else(|_| pairs.encode(env))
    }

    fn reason<'a>(&self, env: Env<'a>, error: &RunError) -> Term<'a> {
        match error {
            RunError::Node { node, error } => {
                (atoms::node_failed(), self.source.name(env, node), self.node_reason(env, error)).encode(env)
            }
            RunError::Deadline => atoms::timeout().encode(env),
            RunError::Cancelled => atoms::cancelled().encode(env),
            RunError::Stopped(reason) => match reason.downcast_ref::<Failure>() {
                Some(Failure(reason)) => (atoms::cancelled(), reason.term(env)).encode(env),
                None => (atoms::cancelled(), reason.to_string()).encode(env),
            },
            RunError::Refused(error) => self.source.refusal(env, error),
            other => other.to_string().encode(env),
        }
    }

    fn node_reason<'a>(&self, env: Env<'a>, error: &NodeError) -> Term<'a> {
        match error {
            NodeError::Failed(error) => match error.downcast_ref::<Failure>() {
                Some(Failure(reason)) => reason.term(env),
                None => error.to_string().encode(env),
            },
            NodeError::TimedOut => atoms::timeout().encode(env),
            NodeError::Cancelled => atoms::cancelled().encode(env),
            NodeError::Upstream(name) => (atoms::no_input(), self.source.name(env, name)).encode(env),
            other => other.to_string().encode(env),
        }
    }
}

/// Writes events down, and tells them.
struct Watching(ResourceArc<RunRef>);

impl Observer for Watching {
    fn event(&self, event: Event) {
        let run = &self.0;
        if let Some(record) = &run.record {
            record.event(event);
        }
        if run.tells {
            let run = run.clone();
            in_order(move || {
                tell(&run, |env| {
                    let names = run.plan.names();
                    let name = usize::try_from(event.node).ok().and_then(|node| names.get(node));
                    let name = name.map_or_else(|| event.node.encode(env), |name| run.source.name(env, name));
                    (word_of(event.what), name, event.at).encode(env)
                })
            });
        }
    }
}

fn word_of(what: What) -> Atom {
    match what {
        What::Started => atoms::started(),
        What::Finished => atoms::finished(),
        What::Failed => atoms::failed(),
        What::TimedOut => atoms::timeout(),
        _ => atoms::cancelled(),
    }
}
