//! `Entry`: one thing that is ready to run, and `Source`: whose an fd is. Both live in the loop's state.

use evloop::Interest;
use pyrt::{Attached, Borrowed, Confined, Owned, PyResult, Traverse, Typed, Visit, Visited};

use crate::bound::{IsHandle, run_foreign};
use crate::handle::Handle;
use crate::module::Native;
use crate::timer::TimerHandle;

/// What a native object does when its fd is ready, or when its turn has come (then with no interest).
///
/// Called on the loop's thread with nothing of the loop borrowed. An exception goes to the loop's exception handler.
pub type ReadyFn = fn(Attached<'_>, Borrowed<'_>, Interest) -> PyResult<()>;

/// Work that a thread which is not attached has handed over.
pub(crate) type Posted = Box<dyn FnOnce(Attached<'_>) + Send>;

/// Something in the ready queue.
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
    /// Runs it. What comes back as an error ends the loop's run.
    #[inline]
    pub(crate) fn run(self, py: Attached<'_>, native: &Native) -> PyResult<()> {
        match self {
            Self::Soon(handle) => handle.bound().run(py, handle.object(), true),
            Self::Event(handle) => handle.bound().run(py, handle.object(), false),
            Self::Timer(handle) => handle.bound().run(py, handle.object(), true),
            Self::Foreign(handle) => run_foreign(py, native, handle.borrow()),
            Self::Native(target, ready, interest) => match ready(py, target.borrow(), interest) {
                Ok(()) => Ok(()),
                Err(raised) => native.native_failed(py, target.borrow(), raised),
            },
            Self::Posted(work) => {
                work(py);
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

/// Whose a registered fd is.
pub(crate) enum Source {
    /// Of callbacks given to `add_reader` and `add_writer`.
    Callbacks { fd: i32, reader: Option<Typed<Handle>>, writer: Option<Typed<Handle>> },
    /// Of a native object.
    Native(Owned, ReadyFn),
}

impl Source {
    /// The place of the callback for one direction.
    pub(crate) fn callback(&mut self, direction: Interest) -> Option<&mut Option<Typed<Handle>>> {
        match self {
            Self::Callbacks { reader, .. } if direction == Interest::READ => Some(reader),
            Self::Callbacks { writer, .. } => Some(writer),
            Self::Native(..) => None,
        }
    }

    /// What is listened for, going by the callbacks.
    pub(crate) fn wanted(&self) -> Interest {
        match self {
            Self::Callbacks { reader, writer, .. } => {
                let read = if reader.is_some() { Interest::READ } else { Interest::NONE };
                let write = if writer.is_some() { Interest::WRITE } else { Interest::NONE };
                read.with(write)
            }
            Self::Native(..) => Interest::NONE,
        }
    }
}

impl Traverse for Source {
    fn traverse(&self, visit: &mut Visit<'_>) -> Visited {
        match self {
            Self::Callbacks { reader, writer, .. } => [reader, writer]
                .into_iter()
                .flatten()
                .try_for_each(|handle| handle.bound().show(handle.object(), visit)),
            Self::Native(object, _) => object.traverse(visit),
        }
    }
}
