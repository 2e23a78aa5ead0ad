//! `Task`: the reference by which anybody may cancel a request that was not waited for. Any thread.

use std::sync::atomic::{AtomicU64, Ordering};

use rustler::{Atom, LocalPid, Resource};

use crate::table::Id;

/// The resource; the term of it is the `Ref` that users see.
pub(crate) struct Task {
    id: AtomicU64,
    owner: LocalPid,
    tag: Atom,
}

impl Task {
    pub(crate) fn new(owner: LocalPid, tag: Atom) -> Self {
        Self { id: AtomicU64::new(0), owner, tag }
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

    pub(crate) fn tag(&self) -> Atom {
        self.tag
    }
}

#[rustler::resource_impl]
impl Resource for Task {}
