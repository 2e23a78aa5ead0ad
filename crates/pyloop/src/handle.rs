//! `Handle`: what `call_soon` and `add_reader` make. Says that it is an `asyncio.Handle`.

use std::ffi::CStr;

use pyrt::{
    Attached, Class, Fixed, Method, Offset, PoolRef, Property, Traverse, TypeSlot, Visit, Visited, WeakSlot,
    confined, offset,
};

use crate::bound::{self, Bound, IsHandle};
use crate::exclusive::Exclusive;
use crate::module::Native;

/// A callback that is to run, or runs whenever an fd is ready.
pub(crate) struct Handle {
    bound: Bound,
    exclusive: Exclusive,
    weak: WeakSlot,
}

confined!(Handle { bound, exclusive, weak });

impl Handle {
    #[inline(always)]
    pub(crate) fn new(bound: Bound) -> Self {
        Self { bound, exclusive: Exclusive::new(false), weak: WeakSlot::new() }
    }

    /// One that another thread can cancel only while it does not run, if `exclusive`.
    #[inline(always)]
    pub(crate) fn threadsafe(bound: Bound, exclusive: bool) -> Self {
        Self { bound, exclusive: Exclusive::new(exclusive), weak: WeakSlot::new() }
    }
}

impl IsHandle for Handle {
    #[inline]
    fn bound(&self) -> &Bound {
        &self.bound
    }

    #[inline(always)]
    fn exclusive(&self) -> Option<&Exclusive> {
        self.exclusive.is_on().then_some(&self.exclusive)
    }

    fn stands_for<'a>(&self, native: &'a Native) -> &'a Fixed {
        if self.exclusive.is_on() { &native.asyncio_threadsafe_handle } else { &native.asyncio_handle }
    }
}

impl Traverse for Handle {
    fn traverse(&self, visit: &mut Visit<'_>) -> Visited {
        self.bound.traverse(visit)
    }
}

impl Class for Handle {
    const NAME: &'static CStr = c"erlang._native.Handle";
    const DOC: &'static CStr = c"What is returned for a callback that was scheduled.";
    const GC: bool = false;
    const CHAINS: bool = false;
    const POOLED: bool = true;
    const WEAKREFS: Option<Offset<Self, WeakSlot>> = Some(offset!(Handle, weak));
    const METHODS: &'static [Method<Self>] = &[
        Method::noargs(c"cancel", bound::cancel::<Self>, c"cancel($self)\n--\n\nThe callback will not run."),
        Method::noargs(
            c"cancelled",
            bound::cancelled::<Self>,
            c"cancelled($self)\n--\n\nWhether it was cancelled.",
        ),
        Method::noargs(
            c"get_context",
            bound::context::<Self>,
            c"get_context($self)\n--\n\nThe context it runs in.",
        ),
        Method::noargs(c"_run", bound::run::<Self>, c"_run($self)\n--\n\n"),
        Method::noargs(c"_repr_info", bound::repr_info::<Self>, c"_repr_info($self)\n--\n\n"),
        Method::END,
    ];
    const PROPERTIES: &'static [Property<Self>] = &[
        Property::read(c"__class__", bound::class::<Self>, c"asyncio.Handle"),
        Property::read(c"_callback", bound::callback::<Self>, c""),
        Property::read(c"_args", bound::args::<Self>, c""),
        Property::read(c"_cancelled", bound::cancelled::<Self>, c""),
        Property::read(c"_loop", bound::owner::<Self>, c""),
        Property::read(c"_context", bound::context::<Self>, c""),
        Property::read(c"_source_traceback", bound::traceback::<Self>, c""),
        Property::read(c"_repr", bound::kept_repr::<Self>, c""),
        Property::END,
    ];
    const SLOTS: &'static [TypeSlot<Self>] = &[TypeSlot::repr(bound::repr::<Self>)];

    #[inline(always)]
    fn pool(&self, py: Attached<'_>) -> Option<PoolRef> {
        Some(self.bound.pool(py, |native| &native.handle))
    }
}
