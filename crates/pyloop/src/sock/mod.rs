//! `Operation`: one `sock_*` call. It tries at once, and if that has to wait it is tried again whenever the fd is ready.
//!
//! ```text
//!   begin     the loop's methods: which call is made natively, and which by the stdlib's coroutine
//!   attempt   what is tried, call by call
//!   step      its face as a coroutine: send, throw, close
//!   future    its face as a future: what the task that waits for it asks of it
//! ```
//!
//! It is coroutine and future in one: awaited, it returns its result at once, or yields itself as what is to be waited for. So
//! there is one object per call and none per wait, and the task goes on in the very turn that found the fd ready.
//!
//! How it ends. 1. The attempt succeeds or fails: the fd rests (see `listeners`), and whoever waits is called. 2. `cancel()`, as
//! tasks call it: the fd is let go at once, so nothing is received that nobody gets; the task is called in the next turn.
//! 3. `throw()` or `close()` from the coroutine that awaits it: the fd is let go.
//!
//! A socket may be closed by anybody while a call waits. Its number is asked for before each attempt, so no call ever meets a
//! number that has a new owner. The loop's thread only.

use std::ffi::CStr;

use evloop::Interest;
use pyrt::{
    Attached, Borrowed, Buffer, Class, Fixed, Guarded, Instance, Method, Owned, Property, PyResult, Traverse,
    TypeSlot, Typed, Visit, Visited, confined,
};

use crate::event_loop::Loop;

mod attempt;
mod begin;
mod future;
mod parts;
mod step;

pub(crate) use future::ready;
pub(crate) use parts::Parts;

/// What is to be done.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Job {
    Recv(usize),
    RecvInto,
    RecvFrom,
    RecvFromInto,
    SendAll,
    SendTo,
    Accept,
    Connect,
}

impl Job {
    /// What it waits for.
    fn direction(self) -> Interest {
        match self {
            Self::Recv(_) | Self::RecvInto | Self::RecvFrom | Self::RecvFromInto | Self::Accept => {
                Interest::READ
            }
            Self::SendAll | Self::SendTo | Self::Connect => Interest::WRITE,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Recv(_) => "sock_recv",
            Self::RecvInto => "sock_recv_into",
            Self::RecvFrom => "sock_recvfrom",
            Self::RecvFromInto => "sock_recvfrom_into",
            Self::SendAll => "sock_sendall",
            Self::SendTo => "sock_sendto",
            Self::Accept => "sock_accept",
            Self::Connect => "sock_connect",
        }
    }
}

/// How it came out.
enum Outcome {
    Value(Owned),
    Exception(Owned),
    /// With the message that was given.
    Cancelled(Option<Owned>),
}

/// How far it is.
#[derive(Default)]
enum Phase {
    /// Not awaited yet.
    New,
    /// Being tried for the first time.
    Trying,
    /// Waits for the fd.
    Waiting,
    /// Its end is to be told.
    Over(Outcome),
    /// Nothing more comes of it.
    #[default]
    Told,
}

/// What changes.
#[derive(Default)]
struct Progress {
    phase: Phase,
    /// The number it listens to while it waits.
    fd: i32,
    /// It was just yielded, and nobody has said yet that he will wait.
    blocking: bool,
    /// What is to be sent, and how much of it is.
    data: Option<Buffer>,
    sent: usize,
    /// Who is to be called, in which context: one task, as a rule.
    callback: Option<(Owned, Owned)>,
    more: Vec<(Owned, Owned)>,
}

// SAFETY: references, a buffer, and plain data; dropped attached.
unsafe impl pyrt::Confined for Progress {}

impl Traverse for Progress {
    fn traverse(&self, visit: &mut Visit<'_>) -> Visited {
        if let Phase::Over(outcome) = &self.phase {
            match outcome {
                Outcome::Value(object) | Outcome::Exception(object) => object.traverse(visit)?,
                Outcome::Cancelled(message) => message.traverse(visit)?,
            }
        }
        self.callback.iter().chain(&self.more).try_for_each(|(callback, context)| {
            callback.traverse(visit)?;
            context.traverse(visit)
        })
    }
}

/// One call.
pub(crate) struct Operation {
    owner: Typed<Loop>,
    sock: Fixed,
    job: Job,
    /// Of the arguments, those that the socket's own method takes.
    first: Option<Fixed>,
    second: Option<Fixed>,
    progress: Guarded<Progress>,
}

confined!(Operation { owner, sock, job, first, second, progress });

impl Traverse for Operation {
    fn traverse(&self, visit: &mut Visit<'_>) -> Visited {
        self.owner.traverse(visit)?;
        self.sock.traverse(visit)?;
        self.first.traverse(visit)?;
        self.second.traverse(visit)?;
        self.progress.traverse(visit)
    }

    fn clear(&self, py: Attached<'_>) {
        self.progress.clear(py);
    }
}

type This<'a> = Instance<'a, Operation>;

impl Class for Operation {
    const NAME: &'static CStr = c"erlang._native.Operation";
    const DOC: &'static CStr = c"A sock_*() call, to be awaited.";
    const CHAINS: bool = false;
    const METHODS: &'static [Method<Self>] = &[
        Method::one(c"send", Self::send, c"send($self, value, /)\n--\n\n"),
        Method::fast(c"throw", Self::throw, c"throw($self, type, value=None, traceback=None, /)\n--\n\n"),
        Method::<Self>::noargs(c"close", Self::close, c"close($self)\n--\n\n"),
        Method::fast(
            c"add_done_callback",
            Self::add_done_callback,
            c"add_done_callback($self, fn, /, *, context=None)\n--\n\n",
        ),
        Method::one(
            c"remove_done_callback",
            Self::remove_done_callback,
            c"remove_done_callback($self, fn, /)\n--\n\n",
        ),
        Method::fast(c"cancel", Self::cancel, c"cancel($self, msg=None)\n--\n\n"),
        Method::<Self>::noargs(c"cancelled", Self::cancelled, c"cancelled($self)\n--\n\n"),
        Method::<Self>::noargs(c"done", Self::done, c"done($self)\n--\n\n"),
        Method::<Self>::noargs(c"result", Self::result, c"result($self)\n--\n\n"),
        Method::<Self>::noargs(c"exception", Self::exception, c"exception($self)\n--\n\n"),
        Method::<Self>::noargs(
            c"get_loop",
            |py, this| Ok(this.owner.clone_ref(py)),
            c"get_loop($self)\n--\n\n",
        ),
        Method::END,
    ];
    const PROPERTIES: &'static [Property<Self>] = &[
        Property::<Self>::read(c"_asyncio_future_blocking", Self::blocking, c"").write(Self::set_blocking),
        Property::<Self>::read(c"_loop", |py, this| Ok(this.owner.clone_ref(py)), c""),
        Property::<Self>::read(c"__name__", |_, this| Ok(this.job.name()), c""),
        Property::<Self>::read(c"__qualname__", |_, this| Ok(format!("Loop.{}", this.job.name())), c""),
        Property::<Self>::read(c"cr_running", |_, _| Ok(false), c""),
        Property::END,
    ];
    const SLOTS: &'static [TypeSlot<Self>] = &[
        TypeSlot::am_send(Self::step),
        TypeSlot::am_await(itself),
        TypeSlot::iter(itself),
        TypeSlot::iternext(Self::next),
        TypeSlot::repr(Self::repr),
        TypeSlot::finalize(Self::finalize),
    ];
}

fn itself<'py>(py: Attached<'py>, this: This<'py>) -> PyResult<Owned> {
    Ok(this.object().clone_ref(py))
}

/// What a required argument is, after its signature has said that it is there.
fn lost(py: Attached<'_>) -> pyrt::Raised {
    pyrt::Fault::system("a required argument was lost").raise(py)
}

/// An argument that was given and is not `None`.
fn given<'a>(value: Option<Borrowed<'a>>) -> Option<Borrowed<'a>> {
    value.filter(|value| !value.is_none())
}
