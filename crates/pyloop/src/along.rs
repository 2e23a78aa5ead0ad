//! `Along`: what whoever runs callbacks takes along from one to the next, so that it is not looked for anew. The loop's thread only.

use pyrt::{Attached, ObjCell, Stay};

use crate::exclusive::Here;

/// The context of those without variables, and which thread this is.
pub(crate) struct Along<'a> {
    pub(crate) stay: Stay<'a>,
    here: Option<Here>,
}

impl<'a> Along<'a> {
    #[inline(always)]
    pub(crate) fn new(spare: &'a ObjCell) -> Self {
        Self { stay: Stay::new(spare), here: None }
    }

    /// Before anything that is no handle: what it sets is not for those.
    #[inline(always)]
    pub(crate) fn leave(&mut self, py: Attached<'_>) {
        drop(self.stay.leave(py));
    }

    /// This thread. A stay does not go to another one, so once is enough.
    #[inline(always)]
    pub(crate) fn here(&mut self) -> Here {
        *self.here.get_or_insert_with(Here::now)
    }
}
