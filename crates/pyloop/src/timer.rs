//! `TimerHandle`: what `call_later` and `call_at` make. Says that it is an `asyncio.TimerHandle`.

use std::ffi::CStr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use evloop::TimerToken;
use pyrt::{
    Attached, Borrowed, Class, Compare, Fixed, Instance, Method, ObjCell, Offset, Owned, PoolRef, Property,
    PyResult, Traverse, TypeSlot, Visit, Visited, WeakSlot, confined, offset,
};

use crate::bound::{self, Bound, IsHandle};
use crate::module::Native;

/// A callback that is to run at a time.
pub(crate) struct TimerHandle {
    bound: Bound,
    when: f64,
    /// What was passed for the time, if it was not a plain float.
    given: ObjCell,
    token: OnceLock<TimerToken>,
    scheduled: AtomicBool,
    weak: WeakSlot,
}

confined!(TimerHandle { bound, when, given, token, scheduled, weak });

impl TimerHandle {
    #[inline(always)]
    pub(crate) fn new(bound: Bound, when: f64, given: Option<Owned>) -> Self {
        Self {
            bound,
            when,
            given: given.map_or_else(ObjCell::empty, ObjCell::new),
            token: OnceLock::new(),
            scheduled: AtomicBool::new(true),
            weak: WeakSlot::new(),
        }
    }

    /// Says which timer of the loop's core is this one's. Once, before anybody else sees the handle.
    #[inline]
    pub(crate) fn armed(&self, token: TimerToken) {
        // A second time does not happen, and would change nothing.
        let _ = self.token.set(token);
    }

    /// The core has no timer for it any more.
    #[inline]
    pub(crate) fn fired(&self) {
        self.scheduled.store(false, Relaxed);
    }

    fn cancel(py: Attached<'_>, this: Instance<'_, Self>) -> PyResult<()> {
        bound::cancel(py, this)?;
        if !this.scheduled.swap(false, Relaxed) {
            return Ok(());
        }
        match this.token.get() {
            Some(token) => this.bound.owner().cancel_timer(py, *token),
            None => Ok(()),
        }
    }

    fn when(py: Attached<'_>, this: Instance<'_, Self>) -> PyResult<Owned> {
        match this.given.get(py) {
            Some(given) => Ok(given),
            None => Owned::float(py, this.when),
        }
    }

    /// asyncio's own comparisons, which ask for nothing but attributes that we have.
    fn compare(
        py: Attached<'_>,
        this: Instance<'_, Self>,
        other: Borrowed<'_>,
        op: Compare,
    ) -> PyResult<Owned> {
        let native = this.bound.native();
        if op == Compare::Ne {
            let equal = Self::compare(py, this, other, Compare::Eq)?;
            if equal.is(&Owned::not_implemented(py)) {
                return Ok(equal);
            }
            return Ok(Owned::bool(py, !equal.is_true(py)?));
        }
        let names = &native.names;
        let name = match op {
            Compare::Lt => &names.dunder_lt,
            Compare::Le => &names.dunder_le,
            Compare::Gt => &names.dunder_gt,
            Compare::Ge => &names.dunder_ge,
            Compare::Eq | Compare::Ne => &names.dunder_eq,
        };
        native.asyncio_timer_handle.call_method(py, name, [this.object(), other])
    }

    fn hash(py: Attached<'_>, this: Instance<'_, Self>) -> PyResult<isize> {
        let native = this.bound.native();
        let hash = native.asyncio_timer_handle.call_method1(py, &native.names.dunder_hash, &this.object())?;
        Ok(hash.to_i64(py)? as isize)
    }
}

impl IsHandle for TimerHandle {
    #[inline]
    fn bound(&self) -> &Bound {
        &self.bound
    }

    fn stands_for<'a>(&self, native: &'a Native) -> &'a Fixed {
        &native.asyncio_timer_handle
    }
}

impl Traverse for TimerHandle {
    fn traverse(&self, visit: &mut Visit<'_>) -> Visited {
        self.bound.traverse(visit)?;
        self.given.traverse(visit)
    }
}

impl Class for TimerHandle {
    const NAME: &'static CStr = c"erlang._native.TimerHandle";
    const DOC: &'static CStr = c"What is returned for a callback that was scheduled for a time.";
    const GC: bool = false;
    const CHAINS: bool = false;
    const POOLED: bool = true;
    const WEAKREFS: Option<Offset<Self, WeakSlot>> = Some(offset!(TimerHandle, weak));
    const METHODS: &'static [Method<Self>] = &[
        Method::noargs(c"cancel", TimerHandle::cancel, c"cancel($self)\n--\n\nThe callback will not run."),
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
        Method::noargs(
            c"when",
            TimerHandle::when,
            c"when($self)\n--\n\nThe time it is due, as loop.time() counts.",
        ),
        Method::noargs(c"_run", bound::run::<Self>, c"_run($self)\n--\n\n"),
        Method::noargs(c"_repr_info", bound::repr_info::<Self>, c"_repr_info($self)\n--\n\n"),
        Method::END,
    ];
    const PROPERTIES: &'static [Property<Self>] = &[
        Property::read(c"__class__", bound::class::<Self>, c"asyncio.TimerHandle"),
        Property::read(c"_callback", bound::callback::<Self>, c""),
        Property::read(c"_args", bound::args::<Self>, c""),
        Property::read(c"_cancelled", bound::cancelled::<Self>, c""),
        Property::read(c"_loop", bound::owner::<Self>, c""),
        Property::read(c"_context", bound::context::<Self>, c""),
        Property::read(c"_source_traceback", bound::traceback::<Self>, c""),
        Property::read(c"_repr", bound::kept_repr::<Self>, c""),
        Property::read(c"_when", TimerHandle::when, c""),
        Property::<Self>::read(c"_scheduled", |_, this| Ok(this.scheduled.load(Relaxed)), c""),
        Property::END,
    ];
    const SLOTS: &'static [TypeSlot<Self>] = &[
        TypeSlot::repr(bound::repr::<Self>),
        TypeSlot::compare(TimerHandle::compare),
        TypeSlot::hash(TimerHandle::hash),
    ];

    #[inline(always)]
    fn pool(&self, py: Attached<'_>) -> Option<PoolRef> {
        Some(self.bound.pool(py, |native| &native.timer_handle))
    }
}
