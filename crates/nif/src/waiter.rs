//! Telling callers at once that the context which runs their request has ended, though its thread may hang in C. Any thread.
//!
//! The reference of an answer lies in the request, and that belongs to the thread. A task and a stream are references themselves; a
//! caller that has waited for a moment leaves a copy of its own here.

use std::collections::BTreeMap;
use std::sync::Mutex;

use rustler::sys::ErlNifTerm;
use rustler::{Encoder, LocalPid, Resource, ResourceArc, Term};

use crate::atoms;
use crate::beam::Mail;
use crate::inbox::lock;
use crate::runner::Runner;
use crate::stream::Stream;
use crate::table::{self, Id};
use crate::task::Task;

/// The reference by which somebody other than a waiting caller knows a request.
#[derive(Clone)]
pub(crate) enum Known {
    Task(ResourceArc<Task>),
    Stream(ResourceArc<Stream>),
}

struct Copy {
    caller: LocalPid,
    mail: Mail,
    reference: ErlNifTerm,
}

static COPIES: Mutex<BTreeMap<u64, Copy>> = Mutex::new(BTreeMap::new());

/// The resource that a waiting caller holds: its copy is there for as long as that.
pub(crate) struct Waiter(Id);

#[rustler::resource_impl]
impl Resource for Waiter {}

impl Waiter {
    /// The caller waits no longer.
    pub(crate) fn over(&self) {
        let copy = lock(&COPIES).remove(&self.0.word());
        drop(copy);
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        self.over();
    }
}

/// A caller waits on. `None` if the context of its request has ended: then no answer will ever come.
pub(crate) fn wait(caller: LocalPid, id: Id, reference: Term<'_>) -> Option<ResourceArc<Waiter>> {
    let waiter = ResourceArc::new(Waiter(id));
    if let Some(mail) = Mail::new() {
        let reference = mail.keep(reference);
        lock(&COPIES).insert(id.word(), Copy { caller, mail, reference });
    }
    // One that ends from now on finds the copy.
    let ended = Runner::all().iter().any(|runner| runner.is_stopped() && runner.has(id));
    (!ended || !table::cancel(id)).then_some(waiter)
}

/// The context that runs a request has ended: `{error, closed}` is its answer, unless it had one.
pub(crate) fn closed(id: Id, known: Option<Known>) {
    let Some(mail) = Mail::new() else { return };
    let reason = (atoms::error(), atoms::closed());
    match known {
        Some(Known::Task(task)) if table::cancel(id) => {
            let env = mail.env();
            let word = task.form().put(task.encode(env), reason.encode(env)).as_c_arg();
            mail.send(task.owner(), word);
        }
        Some(Known::Task(_)) => {}
        Some(Known::Stream(stream)) => {
            let word = (atoms::py_stream(), &stream, reason).encode(mail.env()).as_c_arg();
            stream.cancel(|| {
                mail.send(stream.owner(), word);
            });
        }
        None => {
            let copy = lock(&COPIES).remove(&id.word());
            if let Some(copy) = copy
                && table::cancel(id)
            {
                // SAFETY: kept in this mail by `wait`.
                let reference = unsafe { copy.mail.term(copy.reference) };
                let word = (reference, reason).encode(copy.mail.env()).as_c_arg();
                copy.mail.send(copy.caller, word);
            }
        }
    }
}
