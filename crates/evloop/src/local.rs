//! `Local`: the loop as seen from its own thread. What is made here need not be `Send`.

use std::cell::RefCell;
use std::future::Future;
use std::marker::PhantomData;
use std::rc::Rc;
use std::task::Waker;

use crate::driver::{LoopState, Source, Timer};
use crate::error::{Error, Rejected, Result};
use crate::job::{Job, Purpose};
use crate::os::{Interest, Nanos};
use crate::shared::Remote;
use crate::sources::Fd;
use crate::task::{self, JoinHandle};
use crate::time::Delay;
use crate::token::{LoopId, SourceToken, TimerToken};

thread_local! {
    /// The loop in whose turn this thread is.
    static CURRENT: RefCell<Option<Rc<LoopState>>> = const { RefCell::new(None) };
}

/// Makes a loop the current one, until dropped; then the one before is again.
pub(crate) struct Entered {
    previous: Option<Rc<LoopState>>,
    _local: PhantomData<*mut ()>,
}

impl Entered {
    pub(crate) fn new(state: Rc<LoopState>) -> Entered {
        Entered { previous: swap_current(Some(state)), _local: PhantomData }
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        // What comes out keeps the loop's state until here, so no destructor runs while the cell is borrowed.
        drop(swap_current(self.previous.take()));
    }
}

fn swap_current(state: Option<Rc<LoopState>>) -> Option<Rc<LoopState>> {
    CURRENT.try_with(|current| current.replace(state)).ok().flatten()
}

/// The current loop, on its own thread.
#[derive(Clone, Debug)]
pub struct Local(Rc<LoopState>);

impl Local {
    /// The loop in whose callback or future this is called.
    #[inline]
    pub fn current() -> Result<Local> {
        CURRENT.try_with(|current| current.borrow().clone()).ok().flatten().map(Local).ok_or(Error::NotOnLoop)
    }

    pub(crate) fn of(state: Rc<LoopState>) -> Local {
        Local(state)
    }

    #[inline]
    pub(crate) fn state(&self) -> &LoopState {
        &self.0
    }

    pub(crate) fn remote(&self) -> Remote {
        Remote(self.0.shared.clone())
    }

    /// This loop's identity.
    pub fn id(&self) -> LoopId {
        self.0.shared.id
    }

    /// The time at which this turn began, on the loop's clock.
    pub fn now(&self) -> Nanos {
        self.0.core.borrow().now()
    }

    /// Runs `f` in the next turn.
    pub fn post<F: FnOnce() + Send + 'static>(&self, f: F) -> std::result::Result<(), Rejected<F>> {
        self.0.shared.post(f)
    }

    /// Runs `f` after `delay`, unless cancelled or stopped before.
    #[inline]
    pub fn call_later<F: FnOnce() + 'static>(
        &self,
        delay: impl Into<Delay>,
        f: F,
    ) -> std::result::Result<TimerToken, Rejected<F>> {
        self.call_at(delay.into().deadline(), f)
    }

    /// Runs `f` at `deadline` on the loop's clock, or in the next turn if that is past.
    #[inline]
    pub fn call_at<F: FnOnce() + 'static>(
        &self,
        deadline: Nanos,
        f: F,
    ) -> std::result::Result<TimerToken, Rejected<F>> {
        if !self.0.takes_work() {
            return Err(Rejected::new(f, self.0.shared.lifecycle.state()));
        }
        let timer = Timer::Call(Job::new(Purpose::Post, f));
        Ok(self.0.core.borrow_mut().add_timer(deadline, timer))
    }

    pub(crate) fn wake_at(&self, deadline: Nanos, waker: Waker) -> Result<TimerToken> {
        if !self.0.takes_work() {
            return Err(Error::NotRunning(self.0.shared.lifecycle.state()));
        }
        Ok(self.0.core.borrow_mut().add_timer(deadline, Timer::Wake(waker)))
    }

    /// Cancels a timer. `true` means that it had not fired and never will.
    #[inline]
    pub fn cancel(&self, timer: TimerToken) -> Result<bool> {
        // The closure is dropped after the borrow: its destructor may come back here.
        let cancelled = self.0.core.borrow_mut().cancel_timer(timer)?;
        Ok(cancelled.is_some())
    }

    /// Runs a future on this loop.
    pub fn spawn<F: Future + 'static>(
        &self,
        future: F,
    ) -> std::result::Result<JoinHandle<F::Output>, Rejected<F>> {
        task::spawn_local(&self.0, future)
    }

    /// Calls `f` whenever `fd` is ready, until it is deregistered. The fd is level-triggered: what is ready and not
    /// dealt with is reported again in the next turn.
    pub fn register<F: FnMut(Interest) + 'static>(
        &self,
        fd: impl Into<Fd>,
        interest: Interest,
        f: F,
    ) -> Result<SourceToken> {
        let source = Source::Call(Rc::new(RefCell::new(f)));
        self.0.register(fd.into(), interest, source)
    }

    /// Changes what is listened for.
    pub fn set_interest(&self, source: SourceToken, interest: Interest) -> Result<()> {
        self.0.core.borrow_mut().set_interest(source, interest)
    }

    /// Stops listening and gives the fd back; the poller has forgotten it by then, so that closing it is safe. An event
    /// of this turn that was still to be reported is dropped.
    pub fn deregister(&self, source: SourceToken) -> Result<Fd> {
        // The callback is dropped after the borrow: its destructor may come back here.
        let (fd, callback) = self.0.core.borrow_mut().deregister(source)?;
        drop(callback);
        Ok(fd)
    }
}
