//! `Stay`: runs one thing after another in a context without variables, which is not left in between. Attached threads only.
//!
//! Most callbacks have no variables, and to enter and leave a context costs a tenth of a short one.

use core::marker::PhantomData;

use crate::context::{enter, exit, is_empty};
use crate::{Attached, Context, HAS_GIL, ObjCell, Owned, PyResult};

/// How many references there are to a context that nobody else has got hold of: ours, and one of the thread that is in it.
const UNSEEN: isize = 2;

/// A stay in the context of `spare`, or in a new one; it goes back there. Left when dropped.
pub struct Stay<'a> {
    spare: &'a ObjCell,
    inside: Option<Owned>,
    /// The thread that has entered leaves.
    _here: PhantomData<*const ()>,
}

impl<'a> Stay<'a> {
    /// One that has not begun.
    #[inline(always)]
    pub fn new(spare: &'a ObjCell) -> Self {
        Self { spare, inside: None, _here: PhantomData }
    }

    /// Runs `f`. If it fails, has left variables in the context, or somebody has got hold of that, the stay ends: what is next finds no
    /// variables. One with variables is handed out.
    #[inline(always)]
    pub fn run<R>(
        &mut self,
        py: Attached<'_>,
        f: impl FnOnce() -> PyResult<R>,
    ) -> PyResult<(PyResult<R>, Option<Owned>)> {
        let context = match &mut self.inside {
            Some(context) => context,
            inside => inside.insert(begin(py, self.spare)?),
        };
        let result = f();
        if HAS_GIL && result.is_ok() && context.refcount(py) == UNSEEN && is_empty(context) {
            return Ok((result, None));
        }
        Ok((result, self.leave(py)))
    }

    /// Ends the stay, if there is one, as before whatever is to run elsewhere.
    #[inline(always)]
    pub fn leave(&mut self, py: Attached<'_>) -> Option<Owned> {
        let context = self.inside.take()?;
        if exit(&context) && HAS_GIL && context.refcount(py) == UNSEEN - 1 && is_empty(&context) {
            self.spare.set(py, context);
            return None;
        }
        Some(context)
    }
}

#[inline(always)]
fn begin(py: Attached<'_>, spare: &ObjCell) -> PyResult<Owned> {
    let context = match spare.take(py) {
        Some(context) => context,
        None => Context::empty(py)?.into_object(),
    };
    enter(py, &context)?;
    Ok(context)
}

impl Drop for Stay<'_> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: made attached, and it does not get to where the thread is detached: it is not `Send`.
        drop(self.leave(unsafe { Attached::assume() }));
    }
}
