//! The future of a node: its work is handed to a context, a loop or a process; dropping the future gives that up.

use std::sync::Arc;

use dag::redis::Client;
use futures_channel::oneshot;

use super::errand::{self, Word};
use super::redis::{self, Part};
use super::value::{self, Failure, Outcome, failure};
use crate::atoms;
use crate::beam::Mail;
use crate::event_loop::Floor;
use crate::jobs;
use crate::python;
use crate::request::{Op, Request};
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
    Call { place: Place, module: Saved, function: Saved, kwargs: Saved },
    Erlang { function: Saved },
    Redis { client: Client, parts: Vec<Part> },
}

impl Work {
    /// Does it, for values in a list.
    pub(super) async fn run(self: Arc<Self>, args: Saved) -> Outcome {
        match &*self {
            Self::Call { place, module, function, kwargs } => {
                let (answer, waits) = oneshot::channel();
                let sink = Box::new(move |mail, word| drop(answer.send(value::outcome(mail, word))));
                let id = submit(*place, [module, function, &args, kwargs], sink)?;
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

fn submit(place: Place, terms: [&Saved; 4], sink: crate::request::Sink) -> Result<Id, Failure> {
    let caller = errand::host()?;
    let (op, target) = match place {
        Place::Pool => (Op::Call, Target::Pool),
        Place::Apart => (Op::Call, Target::Apart),
        Place::Loop => {
            let floor = python::main()
                .and_then(|main| Floor::any(main.interpreter()))
                .ok_or_else(|| failure(atoms::no_loop()))?;
            (Op::Task, Target::Floor(floor))
        }
    };
    let mail = Mail::new().ok_or_else(|| failure(atoms::overloaded()))?;
    let terms = terms.map(|saved| saved.term(mail.env()).as_c_arg());
    let made = Request::with_sink(op, mail, terms, caller, target.clone(), sink);
    let (request, id) = made.ok_or_else(|| failure(atoms::overloaded()))?;
    target.accept(request).map_err(failure)?;
    Ok(id)
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
