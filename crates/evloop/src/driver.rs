//! `Driver`: what turns a loop. The loop's own thread runs one, or whoever called `EventLoop::drive` does.
//!
//! `LoopState` is everything that belongs to the loop's thread. It is borrowed piece by piece and never while a callback
//! or a destructor runs, so that these can use the loop freely.

use std::cell::{Cell, RefCell};
use std::os::fd::BorrowedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::{Arc, PoisonError};
use std::task::Waker;

use crate::core::{Core, Tuning, Wait};
use crate::error::{Error, Result};
use crate::event_loop::StopReport;
use crate::inbox;
use crate::io::IoState;
use crate::job::{Job, Purpose, SendJob};
use crate::lifecycle::State;
use crate::local::{Entered, Local};
use crate::os::{Interest, Poller};
use crate::shared::Shared;
use crate::sources::Fd;
use crate::task::Tasks;
use crate::token::{SourceToken, TimerToken};

/// What a timer does.
#[derive(Debug)]
pub(crate) enum Timer {
    Call(Job),
    Wake(Waker),
}

/// Whom an fd's readiness concerns.
#[derive(Clone)]
pub(crate) enum Source {
    Call(Rc<RefCell<dyn FnMut(Interest)>>),
    Async(Arc<IoState>),
}

/// Whether a loop goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a finished loop is not to be turned again"]
pub enum Turn {
    /// There may be more to do.
    Running,
    /// The loop was stopped and is at its end.
    Finished,
}

/// The part of a loop that belongs to its thread.
pub(crate) struct LoopState {
    pub(crate) shared: Arc<Shared>,
    pub(crate) core: RefCell<Core<Source, Timer, SendJob>>,
    pub(crate) tasks: Tasks,
    in_turn: Cell<bool>,
}

impl std::fmt::Debug for LoopState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LoopState").field("id", &self.shared.id).finish_non_exhaustive()
    }
}

impl LoopState {
    /// Whether timers, futures and fds are taken. Not any more once the loop is stopping.
    #[inline]
    pub(crate) fn takes_work(&self) -> bool {
        // Not the inbox's word, which says the same: posters write that all the time.
        self.shared.lifecycle.state() <= State::Running
    }

    pub(crate) fn register(&self, fd: Fd, interest: Interest, source: Source) -> Result<SourceToken> {
        if !self.takes_work() {
            return Err(Error::NotRunning(self.shared.lifecycle.state()));
        }
        self.core.borrow_mut().register(fd, interest, source)
    }

    pub(crate) fn discard_timer(&self, token: TimerToken) {
        let timer = self.core.borrow_mut().cancel_timer(token);
        self.contain("the destructor of a cancelled timer", || drop(timer));
    }

    /// Runs user code. A panic ends here: it is counted and reported, and the loop goes on.
    #[inline]
    pub(crate) fn contain(&self, what: &str, f: impl FnOnce()) {
        if let Err(payload) = catch_unwind(AssertUnwindSafe(f)) {
            self.report_panic(what, payload);
        }
    }

    #[cold]
    pub(crate) fn report_panic(&self, what: &str, payload: Box<dyn std::any::Any + Send>) -> String {
        self.shared.counters.panics.add(1);
        let message = panic_message(&*payload);
        tracing::error!(loop_id = %self.shared.id, "a panic in {what}: {message}");
        // A payload may panic in its own destructor. There is nobody left to tell.
        if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
            std::mem::forget(again);
        }
        message
    }

    fn turn(self: &Rc<Self>, wait: Wait) -> Result<Turn> {
        if self.in_turn.replace(true) {
            return Err(Error::Reentrant);
        }
        let entered = Entered::new(self.clone());
        let turned = self.run_turn(wait);
        drop(entered);
        self.in_turn.set(false);
        turned
    }

    fn run_turn(&self, wait: Wait) -> Result<Turn> {
        if self.shared.report.get().is_some() {
            return Ok(Turn::Finished);
        }
        let wait = if wait == Wait::Yes && self.tasks.any_ready() { Wait::Busy } else { wait };
        // Whatever epoll says, what was accepted runs.
        let polled = self.core.borrow_mut().poll(wait);
        self.shared.counters.turns.add(1);
        self.run_sources();
        self.run_timers();
        self.run_jobs();
        self.tasks.run_ready(self);
        self.publish();
        if !self.takes_work() && self.core.borrow().is_finished() {
            self.finish();
            return Ok(Turn::Finished);
        }
        polled.map(|()| Turn::Running)
    }

    fn run_sources(&self) {
        while self.takes_work() {
            let next = self.core.borrow_mut().next_event().map(|(_, ready, source)| (ready, source.clone()));
            match next {
                Some((ready, Source::Async(io))) => self.contain("a waker", || io.deliver(self, ready)),
                Some((ready, Source::Call(callback))) => self.contain("a readiness callback", || {
                    // It is only ever called from here, and a turn inside a turn is refused.
                    if let Ok(mut callback) = callback.try_borrow_mut() {
                        callback(ready);
                    }
                }),
                None => break,
            }
        }
    }

    fn run_timers(&self) {
        let mut fired = 0;
        while self.takes_work() {
            let due = self.core.borrow_mut().pop_due();
            match due {
                Some(Timer::Call(job)) => self.contain("a timer's callback", || job.run()),
                Some(Timer::Wake(waker)) => self.contain("a waker", || waker.wake()),
                None => break,
            }
            fired += 1;
        }
        self.shared.counters.timers_fired.add(fired);
    }

    fn run_jobs(&self) {
        let mark = self.core.borrow().mark();
        let mut posts = 0;
        loop {
            let next = self.core.borrow_mut().pop_message(mark);
            let Some(job) = next else { break };
            let job = job.into_job();
            posts += u64::from(job.purpose() == Purpose::Post);
            self.contain("a posted closure", || job.run());
        }
        self.shared.counters.executed.add(posts);
    }

    fn publish(&self) {
        let core = self.core.borrow();
        let (counters, counts) = (&self.shared.counters, core.counts());
        counters.timers.set(core.timers() as u64);
        counters.sources.set(core.sources() as u64);
        counters.tasks.set(self.tasks.len() as u64);
        counters.wakeups.set(counts.wakeups);
        counters.polls.set(counts.polls);
        counters.stale_events.set(counts.stale_events);
        counters.rebuilds.set(counts.rebuilds);
    }

    /// Steps 4 and 5 of a shutdown (see `event_loop`).
    fn finish(&self) {
        let dropped_tasks = self.tasks.drop_all(self);
        let (timers, sources) = self.core.borrow_mut().clear();
        let dropped_timers = timers.len() as u64;
        for timer in timers {
            self.contain("the destructor of a timer", || drop(timer));
        }
        for source in sources {
            self.contain("the destructor of a readiness callback", || drop(source));
        }
        self.publish();
        let _ = self.shared.report.set(StopReport {
            accepted: self.shared.accepted(),
            executed: self.shared.counters.executed.get(),
            dropped_timers,
            dropped_tasks,
            panics: self.shared.counters.panics.get(),
        });
        let _ = self.shared.lifecycle.finished();
    }
}

/// The text of a panic.
pub(crate) fn panic_message(payload: &(dyn std::any::Any + Send)) -> String {
    if let Some(text) = payload.downcast_ref::<&str>() {
        (*text).to_owned()
    } else if let Some(text) = payload.downcast_ref::<String>() {
        text.clone()
    } else {
        "(a payload that is no text)".to_owned()
    }
}

/// Turns a loop, on the thread it was made on. Dropping it stops the loop and takes it to its end.
#[derive(Debug)]
pub struct Driver {
    state: Rc<LoopState>,
    poller: Arc<Poller>,
}

impl Driver {
    pub(crate) fn new(shared: Arc<Shared>, poller: Arc<Poller>, tuning: Tuning) -> Driver {
        let _ = shared.thread.set(std::thread::current().id());
        // There is a drain: a lifecycle starts once, and this is called by the start that won.
        let drain = shared.drain.lock().unwrap_or_else(PoisonError::into_inner).take();
        let drain = drain.unwrap_or_else(|| inbox::new().1);
        let core = Core::with_parts(shared.id, poller.clone(), shared.inbox.clone(), drain, tuning);
        shared.inbox.open();
        let _ = shared.lifecycle.started();
        let state = LoopState {
            shared,
            core: RefCell::new(core),
            tasks: Tasks::default(),
            in_turn: Cell::new(false),
        };
        Driver { state: Rc::new(state), poller }
    }

    /// The loop, to give it timers and futures before the first turn.
    pub fn local(&self) -> Local {
        Local::of(self.state.clone())
    }

    /// One turn: waits as `wait` says, then runs what is ready.
    pub fn turn(&self, wait: Wait) -> Result<Turn> {
        self.state.turn(wait)
    }

    /// Gets ready for somebody else to wait until [`Driver::poll_fd`] is readable. `false` means that there is work, so
    /// that the next turn should come at once.
    pub fn park(&self) -> Result<bool> {
        if self.state.in_turn.get() {
            return Err(Error::Reentrant);
        }
        if self.state.tasks.any_ready() {
            return Ok(false);
        }
        self.state.core.borrow_mut().park()
    }

    /// Readable when there is something to do. The loop keeps it open.
    pub fn poll_fd(&self) -> BorrowedFd<'_> {
        self.poller.fd()
    }

    /// Turns the loop until it is stopped.
    pub fn run(self) {
        loop {
            match self.turn(Wait::Yes) {
                Ok(Turn::Running) => {}
                Ok(Turn::Finished) => return,
                Err(error) => {
                    // epoll fails on a bad argument or for want of memory; the first does not happen and the second
                    // may pass. Work that was accepted still has to run, so the loop goes on.
                    tracing::error!(loop_id = %self.state.shared.id, "a turn failed: {error}");
                    std::thread::yield_now();
                }
            }
        }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        // On the loop's thread this only begins the stop.
        let _ = self.state.shared.stop(None);
        while !matches!(self.turn(Wait::No), Ok(Turn::Finished) | Err(Error::Reentrant)) {}
    }
}
