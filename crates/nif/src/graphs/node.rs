//! The work of a node, handed to a context, a loop, a process or a server. A Python function is handed over without a future, and what
//! comes after it is begun by the thread that ran it, which is awake; dropping the future of any other work gives that up.

use std::sync::Arc;

use dag::redis::Client;
use dag::{BoxError, GiveUp, Reply};
use futures_channel::oneshot;
use rustler::{Env, Term};

use super::errand::{self, Word};
use super::redis::{self, Part};
use super::scheduler;
use super::value::{self, Failure, Outcome, Value, failure};
use crate::atoms;
use crate::beam::Mail;
use crate::event_loop::Floor;
use crate::jobs;
use crate::python;
use crate::request::{Op, Request, Sink};
use crate::table::Id;
use crate::target::Target;
use crate::terms::Saved;

/// Where a Python function runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// A context of the pool.
    Pool,
    /// A context with an interpreter of its own.
    Apart,
    /// An event loop, as a task.
    Loop,
}

/// What a node does.
pub(super) enum Work {
    Call(Call),
    Erlang { function: Saved },
    Redis { client: Client, parts: Vec<Part> },
}

impl Work {
    /// Does it, for values in a list.
    pub(super) async fn run(self: Arc<Self>, args: Saved) -> Outcome {
        match &*self {
            Self::Call(call) => {
                let (answer, waits) = oneshot::channel();
                let sink = Box::new(move |mail, word| drop(answer.send(value::outcome(mail, word))));
                let id = call.submit(|env| args.term(env), None, sink)?;
                let given_up = GivenUp(Some(id));
                let outcome = waits.await;
                given_up.disarm();
                outcome.unwrap_or_else(|_| Err(failure(atoms::dropped())))
            }
            Self::Erlang { function } => {
                let mut sent = errand::send(function, &args)?;
                match (&mut sent.answer).await {
                    Ok(Word((mail, word))) => value::outcome(mail, word),
                    Err(_) => Err(failure(atoms::killed())),
                }
            }
            Self::Redis { client, parts } => {
                let reply = client.call(redis::command(parts, &args)?).await;
                reply.map(redis::value).map_err(|error| failure((atoms::redis(), error.to_string())))
            }
        }
    }
}

/// A Python function and where it runs.
pub(super) struct Call {
    pub(super) place: Place,
    pub(super) module: Saved,
    pub(super) function: Saved,
    pub(super) kwargs: Saved,
}

impl Call {
    /// Hands it over with these values. On any thread, attached to Python or not.
    pub(super) fn hand(&self, values: &[Value], reply: Reply<Value>) -> Result<GiveUp, Failure> {
        let run = reply.run() as usize;
        let sink = Box::new(move |mail, word| reply.send(value::outcome(mail, word).map_err(BoxError::from)));
        let id = self.submit(|env| value::list_in(env, values.iter()), Some(run), sink)?;
        // By the loop, which is never attached: to interrupt code takes locks that are held while attaching.
        Ok(Box::new(move || {
            if let Ok(scheduler) = scheduler() {
                let _stopping = scheduler.events().post(move || {
                    let _stopped = jobs::stop(id);
                });
            }
        }))
    }

    /// The coroutines of one run share a loop: who ends one begins the next on its own thread, without waking another and handing it
    /// the GIL. Runs take loops in turn, and so do the items of maps.
    fn submit(
        &self,
        args: impl for<'a> FnOnce(Env<'a>) -> Term<'a>,
        run: Option<usize>,
        sink: Sink,
    ) -> Result<Id, Failure> {
        let caller = errand::host()?;
        let (op, target) = match self.place {
            Place::Pool => (Op::Call, Target::Pool),
            Place::Apart => (Op::Call, Target::Apart),
            Place::Loop => {
                let of = |home| run.map_or_else(|| Floor::any(home), |run| Floor::of_turn(home, run));
                let floor = python::main()
                    .and_then(|main| of(main.interpreter()))
                    .ok_or_else(|| failure(atoms::no_loop()))?;
                (Op::Task, Target::Floor(floor))
            }
        };
        let mail = Mail::new().ok_or_else(|| failure(atoms::overloaded()))?;
        let env = mail.env();
        let terms = [self.module.term(env), self.function.term(env), args(env), self.kwargs.term(env)];
        let terms = terms.map(|term| term.as_c_arg());
        let made = Request::with_sink(op, mail, terms, caller, target.clone(), sink);
        let (request, id) = made.ok_or_else(|| failure(atoms::overloaded()))?;
        target.accept(request).map_err(failure)?;
        Ok(id)
    }
}

/// Stops what a request runs, unless it is over.
struct GivenUp(Option<Id>);

impl GivenUp {
    fn disarm(mut self) {
        self.0 = None;
    }
}

impl Drop for GivenUp {
    fn drop(&mut self) {
        if let Some(id) = self.0 {
            jobs::stop(id);
        }
    }
}
