//! `Loop`: the class, its tables and its flags. Any attached thread may call it; the loop's thread turns it.

use std::ffi::CStr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use evloop::os::now;
use pyrt::{
    Args, Attached, Borrowed, Class, Guarded, Instance, Kind, Method, ObjCell, Owned, PoolRef, Property,
    PyResult, StateRef, Traverse, Type, TypeSlot, Visit, Visited, confined,
};

use crate::entry::Source;
use crate::fault;
use crate::module::{MODULE, Native};
use crate::schedule::seconds;
use crate::state::{PyCore, State};
use crate::stream::Held;
use crate::transport::{Scratch, Table};

/// The native part of an event loop.
pub struct Loop {
    pub(crate) state: Guarded<State>,
    native: StateRef<Native>,
    /// What TLS connections have in common.
    pub(crate) tls: crate::tls::Shared,
    stopping: AtomicBool,
    closed: AtomicBool,
    /// `time()` is not ours: the class has another, or the instance.
    pub(crate) other_clock: AtomicBool,
    /// The truth of `debug`, which is what was set.
    is_debug: AtomicBool,
    debug: ObjCell,
    /// The ident of the thread that runs the loop, as asyncio sets it.
    thread: ObjCell,
    /// Where transports read to: one buffer for all of them, made by the first.
    pub(crate) scratch: Guarded<Scratch>,
    pub(crate) task_factory: ObjCell,
    /// A future that is done.
    pub(crate) done: ObjCell,
    /// The context without variables, while nothing runs in it.
    pub(crate) spare_context: ObjCell,
    /// The keywords of tasks, and of those that begin at once: the same for all of them.
    pub(crate) plain: ObjCell,
    pub(crate) keywords: ObjCell,
    pub(crate) transports: Guarded<Table>,
    /// What transports have put off until the end of the turn.
    pub(crate) held: Held,
}

confined!(Loop {
    state,
    native,
    tls,
    stopping,
    closed,
    other_clock,
    is_debug,
    debug,
    thread,
    scratch,
    task_factory,
    done,
    spare_context,
    plain,
    keywords,
    transports,
    held
});

impl Traverse for Loop {
    fn traverse(&self, visit: &mut Visit<'_>) -> Visited {
        self.state.traverse(visit)?;
        self.task_factory.traverse(visit)?;
        self.done.traverse(visit)?;
        self.plain.traverse(visit)?;
        self.keywords.traverse(visit)?;
        self.native.traverse(visit)?;
        self.tls.traverse(visit)?;
        self.held.traverse(visit)
    }

    fn clear(&self, py: Attached<'_>) {
        self.state.clear(py);
        self.task_factory.clear(py);
        self.done.clear(py);
        self.plain.clear(py);
        self.keywords.clear(py);
        self.held.clear(py);
    }
}

impl Class for Loop {
    const NAME: &'static CStr = c"erlang._native.Loop";
    const DOC: &'static CStr =
        c"The native part of an event loop. Comes first among the bases of erlang.ErlangEventLoop.";
    const SUBCLASSABLE: bool = true;
    const METHODS: &'static [Method<Self>] = &[
        Method::fast(c"call_soon", Loop::call_soon, c"call_soon($self, callback, /, *args, context=None)\n--\n\nCalls it in the next turn."),
        Method::fast(
            c"call_soon_threadsafe",
            Loop::call_soon_threadsafe,
            c"call_soon_threadsafe($self, callback, /, *args, context=None)\n--\n\ncall_soon() from any thread.",
        ),
        Method::fast(c"call_later", Loop::call_later, c"call_later($self, delay, callback, /, *args, context=None)\n--\n\nCalls it after a delay in seconds, never earlier."),
        Method::fast(c"call_at", Loop::call_at, c"call_at($self, when, callback, /, *args, context=None)\n--\n\nCalls it at a time on the loop's clock, never earlier."),
        Method::noargs(c"create_future", Loop::create_future, c"create_future($self)\n--\n\nA Future of this loop."),
        Method::fast(c"create_task", Loop::create_task, c"create_task($self, coro, *, name=None, context=None)\n--\n\nRuns a coroutine as a Task."),
        Method::<Self>::noargs(c"time", |_, _| Ok(seconds(now())), c"time($self)\n--\n\nThe loop's clock in seconds."),
        Method::<Self>::noargs(c"stop", Loop::stop, c"stop($self)\n--\n\nEnds run_forever() after this turn."),
        Method::<Self>::noargs(c"is_running", Loop::is_running, c"is_running($self)\n--\n\nWhether it runs."),
        Method::<Self>::noargs(c"is_closed", |_, this| Ok(this.is_closed()), c"is_closed($self)\n--\n\nWhether it was closed."),
        Method::<Self>::noargs(c"get_debug", Loop::get_debug, c"get_debug($self)\n--\n\nWhether debug mode is on."),
        Method::fast(c"add_reader", Loop::add_user_reader, c"add_reader($self, fd, callback, /, *args)\n--\n\nCalls back whenever the fd can be read."),
        Method::fast(c"add_writer", Loop::add_user_writer, c"add_writer($self, fd, callback, /, *args)\n--\n\nCalls back whenever the fd can be written."),
        Method::one(c"remove_reader", Loop::remove_user_reader, c"remove_reader($self, fd, /)\n--\n\nEnds add_reader(); whether there was one."),
        Method::one(c"remove_writer", Loop::remove_user_writer, c"remove_writer($self, fd, /)\n--\n\nEnds add_writer(); whether there was one."),
        Method::fast(c"_add_reader", Loop::add_reader, c"_add_reader($self, fd, callback, /, *args)\n--\n\n"),
        Method::fast(c"_add_writer", Loop::add_writer, c"_add_writer($self, fd, callback, /, *args)\n--\n\n"),
        Method::one(c"_remove_reader", Loop::remove_reader, c"_remove_reader($self, fd, /)\n--\n\n"),
        Method::one(c"_remove_writer", Loop::remove_writer, c"_remove_writer($self, fd, /)\n--\n\n"),
        Method::fast(c"sock_recv", Loop::sock_recv, c"sock_recv($self, sock, n)\n--\n\nReceives up to n bytes."),
        Method::fast(c"sock_recv_into", Loop::sock_recv_into, c"sock_recv_into($self, sock, buf)\n--\n\nReceives into a buffer; how many bytes."),
        Method::fast(c"sock_recvfrom", Loop::sock_recvfrom, c"sock_recvfrom($self, sock, bufsize)\n--\n\nReceives a datagram: (data, address)."),
        Method::fast(c"sock_recvfrom_into", Loop::sock_recvfrom_into, c"sock_recvfrom_into($self, sock, buf, nbytes=0)\n--\n\nReceives a datagram into a buffer: (size, address)."),
        Method::fast(c"sock_sendall", Loop::sock_sendall, c"sock_sendall($self, sock, data)\n--\n\nSends all of it."),
        Method::fast(c"sock_sendto", Loop::sock_sendto, c"sock_sendto($self, sock, data, address)\n--\n\nSends a datagram; how many bytes."),
        Method::fast(c"sock_accept", Loop::sock_accept, c"sock_accept($self, sock)\n--\n\nAccepts a connection: (socket, address)."),
        Method::fast(c"_sock_connect_to", Loop::sock_connect_to, c"_sock_connect_to($self, sock, address)\n--\n\nConnects to an address that needs no lookup."),
        Method::one(c"_transport_of", Loop::transport_of, c"_transport_of($self, fd, /)\n--\n\nThe transport that has an fd, or None."),
        Method::fast(c"_keep_transport", Loop::keep_transport, c"_keep_transport($self, fd, transport, /)\n--\n\nSays which transport has an fd; it is not kept alive."),
        Method::<Self>::noargs(c"_all_transports", Loop::all_transports, c"_all_transports($self)\n--\n\nThe transports, by fd; a copy."),
        Method::fast(c"_watch_pid", Loop::watch_pid, c"_watch_pid($self, pid, transport, /)\n--\n\nTells the transport when the child has ended; False if the kernel cannot."),
        Method::one(c"_registration", Loop::registration, c"_registration($self, fd, /)\n--\n\n"),
        Method::one(c"_add_callback", Loop::add_callback, c"_add_callback($self, handle, /)\n--\n\n"),
        Method::one(c"_add_callback_signalsafe", Loop::add_callback, c"_add_callback_signalsafe($self, handle, /)\n--\n\n"),
        Method::one(c"_timer_handle_cancelled", Loop::timer_handle_cancelled, c"_timer_handle_cancelled($self, handle, /)\n--\n\n"),
        Method::<Self>::noargs(c"_write_to_self", |py, this| this.rouse(py), c"_write_to_self($self)\n--\n\nWakes the loop."),
        Method::<Self>::noargs(c"_check_closed", |py, this| this.check_open(py), c"_check_closed($self)\n--\n\n"),
        Method::<Self>::noargs(c"_run_once", Loop::run_once, c"_run_once($self)\n--\n\nOne turn."),
        Method::<Self>::noargs(c"_run_native", Loop::run, c"_run_native($self)\n--\n\nTurns until stop() is called."),
        Method::one(c"_run_ready", Loop::run_ready, c"_run_ready($self, seconds, /)\n--\n\nTurns until nothing is ready, without waiting: 0 if so, 1 if the time was over, 2 if stop() was called."),
        Method::<Self>::noargs(c"_release", Loop::release, c"_release($self)\n--\n\nLets go of everything, fds included."),
        Method::<Self>::noargs(c"_native_stats", Loop::stats, c"_native_stats($self)\n--\n\nWhat the loop holds and has counted."),
        Method::END,
    ];
    const PROPERTIES: &'static [Property<Self>] = &[
        Property::<Self>::read(c"_stopping", |_, this| Ok(this.is_stopping()), c"")
            .write(|py, this, value| this.set_flag(py, &this.stopping, value)),
        Property::<Self>::read(c"_closed", |_, this| Ok(this.is_closed()), c"")
            .write(|py, this, value| this.set_flag(py, &this.closed, value)),
        Property::<Self>::read(c"_debug", Loop::get_debug, c"").write(Loop::set_debug),
        Property::<Self>::read(c"_thread_id", |py, this| Ok(this.thread.get(py)), c"")
            .write(|py, this, value| set_or_clear(py, &this.thread, value)),
        Property::<Self>::read(c"_task_factory", |py, this| Ok(this.task_factory.get(py)), c"")
            .write(|py, this, value| set_or_clear(py, &this.task_factory, value)),
        Property::<Self>::read(c"_ready", Loop::ready, c"What is to run in the next turn; a copy.")
            .write(|_, _, _| Ok(())),
        Property::<Self>::read(c"_scheduled", Loop::scheduled, c"The timers, in no order; a copy.")
            .write(|_, _, _| Ok(())),
        Property::END,
    ];
    const SLOTS: &'static [TypeSlot<Self>] =
        &[TypeSlot::new(Loop::new), TypeSlot::setattr(Loop::set_attribute)];
}

impl Loop {
    fn new(py: Attached<'_>, class: Borrowed<'_>, _args: Args<'_>) -> PyResult<Self> {
        let state = State::open().map_err(|error| fault::raise(py, error))?;
        let native = MODULE.state_ref(py, &class)?;
        Ok(Self {
            state: Guarded::new(state),
            other_clock: AtomicBool::new(native.has_other_clock(py, class)?),
            native,
            tls: crate::tls::Shared::default(),
            stopping: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            is_debug: AtomicBool::new(false),
            debug: ObjCell::empty(),
            thread: ObjCell::empty(),
            scratch: Guarded::default(),
            task_factory: ObjCell::empty(),
            done: ObjCell::empty(),
            spare_context: ObjCell::empty(),
            plain: ObjCell::empty(),
            keywords: ObjCell::empty(),
            transports: Guarded::default(),
            held: Held::default(),
        })
    }

    /// The state of the module.
    #[inline]
    pub fn native(&self) -> &Native {
        &self.native
    }

    /// The pool of a type of ours.
    #[inline(always)]
    pub(crate) fn pool<T: Class>(&self, py: Attached<'_>, of: impl FnOnce(&Native) -> &Type<T>) -> PoolRef {
        self.native.pool(py, of)
    }

    /// Whether debug mode is on.
    #[inline]
    pub fn is_debug(&self) -> bool {
        self.is_debug.load(Relaxed)
    }

    /// Whether the loop was closed.
    #[inline]
    pub fn is_closed(&self) -> bool {
        self.closed.load(Relaxed)
    }

    #[inline]
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Relaxed)
    }

    /// A `RuntimeError` if the loop was closed.
    #[inline]
    pub fn check_open(&self, py: Attached<'_>) -> PyResult<()> {
        if self.is_closed() { Err(fault::closed(py)) } else { Ok(()) }
    }

    fn stop(_py: Attached<'_>, this: Instance<'_, Self>) -> PyResult<()> {
        this.stopping.store(true, Relaxed);
        Ok(())
    }

    fn is_running(py: Attached<'_>, this: Instance<'_, Self>) -> PyResult<bool> {
        Ok(this.thread.is_set(py))
    }

    fn get_debug(py: Attached<'_>, this: Instance<'_, Self>) -> PyResult<Owned> {
        Ok(this.debug.get(py).unwrap_or_else(|| Owned::bool(py, false)))
    }

    fn set_debug(py: Attached<'_>, this: Instance<'_, Self>, value: Option<Borrowed<'_>>) -> PyResult<()> {
        let value = set_to(py, value)?;
        this.is_debug.store(value.is_true(py)?, Relaxed);
        this.debug.set(py, value.clone_ref(py));
        Ok(())
    }

    fn set_flag(&self, py: Attached<'_>, flag: &AtomicBool, value: Option<Borrowed<'_>>) -> PyResult<()> {
        flag.store(set_to(py, value)?.is_true(py)?, Relaxed);
        Ok(())
    }

    /// Wakes the loop's thread if it waits.
    pub(crate) fn rouse(&self, py: Attached<'_>) -> PyResult<()> {
        if let Some(poller) = self.state.with(py, State::rouse)? {
            poller.wake();
        }
        Ok(())
    }

    fn ready(py: Attached<'_>, this: Instance<'_, Self>) -> PyResult<Owned> {
        let handles = this.state.with(py, |state| {
            let handles = state.ready.iter().filter_map(|entry| entry.handle());
            handles.map(|handle| handle.clone_ref(py)).collect::<Vec<_>>()
        })?;
        Owned::list_of(py, handles)
    }

    fn scheduled(py: Attached<'_>, this: Instance<'_, Self>) -> PyResult<Owned> {
        let handles = this.state.with(py, |state| match &state.core {
            Some(PyCore(core)) => core.timer_payloads().map(|timer| timer.object().clone_ref(py)).collect(),
            None => Vec::new(),
        })?;
        Owned::list_of(py, handles)
    }

    /// The last step of `close()`: epoll and its fds go, and with them every callback that was to come.
    fn release(py: Attached<'_>, this: Instance<'_, Self>) -> PyResult<()> {
        this.closed.store(true, Relaxed);
        drop(this.scratch.with(py, std::mem::take)?);
        this.done.clear(py);
        this.plain.clear(py);
        this.keywords.clear(py);
        this.held.clear(py);
        let mut state = this.state.with(py, std::mem::take)?;
        // Outside of the guard: callbacks have destructors.
        state.forget(py)
    }

    fn stats(py: Attached<'_>, this: Instance<'_, Self>) -> PyResult<Owned> {
        let (ready, numbers) = this.state.with(py, |state| {
            let numbers = state.core.as_ref().map(|PyCore(core)| (busy(core), core.timers(), core.counts()));
            (state.ready.len(), numbers.unwrap_or_default())
        })?;
        let (sources, timers, counts) = numbers;
        let stats = Owned::dict(py)?;
        let rows = [
            (c"ready", ready as u64),
            (c"sources", sources as u64),
            (c"timers", timers as u64),
            (c"wakeups", counts.wakeups),
            (c"polls", counts.polls),
            (c"stale_events", counts.stale_events),
            (c"rebuilds", counts.rebuilds),
        ];
        for (name, value) in rows {
            stats.dict_set(py, &Owned::interned(py, name)?, &Owned::uint(py, value)?)?;
        }
        Ok(stats)
    }
}

/// How many registrations there are that somebody waits for.
fn busy<T, M: Send>(core: &evloop::Core<Source, T, M>) -> usize {
    core.source_payloads().filter(|source| !source.is_idle()).count()
}

/// `None` empties the place.
fn set_or_clear(py: Attached<'_>, place: &ObjCell, value: Option<Borrowed<'_>>) -> PyResult<()> {
    let value = set_to(py, value)?;
    drop(place.replace(py, (!value.is_none()).then(|| value.clone_ref(py))));
    Ok(())
}

fn set_to<'a>(py: Attached<'_>, value: Option<Borrowed<'a>>) -> PyResult<Borrowed<'a>> {
    value.ok_or_else(|| Kind::AttributeError.raise(py, "cannot delete attribute"))
}
