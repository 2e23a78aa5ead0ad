//! `Entry`: one thing that is ready to run, and `Source`: whose an fd is. Both live in the loop's state.

use evloop::Interest;
use pyrt::{Attached, Borrowed, Confined, Owned, PyResult, Traverse, Typed, Visit, Visited};

use crate::along::Along;
use crate::bound::{IsHandle, perform, run_foreign};
use crate::handle::Handle;
use crate::module::Native;
use crate::sock::Operation;
use crate::timer::TimerHandle;

/// What a native object does when its fd is ready, or when its turn has come (then with no interest).
///
/// Called on the loop's thread with nothing of the loop borrowed. An exception goes to the loop's exception handler.
pub type ReadyFn = fn(Attached<'_>, Borrowed<'_>, Interest) -> PyResult<()>;

/// Work that a thread which is not attached has handed over. It is told whether more of the kind follows at once.
pub type Posted = Box<dyn FnOnce(Attached<'_>, bool) + Send>;

/// Something in the ready queue. With a tag of a whole word it is moved word by word: it is moved several times in its life.
#[repr(u64)]
pub(crate) enum Entry {
    Soon(Typed<Handle>),
    /// The handle of a reader or writer, which stays registered.
    Event(Typed<Handle>),
    Timer(Typed<TimerHandle>),
    /// A handle of asyncio's own making, such as that of a signal.
    Foreign(Owned),
    Native(Owned, ReadyFn, Interest),
    Posted(Posted),
}

// SAFETY: references, a function pointer, a flag, and a closure that is `Send`.
unsafe impl Confined for Entry {}

impl Traverse for Entry {
    fn traverse(&self, visit: &mut Visit<'_>) -> Visited {
        match self {
            Self::Soon(handle) | Self::Event(handle) => handle.bound().show(handle.object(), visit),
            Self::Timer(handle) => handle.bound().show(handle.object(), visit),
            Self::Foreign(object) | Self::Native(object, ..) => object.traverse(visit),
            Self::Posted(_) => Ok(()),
        }
    }
}

impl Entry {
    /// Runs it: handles in their context, all else outside of it. What comes back as an error ends the loop's run.
    #[inline]
    pub(crate) fn run(self, py: Attached<'_>, native: &Native, along: &mut Along<'_>) -> PyResult<()> {
        match self {
            Self::Soon(handle) => perform(py, handle.instance(), true, along),
            Self::Event(handle) => handle.bound().run(py, handle.object(), false, along),
            Self::Timer(handle) => handle.bound().run(py, handle.object(), true, along),
            Self::Foreign(handle) => {
                along.leave(py);
                run_foreign(py, native, handle.borrow())
            }
            Self::Native(target, ready, interest) => {
                along.leave(py);
                match ready(py, target.borrow(), interest) {
                    Ok(()) => Ok(()),
                    Err(raised) => native.native_failed(py, target.borrow(), raised),
                }
            }
            Self::Posted(work) => {
                along.leave(py);
                work(py, false);
                Ok(())
            }
        }
    }

    /// Lets go of the callback, for one that has run or never will.
    #[cold]
    pub(crate) fn forget(&self, py: Attached<'_>) -> PyResult<()> {
        match self {
            Self::Soon(handle) => handle.bound().forget(py),
            Self::Timer(handle) => handle.bound().forget(py),
            Self::Event(_) | Self::Foreign(_) | Self::Native(..) | Self::Posted(_) => Ok(()),
        }
    }

    /// The handle that Python knows it by, if there is one.
    pub(crate) fn handle(&self) -> Option<Borrowed<'_>> {
        match self {
            Self::Soon(handle) | Self::Event(handle) => Some(handle.object().borrow()),
            Self::Timer(handle) => Some(handle.object().borrow()),
            Self::Foreign(object) => Some(object.borrow()),
            Self::Native(..) | Self::Posted(_) => None,
        }
    }
}

/// Who is told that an fd is ready in one direction.
pub(crate) enum Listener {
    /// A callback given to `add_reader` or `add_writer`.
    Handle(Typed<Handle>),
    /// A `sock_*` call.
    Operation(Typed<Operation>),
}

impl Traverse for Listener {
    fn traverse(&self, visit: &mut Visit<'_>) -> Visited {
        match self {
            Self::Handle(handle) => handle.bound().show(handle.object(), visit),
            Self::Operation(operation) => operation.traverse(visit),
        }
    }
}

/// What is registered for the number of an fd that somebody else owns.
pub(crate) struct Listeners {
    pub(crate) fd: i32,
    pub(crate) reader: Option<Listener>,
    pub(crate) writer: Option<Listener>,
    /// A weak reference to the socket that had the number when a `sock_*` call last registered it. A socket has but one such
    /// reference, so to compare them is to compare sockets.
    pub(crate) sock: Option<Owned>,
    /// Nobody waits to read, but epoll listens on: the next call most likely waits for the same.
    pub(crate) resting: bool,
}

impl Listeners {
    pub(crate) fn new(fd: i32) -> Self {
        Self { fd, reader: None, writer: None, sock: None, resting: false }
    }

    /// The place of the listener for one direction.
    pub(crate) fn place(&mut self, direction: Interest) -> &mut Option<Listener> {
        if direction == Interest::READ { &mut self.reader } else { &mut self.writer }
    }

    /// What is listened for on behalf of somebody.
    pub(crate) fn wanted(&self) -> Interest {
        let read = if self.reader.is_some() { Interest::READ } else { Interest::NONE };
        let write = if self.writer.is_some() { Interest::WRITE } else { Interest::NONE };
        read.with(write)
    }
}

/// Whose a registered fd is.
pub(crate) enum Source {
    /// Of callbacks and `sock_*` calls.
    Lent(Listeners),
    /// Of a native object.
    Native(Owned, ReadyFn),
}

impl Source {
    pub(crate) fn listeners(&mut self) -> Option<&mut Listeners> {
        match self {
            Self::Lent(listeners) => Some(listeners),
            Self::Native(..) => None,
        }
    }

    /// Whether nobody waits for it.
    pub(crate) fn is_idle(&self) -> bool {
        matches!(self, Self::Lent(listeners) if listeners.wanted() == Interest::NONE)
    }
}

impl Traverse for Source {
    fn traverse(&self, visit: &mut Visit<'_>) -> Visited {
        match self {
            Self::Lent(listeners) => {
                listeners.reader.traverse(visit)?;
                listeners.writer.traverse(visit)?;
                listeners.sock.traverse(visit)
            }
            Self::Native(object, _) => object.traverse(visit),
        }
    }
}
