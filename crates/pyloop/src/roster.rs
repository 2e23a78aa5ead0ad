//! `Roster`: asyncio's set of all tasks, where it is a `WeakSet`, with what a task does to it done natively: to enter it when it begins, and to
//! leave it when it goes. Attached threads only.
//!
//! A `WeakSet` is written in Python, and those two calls were a fifth of a short task's time. It stays the same set with the same content:
//! `erlang._stdlib` gives it `add` and `_remove` of ours in place of its own. Since 3.14 tasks are kept in a list, and there is nothing to do.

use std::ffi::CStr;

use pyrt::{
    Args, Attached, Borrowed, Class, Fixed, Instance, Method, ObjCell, Owned, PyResult, Signature, Traverse,
    TypeSlot, Visit, Visited, confined,
};

/// The parts of a `WeakSet`.
pub(crate) struct Roster {
    /// Weak references to what is in it.
    members: Fixed,
    /// Who iterates over it: meanwhile nothing leaves.
    iterating: Fixed,
    /// What is to leave then.
    pending: Fixed,
    /// Its own `forget`, once made for all.
    forget: ObjCell,
}

confined!(Roster { members, iterating, pending, forget });

impl Traverse for Roster {
    fn traverse(&self, visit: &mut Visit<'_>) -> Visited {
        self.members.traverse(visit)?;
        self.iterating.traverse(visit)?;
        self.pending.traverse(visit)?;
        self.forget.traverse(visit)
    }

    fn clear(&self, py: Attached<'_>) {
        self.forget.clear(py);
    }
}

const NEW: Signature<3> = Signature::function("Roster", ["members", "iterating", "pending"]).required(3);

impl Class for Roster {
    const NAME: &'static CStr = c"erlang._native.Roster";
    const DOC: &'static CStr = c"The inside of a WeakSet.";
    const METHODS: &'static [Method<Self>] = &[
        Method::one(c"add", Roster::add, c"add($self, item, /)\n--\n\nIn it as long as it lives."),
        Method::one(c"forget", Roster::forget, c"forget($self, reference, /)\n--\n\nIt is gone."),
        Method::END,
    ];
    const SLOTS: &'static [TypeSlot<Self>] = &[TypeSlot::new(Roster::new)];
}

impl Roster {
    fn new(py: Attached<'_>, _class: Borrowed<'_>, args: Args<'_>) -> PyResult<Self> {
        let kept =
            |argument: Option<Borrowed<'_>>| argument.unwrap_or(Borrowed::none(py)).clone_ref(py).into();
        let [members, iterating, pending] = NEW.parse(py, &args)?.map(kept);
        Ok(Self { members, iterating, pending, forget: ObjCell::empty() })
    }

    /// What is pending needs no look: it leaves when the last one has stopped iterating.
    fn add(py: Attached<'_>, this: Instance<'_, Self>, item: Borrowed<'_>) -> PyResult<()> {
        let forget = match this.forget.get(py) {
            Some(forget) => forget,
            None => {
                let forget = this.object().getattr_str(py, c"forget")?;
                this.forget.set(py, forget.clone_ref(py));
                forget
            }
        };
        this.members.set_add(py, &Owned::weakref(py, &item, Some(&forget))?)
    }

    fn forget(py: Attached<'_>, this: Instance<'_, Self>, reference: Borrowed<'_>) -> PyResult<()> {
        if this.iterating.set_len(py)? == 0 {
            return this.members.set_discard(py, &reference);
        }
        this.pending.append(py, &reference)
    }
}
