//! `Call`: a callable with its arguments, up to three of them inline. Lives in a handle, under its guard.

use pyrt::{Attached, Borrowed, Owned, PyResult, Traverse, Visit, Visited, confined};

/// A callable and what it is called with. Empty once a handle was cancelled, or while it runs unseen.
#[derive(Default)]
pub(crate) struct Call {
    callback: Option<Owned>,
    args: [Option<Owned>; 3],
    /// How many of `args` there are; `MANY` if the first one is a tuple of all. A whole word: a call is moved word by word right after
    /// it was made, and a processor waits for a byte that it has just written and is to read as part of a word.
    count: usize,
}

const MANY: usize = usize::MAX;

confined!(Call { callback, args, count });

impl Traverse for Call {
    fn traverse(&self, visit: &mut Visit<'_>) -> Visited {
        self.callback.traverse(visit)?;
        self.args.iter().try_for_each(|arg| arg.traverse(visit))
    }
}

impl Call {
    #[inline(always)]
    pub(crate) fn new(py: Attached<'_>, callback: Borrowed<'_>, args: &[Borrowed<'_>]) -> PyResult<Self> {
        let keep = |arg: &Borrowed<'_>| Some(arg.clone_ref(py));
        let (count, args) = match args {
            [] => (0, [None, None, None]),
            [a] => (1, [keep(a), None, None]),
            [a, b] => (2, [keep(a), keep(b), None]),
            [a, b, c] => (3, [keep(a), keep(b), keep(c)]),
            more => (MANY, [Some(Owned::tuple_of(py, more)?), None, None]),
        };
        Ok(Self { callback: keep(&callback), args, count })
    }

    /// Another reference to everything.
    #[inline]
    pub(crate) fn clone_ref(&self, py: Attached<'_>) -> Self {
        let keep = |object: &Option<Owned>| object.as_ref().map(|object| object.clone_ref(py));
        let [a, b, c] = &self.args;
        Self { callback: keep(&self.callback), args: [keep(a), keep(b), keep(c)], count: self.count }
    }

    pub(crate) fn callback(&self, py: Attached<'_>) -> Option<Owned> {
        self.callback.as_ref().map(|callback| callback.clone_ref(py))
    }

    /// The arguments as a tuple; nothing if there is no callback any more.
    pub(crate) fn args(&self, py: Attached<'_>) -> PyResult<Option<Owned>> {
        if self.callback.is_none() {
            return Ok(None);
        }
        match &self.args {
            [Some(tuple), ..] if self.count == MANY => Ok(Some(tuple.clone_ref(py))),
            args => {
                let args: Vec<Borrowed<'_>> = args.iter().flatten().map(|arg| arg.borrow()).collect();
                Owned::tuple_of(py, &args).map(Some)
            }
        }
    }

    /// Calls it. Nothing happens if it is empty.
    #[inline]
    pub(crate) fn invoke(&self, py: Attached<'_>) -> PyResult<()> {
        let Some(callback) = &self.callback else { return Ok(()) };
        let result = match &self.args {
            [None, ..] => callback.call0(py),
            [Some(tuple), ..] if self.count == MANY => callback.call_tuple(py, tuple, None),
            [Some(a), None, _] => callback.call(py, [a.borrow()]),
            [Some(a), Some(b), None] => callback.call(py, [a.borrow(), b.borrow()]),
            [Some(a), Some(b), Some(c)] => callback.call(py, [a.borrow(), b.borrow(), c.borrow()]),
        };
        result.map(drop)
    }
}
