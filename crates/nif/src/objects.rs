//! `Lent`: bytes of Python that Erlang has as a binary without a copy; given back when the last process has forgotten them.
//! `Kept`: an object of Python that Erlang holds by reference: `return => ref`. Any thread; given back when Erlang forgets it.

use pyrt::{Attached, Interpreter, Owned, Remote};
use rustler::{Env, Resource, ResourceArc, Term};

use crate::watch;

/// The resource around an object.
pub(crate) struct Kept(Remote);

impl Kept {
    /// Takes an object of this thread's interpreter over.
    pub(crate) fn new(py: Attached<'_>, home: &Interpreter, object: Owned) -> Option<Self> {
        Remote::new(py, object, home).ok().map(Self)
    }

    /// The object.
    pub(crate) fn get(&self, py: Attached<'_>) -> Option<Owned> {
        self.0.get(py).map(|object| object.clone_ref(py))
    }
}

#[rustler::resource_impl]
impl Resource for Kept {}

/// What is smaller is copied, which costs less than the way back.
pub(crate) const LARGE: usize = 64 << 10;

/// The resource around `bytes` or `str`. Neither changes, so their text is read by any thread.
pub(crate) struct Lent(Option<Remote>);

impl Lent {
    /// A binary over `data`, which lies in `object`. `None` in a sub-interpreter, which may end before the binary.
    ///
    /// # Safety
    /// `data` stays where it is and what it is for as long as the object lives.
    pub(crate) unsafe fn binary<'a>(
        py: Attached<'_>,
        env: Env<'a>,
        object: Owned,
        data: &[u8],
    ) -> Option<Term<'a>> {
        let remote = Remote::new(py, object, crate::python::main()?.interpreter()).ok()?;
        let lent = ResourceArc::new(Self(Some(remote)));
        // SAFETY: the resource holds the object, and so the data, by contract.
        Some(unsafe { lent.make_binary_unsafe(env, |_| data) }.to_term(env))
    }
}

#[rustler::resource_impl]
impl Resource for Lent {}

impl Drop for Lent {
    fn drop(&mut self) {
        drop(self.0.take());
        // Where nobody runs Python, nobody would take it back.
        watch::give_back();
    }
}
