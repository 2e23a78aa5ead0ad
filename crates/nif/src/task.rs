//! `Task`: the reference by which anybody may cancel a request that was not waited for. Any thread.

use std::sync::atomic::{AtomicU64, Ordering};

use rustler::{Atom, Encoder, LocalPid, Resource, Term};

use crate::atoms;
use crate::request::Tags;
use crate::table::Id;

/// The resource; the term of it is the `Ref` that users see.
pub(crate) struct Task {
    id: AtomicU64,
    owner: LocalPid,
    form: Form,
}

/// How the answer of a task is put.
#[derive(Clone, Copy)]
pub(crate) struct Form {
    tag: Atom,
    /// As `{py_result, Ref, Value}` or `{py_error, Ref, Reason}`.
    split: bool,
}

impl Form {
    /// The answer as it is sent.
    pub(crate) fn put<'a>(self, reference: Term<'a>, result: Term<'a>) -> Term<'a> {
        if self.split {
            return Tags::Result.put(reference, result);
        }
        (self.tag, reference, result).encode(result.get_env())
    }
}

impl Task {
    pub(crate) fn new(owner: LocalPid, tag: Atom) -> Self {
        Self { id: AtomicU64::new(0), owner, form: Form { tag, split: tag == atoms::py_result() } }
    }

    pub(crate) fn form(&self) -> Form {
        self.form
    }

    /// Says which request it is, before anybody else knows the task.
    pub(crate) fn name(&self, id: Id) {
        self.id.store(id.word(), Ordering::Release);
    }

    pub(crate) fn id(&self) -> Id {
        Id::from_word(self.id.load(Ordering::Acquire))
    }

    pub(crate) fn owner(&self) -> LocalPid {
        self.owner
    }
}

#[rustler::resource_impl]
impl Resource for Task {}
