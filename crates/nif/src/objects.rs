//! `Kept`: an object of Python that Erlang holds by reference: `return => ref`. Any thread; given back when Erlang forgets it.

use pyrt::{Attached, Owned, Remote};
use rustler::Resource;

/// The resource around an object.
pub(crate) struct Kept(Remote);

impl Kept {
    /// Takes an object over; `None` if this thread is attached to another interpreter than ours.
    pub(crate) fn new(py: Attached<'_>, object: Owned) -> Option<Self> {
        Remote::new(py, object, crate::python::interpreter()?).ok().map(Self)
    }

    /// The object.
    pub(crate) fn get(&self, py: Attached<'_>) -> Option<Owned> {
        self.0.get(py).map(|object| object.clone_ref(py))
    }
}

#[rustler::resource_impl]
impl Resource for Kept {}
