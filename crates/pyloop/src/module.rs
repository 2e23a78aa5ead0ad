//! The module `erlang._native` and its state: types, names and what is imported, one set per interpreter.

use std::ffi::CStr;

use pyrt::{
    Attached, Borrowed, Fixed, Function, Imported, Instance, Module, ModuleDef, Owned, PyResult, Raised,
    RawObject, Traverse, Type, Visit, Visited, confined, import_from, interned,
};

use crate::arguments::Signatures;
use crate::bound::ends_the_loop;
use crate::child::Child;
use crate::datagram;
use crate::event_loop::Loop;
use crate::handle::Handle;
use crate::pipe;
use crate::roster::Roster;
use crate::sock;
use crate::stream;
use crate::timer::TimerHandle;
use crate::tls;
use crate::transport;

interned! {
    pub(crate) struct Names {
        context,
        fileno,
        set_result,
        erlang,
        name,
        loop_name = "loop",
        eager_start,
        future_class = "Future",
        task_class = "Task",
        ensure_no_transport = "_ensure_fd_no_transport",
        check_callback = "_check_callback",
        check_thread = "_check_thread",
        cancelled = "_cancelled",
        process_exited = "_process_exited",
        time,
        run = "_run",
        repr_info = "_repr_info",
        dunder_repr = "__repr__",
        dunder_hash = "__hash__",
        dunder_eq = "__eq__",
        dunder_lt = "__lt__",
        dunder_le = "__le__",
        dunder_gt = "__gt__",
        dunder_ge = "__ge__",
    }
}

/// The state of the module.
pub struct Native {
    pub(crate) names: Names,
    pub(crate) signatures: Signatures,
    pub(crate) handle: Type<Handle>,
    pub(crate) timer_handle: Type<TimerHandle>,
    pub(crate) event_loop: Type<Loop>,
    roster: Type<Roster>,
    pub(crate) child: Type<Child>,
    pub(crate) tls: tls::Part,
    /// The classes that handles say they are of.
    pub(crate) asyncio_handle: Fixed,
    /// Before 3.14 the same once more.
    pub(crate) asyncio_threadsafe_handle: Fixed,
    pub(crate) asyncio_timer_handle: Fixed,
    /// Rare paths, in Python.
    pub(crate) report: Imported,
    pub(crate) report_native: Imported,
    pub(crate) run_in_debug: Imported,
    pub(crate) lost_status: Imported,
    pub(crate) stack: Imported,
    pub(crate) add: Imported,
    pub(crate) sock: sock::Parts,
    pub(crate) transport: transport::Parts,
    pub(crate) stream: stream::Parts,
    pub(crate) datagram: datagram::Parts,
    pub(crate) pipe: pipe::Parts,
    /// The namespaces of `asyncio.futures` and `asyncio.tasks`: some replace the classes there.
    futures: Fixed,
    tasks: Fixed,
    pub(crate) create_task: Imported,
    /// The names of keyword arguments.
    pub(crate) future_names: Fixed,
    pub(crate) task_names: Fixed,
    pub(crate) factory_names: Fixed,
    /// asyncio's own classes of tasks and futures, whatever others have put in their place; `None` where they are not written in C.
    pub(crate) c_task: Fixed,
    pub(crate) c_future: Fixed,
    /// The empty tuple.
    pub(crate) nothing: Fixed,
}

confined!(Native {
    names,
    signatures,
    handle,
    timer_handle,
    event_loop,
    roster,
    child,
    tls,
    asyncio_handle,
    asyncio_threadsafe_handle,
    asyncio_timer_handle,
    report,
    report_native,
    run_in_debug,
    lost_status,
    stack,
    add,
    sock,
    transport,
    stream,
    datagram,
    pipe,
    futures,
    tasks,
    create_task,
    future_names,
    task_names,
    factory_names,
    c_task,
    c_future,
    nothing
});

impl Traverse for Native {
    fn traverse(&self, visit: &mut Visit<'_>) -> Visited {
        self.handle.traverse(visit)?;
        self.timer_handle.traverse(visit)?;
        self.event_loop.traverse(visit)?;
        self.roster.traverse(visit)?;
        self.child.traverse(visit)?;
        self.tls.traverse(visit)?;
        self.asyncio_handle.traverse(visit)?;
        self.futures.traverse(visit)?;
        self.tasks.traverse(visit)?;
        self.c_task.traverse(visit)?;
        self.c_future.traverse(visit)?;
        self.asyncio_threadsafe_handle.traverse(visit)?;
        self.asyncio_timer_handle.traverse(visit)?;
        self.sock.traverse(visit)?;
        self.transport.traverse(visit)?;
        self.stream.traverse(visit)?;
        self.datagram.traverse(visit)?;
        self.pipe.traverse(visit)?;
        self.imports().into_iter().try_for_each(|imported| imported.traverse(visit))
    }

    fn clear(&self, py: Attached<'_>) {
        self.tls.clear(py);
        self.sock.clear(py);
        self.stream.clear(py);
        self.transport.clear(py);
        self.imports().into_iter().for_each(|imported| imported.clear(py));
    }
}

const RARE: &CStr = c"erlang._handles";

impl Module for Native {
    const NAME: &'static CStr = c"erlang._native";
    const DOC: &'static CStr = c"The event loop's native part.";
    const FUNCTIONS: &'static [Function<Self>] = &[
        Function::<Self>::fast(
            c"interpreter_id",
            |py, _state, _args| Ok(py.interpreter_id()),
            c"interpreter_id()\n--\n\nWhich interpreter this is; 0 is the main one.",
        ),
        Function::<Self>::fast(
            c"accept",
            stream::accept,
            c"accept(loop, protocol_factory, sock, server, backlog, secure=None)\n--\n\nTakes all connections that wait, up to the backlog.",
        ),
        Function::<Self>::fast(
            c"socket_transport",
            stream::open,
            c"socket_transport(loop, sock, protocol, waiter=None, extra=None, server=None, peername=None)\n--\n\nA transport over a connected stream socket, which it owns from now on.",
        ),
        Function::<Self>::fast(
            c"datagram_transport",
            datagram::open,
            c"datagram_transport(loop, sock, protocol, address=None, waiter=None, extra=None)\n--\n\nA transport over a datagram socket, which it owns from now on.",
        ),
        Function::<Self>::fast(
            c"read_pipe_transport",
            pipe::open_read,
            c"read_pipe_transport(loop, pipe, protocol, waiter=None, extra=None)\n--\n\nA transport that reads from a pipe, which it owns from now on.",
        ),
        Function::<Self>::fast(
            c"write_pipe_transport",
            pipe::open_write,
            c"write_pipe_transport(loop, pipe, protocol, waiter=None, extra=None)\n--\n\nA transport that writes to a pipe, which it owns from now on.",
        ),
        Function::END,
    ];

    fn exec(py: Attached<'_>, module: Borrowed<'_>) -> PyResult<Self> {
        pyrt::add(py, &module, c"__version__", &Owned::str(py, env!("CARGO_PKG_VERSION"))?)?;
        let transport = transport::Parts::new(py)?;
        let version = transport.version;
        Ok(Self {
            names: Names::new(py)?,
            signatures: Signatures::new(py)?,
            handle: Type::add_to(py, &module, None)?,
            timer_handle: Type::add_to(py, &module, None)?,
            event_loop: Type::add_to(py, &module, None)?,
            roster: Type::add_to(py, &module, None)?,
            child: Type::add_to(py, &module, None)?,
            tls: tls::Part::new(py, module)?,
            asyncio_threadsafe_handle: import_from(py, c"erlang._stdlib", c"ThreadSafeHandle")?.into(),
            asyncio_handle: import_from(py, c"asyncio.events", c"Handle")?.into(),
            asyncio_timer_handle: import_from(py, c"asyncio.events", c"TimerHandle")?.into(),
            report: Imported::new(RARE, c"report"),
            report_native: Imported::new(RARE, c"report_native"),
            run_in_debug: Imported::new(RARE, c"run_in_debug"),
            lost_status: Imported::new(c"erlang._subprocess", c"lost_status"),
            stack: Imported::new(RARE, c"stack"),
            add: Imported::new(c"operator", c"add"),
            sock: sock::Parts::new(py, module)?,
            transport,
            stream: stream::Parts::new(py, module, version)?,
            datagram: datagram::Parts::new(py, module, version)?,
            pipe: pipe::Parts::new(py, module)?,
            futures: import_from(py, c"asyncio.futures", c"__dict__")?.into(),
            tasks: import_from(py, c"asyncio.tasks", c"__dict__")?.into(),
            create_task: Imported::new(c"erlang._stdlib", c"create_task"),
            future_names: keywords(py, [c"loop"])?,
            task_names: keywords(py, [c"loop", c"name", c"context"])?,
            factory_names: keywords(py, [c"name", c"context"])?,
            c_task: native_class(py, c"asyncio.tasks", c"_CTask").into(),
            c_future: native_class(py, c"asyncio.futures", c"_CFuture").into(),
            nothing: Owned::tuple(py, [])?.into(),
        })
    }
}

impl Native {
    fn imports(&self) -> [&Imported; 7] {
        let (report, native) = (&self.report, &self.report_native);
        [report, native, &self.run_in_debug, &self.lost_status, &self.stack, &self.add, &self.create_task]
    }

    /// asyncio's class of futures, as it is now.
    pub(crate) fn future(&self, py: Attached<'_>) -> PyResult<Owned> {
        self.futures.get_item(py, &self.names.future_class)
    }

    /// asyncio's class of tasks, as it is now.
    pub(crate) fn task(&self, py: Attached<'_>) -> PyResult<Owned> {
        self.tasks.get_item(py, &self.names.task_class)
    }

    /// The stack of the caller of a scheduling method, for debug mode.
    #[cold]
    pub(crate) fn source_traceback(&self, py: Attached<'_>) -> PyResult<Owned> {
        self.stack.get(py)?.call0(py)
    }

    /// What debug mode checks before it schedules a callback: asyncio's own checks, and so its own words.
    #[cold]
    pub(crate) fn check_call(
        &self,
        py: Attached<'_>,
        this: Instance<'_, Loop>,
        callback: Borrowed<'_>,
        method: &CStr,
        thread: bool,
    ) -> PyResult<()> {
        if thread {
            drop(this.object().call_method0(py, &self.names.check_thread)?);
        }
        let method = Owned::interned(py, method)?;
        this.object().call_method(py, &self.names.check_callback, [callback, method.borrow()]).map(drop)
    }

    /// An exception out of a native object: to the exception handler, unless it ends the loop.
    #[cold]
    pub(crate) fn native_failed(
        &self,
        py: Attached<'_>,
        target: Borrowed<'_>,
        raised: Raised,
    ) -> PyResult<()> {
        if ends_the_loop(py, &raised) {
            return Err(raised);
        }
        let exception = raised.take(py).into_value();
        self.report_native.get(py)?.call(py, [target, exception.borrow()]).map(drop)
    }
}

fn keywords<const N: usize>(py: Attached<'_>, names: [&CStr; N]) -> PyResult<Fixed> {
    let names: Vec<Owned> =
        names.into_iter().map(|name| Owned::interned(py, name)).collect::<PyResult<_>>()?;
    Owned::tuple_of(py, Borrowed::slice(&names)).map(Fixed::from)
}

pub(crate) static MODULE: ModuleDef<Native> = ModuleDef::new();

/// What `PyInit__native` returns.
pub fn init() -> RawObject {
    MODULE.init()
}

/// A class of asyncio's own that is written in C; nothing that a class could be where there is none.
fn native_class(py: Attached<'_>, module: &CStr, name: &CStr) -> Owned {
    import_from(py, module, name).unwrap_or_else(|raised| {
        raised.clear(py);
        Owned::none(py)
    })
}
