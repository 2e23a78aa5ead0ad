//! `Snapshot`: what something that waits is to run with. Attached threads only.
//!
//! Nobody has set a variable where most things are scheduled, and one context without variables is as good as another. So none is kept for
//! those that wait, and one serves all of them in turn: it costs the collector nothing, and no memory that has gone cold.

use crate::context::is_empty;
use crate::{Attached, Confined, Context, Owned, PyResult, Stay, Traverse, Visit, Visited, run_in};

/// The variables of the context in which it was taken, or a context that a user has given.
#[derive(Default)]
pub struct Snapshot(Option<Owned>);

impl Snapshot {
    /// Of the current context; O(1).
    #[inline]
    pub fn current(py: Attached<'_>) -> PyResult<Self> {
        if Context::current_is_empty(py) == Some(true) {
            return Ok(Self(None));
        }
        let context = Context::copy_current(py)?.into_object();
        Ok(Self(if is_empty(&context) { None } else { Some(context) }))
    }

    /// A context that is others' as well; or anything else that a user takes for one.
    #[inline]
    pub fn given(context: Owned) -> Self {
        Self(Some(context))
    }

    /// Another reference to the same.
    #[inline]
    pub fn clone_ref(&self, py: Attached<'_>) -> Self {
        Self(self.0.as_ref().map(|context| context.clone_ref(py)))
    }

    /// A context for others to see, `fresh` if there was none: from now on this very one.
    pub fn share(&mut self, py: Attached<'_>, fresh: Context) -> Owned {
        self.0.get_or_insert(fresh.into_object()).clone_ref(py)
    }

    /// The context, if one has to be kept.
    #[inline]
    pub fn into_object(self) -> Option<Owned> {
        self.0
    }

    /// Runs `f` in it, which is `stay`'s context if there are no variables. If `f` has set some there, the context comes back, for those who
    /// run something again.
    #[inline(always)]
    pub fn run<R>(
        &self,
        py: Attached<'_>,
        stay: &mut Stay<'_>,
        f: impl FnOnce() -> PyResult<R>,
    ) -> PyResult<(PyResult<R>, Option<Owned>)> {
        match &self.0 {
            Some(context) => Ok((run_in(py, context, f), None)),
            None => stay.run(py, f),
        }
    }
}

// SAFETY: a reference.
unsafe impl Confined for Snapshot {}

impl Traverse for Snapshot {
    fn traverse(&self, visit: &mut Visit<'_>) -> Visited {
        self.0.traverse(visit)
    }
}
