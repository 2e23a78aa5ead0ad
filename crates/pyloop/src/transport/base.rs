//! `Base`: what every transport has, and how its fd is listened to.
//!
//! The fd is registered only while it is listened to for something, and the registration is what keeps an idle transport
//! alive. Whoever owns the fd closes it after [`leave`](super::leave) only.

use std::ffi::CStr;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

use evloop::os::now;
use evloop::{Interest, SourceToken};
use pyrt::{
    Attached, Borrowed, Class, Guarded, Imported, Instance, ObjCell, Owned, PyResult, Snapshot, Stay,
    Traverse, Typed, Visit, Visited, confined, run_in,
};

use super::Parts;
use crate::event_loop::Loop;
use crate::schedule::seconds;

/// What the fd is registered for, if it is.
#[derive(Default)]
struct Registration {
    token: Option<SourceToken>,
    interest: Interest,
}

confined!(Registration { token, interest });

/// What every transport has.
pub(crate) struct Base {
    pub(crate) owner: Typed<Loop>,
    /// The number that is listened to.
    pub(crate) fd: i32,
    /// The Python socket or pipe, until it is closed.
    pub(crate) file: ObjCell,
    pub(crate) protocol: ObjCell,
    pub(crate) extra: ObjCell,
    /// The contexts in which the protocol is told of what can be read, and of room to write; empty for one without variables.
    pub(crate) reading_in: ObjCell,
    pub(crate) writing_in: ObjCell,
    registration: Guarded<Registration>,
    /// Not 0 once connection_lost is scheduled; then it counts the writes that come too late.
    pub(crate) conn_lost: AtomicU32,
    pub(crate) closing: AtomicBool,
    pub(crate) paused: AtomicBool,
    /// Whether the protocol is to hear of the end.
    pub(crate) connected: AtomicBool,
}

confined!(Base {
    owner,
    fd,
    file,
    protocol,
    extra,
    reading_in,
    writing_in,
    registration,
    conn_lost,
    closing,
    paused,
    connected
});

impl Traverse for Base {
    fn traverse(&self, visit: &mut Visit<'_>) -> Visited {
        self.owner.traverse(visit)?;
        self.cells().into_iter().try_for_each(|cell| cell.traverse(visit))
    }

    fn clear(&self, py: Attached<'_>) {
        for cell in self.cells() {
            cell.clear(py);
        }
    }
}

impl Base {
    /// The protocol hears of what it reads in the context of whoever made the transport.
    pub(crate) fn new(
        py: Attached<'_>,
        owner: Typed<Loop>,
        fd: i32,
        file: Borrowed<'_>,
        extra: Owned,
    ) -> PyResult<Self> {
        Ok(Self {
            owner,
            fd,
            file: ObjCell::new(file.clone_ref(py)),
            protocol: ObjCell::empty(),
            extra: ObjCell::new(extra),
            reading_in: Snapshot::current(py)?.into_object().map_or_else(ObjCell::empty, ObjCell::new),
            writing_in: ObjCell::empty(),
            registration: Guarded::default(),
            conn_lost: AtomicU32::new(0),
            closing: AtomicBool::new(false),
            paused: AtomicBool::new(false),
            connected: AtomicBool::new(false),
        })
    }

    fn cells(&self) -> [&ObjCell; 5] {
        [&self.file, &self.protocol, &self.extra, &self.reading_in, &self.writing_in]
    }

    /// What transports need of their interpreter.
    #[inline]
    pub(crate) fn parts(&self) -> &Parts {
        &self.owner.payload().native().transport
    }

    #[inline]
    pub(crate) fn is_open(&self, py: Attached<'_>) -> bool {
        self.file.is_set(py)
    }

    #[inline]
    pub(crate) fn is_closing(&self) -> bool {
        self.closing.load(Relaxed)
    }

    #[inline]
    pub(crate) fn is_lost(&self) -> bool {
        self.conn_lost.load(Relaxed) != 0
    }

    #[inline]
    pub(crate) fn is_reading(&self) -> bool {
        !self.is_closing() && !self.paused.load(Relaxed)
    }

    /// What the fd is listened to for.
    #[inline]
    pub(crate) fn interest(&self, py: Attached<'_>) -> PyResult<Interest> {
        self.registration.with(py, |registration| registration.interest)
    }

    pub(crate) fn set_protocol(&self, py: Attached<'_>, protocol: Borrowed<'_>) {
        self.protocol.set(py, protocol.clone_ref(py));
        self.connected.store(true, Relaxed);
    }

    /// One more write that comes too late; said when there were several.
    pub(crate) fn write_is_late(&self, py: Attached<'_>, text: &CStr) -> PyResult<()> {
        if self.conn_lost.load(Relaxed) >= super::SILENT {
            let text = Owned::interned(py, text)?;
            self.parts().lost_write.get(py)?.call1(py, &text)?;
        }
        self.conn_lost.fetch_add(1, Relaxed);
        Ok(())
    }
}

/// A class of transports.
pub(crate) trait Transport: Class {
    fn base(&self) -> &Base;

    /// The fd can be read, and is listened to for that.
    fn read_ready(py: Attached<'_>, this: Instance<'_, Self>) -> PyResult<()>;

    /// The fd can be written, and is listened to for that.
    fn write_ready(py: Attached<'_>, this: Instance<'_, Self>) -> PyResult<()>;

    /// The last step: the file is closed, and whatever else is let go.
    fn close_file(py: Attached<'_>, this: Instance<'_, Self>, file: Owned) -> PyResult<()>;

    /// What was put off is sent, as if it had not been.
    fn settle(&self, _py: Attached<'_>) -> PyResult<()> {
        Ok(())
    }

    /// What waits is dropped.
    fn drop_queue(&self, _py: Attached<'_>) -> PyResult<()> {
        Ok(())
    }

    /// The dict of `get_extra_info`.
    fn extra(&self, py: Attached<'_>) -> PyResult<Option<Owned>> {
        Ok(self.base().extra.get(py))
    }

    /// Says that an error ends it.
    fn report_fatal(parts: &Parts) -> &Imported {
        &parts.report_fatal
    }
}

/// Listens for exactly this; for nothing means that the fd is not registered.
pub(crate) fn listen<T: Transport>(
    py: Attached<'_>,
    this: Instance<'_, T>,
    wanted: Interest,
) -> PyResult<()> {
    let base = this.payload().base();
    let (token, before) =
        base.registration.with(py, |registration| (registration.token, registration.interest))?;
    if before == wanted {
        return Ok(());
    }
    let token = match token {
        Some(token) if wanted == Interest::NONE => {
            base.registration.with(py, std::mem::take)?;
            base.owner.deregister(py, token, base.fd)?;
            return Ok(());
        }
        Some(token) => {
            base.owner.set_interest(py, token, wanted)?;
            token
        }
        None => {
            base.owner.check_open(py)?;
            let target = this.object().clone_ref(py);
            base.owner.register(py, base.fd.into(), base.fd, wanted, target, ready::<T>)?
        }
    };
    base.registration.with(py, |registration| {
        *registration = Registration { token: Some(token), interest: wanted };
    })
}

pub(crate) fn listen_also<T: Transport>(
    py: Attached<'_>,
    this: Instance<'_, T>,
    direction: Interest,
) -> PyResult<()> {
    let wanted = this.payload().base().interest(py)?.with(direction);
    listen(py, this, wanted)
}

pub(crate) fn listen_no_more<T: Transport>(
    py: Attached<'_>,
    this: Instance<'_, T>,
    direction: Interest,
) -> PyResult<()> {
    let wanted = this.payload().base().interest(py)?.without(direction);
    listen(py, this, wanted)
}

/// The fd is ready. What is not listened for any more is left alone: a callback of this very turn may have seen to that.
fn ready<T: Transport>(py: Attached<'_>, target: Borrowed<'_>, what: Interest) -> PyResult<()> {
    // SAFETY: `listen` registers this function with an instance of this class, and nobody else does.
    let this = unsafe { Instance::<T>::assume(target) };
    if this.payload().base().owner.is_debug() { ready_in_debug(py, this, what) } else { act(py, this, what) }
}

#[inline]
fn act<T: Transport>(py: Attached<'_>, this: Instance<'_, T>, what: Interest) -> PyResult<()> {
    let base = this.payload().base();
    if what.contains(Interest::READ) && base.interest(py)?.contains(Interest::READ) {
        within(py, base, &base.reading_in, || T::read_ready(py, this))?;
    }
    if what.contains(Interest::WRITE) && base.interest(py)?.contains(Interest::WRITE) {
        within(py, base, &base.writing_in, || T::write_ready(py, this))?;
    }
    Ok(())
}

/// Runs something in the context of a cell. Variables that it sets are there the next time.
#[inline]
fn within(py: Attached<'_>, base: &Base, cell: &ObjCell, f: impl FnOnce() -> PyResult<()>) -> PyResult<()> {
    if let Some(context) = cell.get(py) {
        return run_in(py, &context, f);
    }
    let (result, left) = Stay::new(&base.owner.payload().spare_context).run(py, f)?;
    if let Some(context) = left.filter(|_| !base.is_lost()) {
        cell.set(py, context);
    }
    result
}

/// Writes down the context of whoever calls, for what comes later.
pub(crate) fn remember_context(py: Attached<'_>, cell: &ObjCell) -> PyResult<()> {
    match Snapshot::current(py)?.into_object() {
        Some(context) => cell.set(py, context),
        None => cell.clear(py),
    }
    Ok(())
}

/// With a look at the clock, as asyncio's debug mode has for its handles.
#[cold]
fn ready_in_debug<T: Transport>(py: Attached<'_>, this: Instance<'_, T>, what: Interest) -> PyResult<()> {
    let started = now();
    act(py, this, what)?;
    let took = Owned::float(py, seconds(now().saturating_sub(started)))?;
    let base = this.payload().base();
    let report = base.parts().slow.get(py)?;
    report.call(py, [base.owner.object().borrow(), this.object(), took.borrow()]).map(drop)
}

/// A line for asyncio's log in debug mode.
#[inline]
pub(crate) fn debug<T: Transport>(py: Attached<'_>, this: Instance<'_, T>, text: &CStr) -> PyResult<()> {
    say(py, this, &this.payload().base().parts().debug, text)
}

/// One that is worth more than those for debugging, in debug mode.
pub(crate) fn note<T: Transport>(py: Attached<'_>, this: Instance<'_, T>, text: &CStr) -> PyResult<()> {
    say(py, this, &this.payload().base().parts().note, text)
}

#[inline]
fn say<T: Transport>(
    py: Attached<'_>,
    this: Instance<'_, T>,
    report: &Imported,
    text: &CStr,
) -> PyResult<()> {
    if !this.payload().base().owner.is_debug() {
        return Ok(());
    }
    let text = Owned::interned(py, text)?;
    report.get(py)?.call(py, [text.borrow(), this.object()]).map(drop)
}
