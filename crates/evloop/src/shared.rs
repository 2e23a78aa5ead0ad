//! `Shared`: the part of a loop that every thread may touch, and `Remote`, the internal handle to it that does not
//! keep the loop running. Ends when the last handle, timer, future or fd of the loop is gone.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::{JoinHandle, ThreadId};
use std::time::Duration;

use crate::driver::LoopState;
use crate::error::Rejected;
use crate::event_loop::{Config, StopOutcome, StopReport};
use crate::inbox::{self, Drain, Inbox, Wake};
use crate::job::{Purpose, SendJob};
use crate::lifecycle::{Lifecycle, State, StopTurn};
use crate::local::Local;
use crate::os::Poller;
use crate::stats::{Counters, Stats};
use crate::token::{LoopId, TimerToken};

/// What all threads share of one loop.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) id: LoopId,
    pub(crate) lifecycle: Lifecycle,
    pub(crate) inbox: Inbox<SendJob>,
    /// The loop's side of the inbox, until the loop takes it.
    pub(crate) drain: Mutex<Option<Drain<SendJob>>>,
    /// Set by start, before the inbox opens.
    pub(crate) poller: OnceLock<Arc<Poller>>,
    pub(crate) config: Mutex<Option<Config>>,
    pub(crate) thread: OnceLock<ThreadId>,
    pub(crate) join: Mutex<Option<JoinHandle<()>>>,
    pub(crate) report: OnceLock<StopReport>,
    pub(crate) counters: Counters,
    /// Accepted jobs that are the loop's own errands, not posts.
    errands: AtomicU64,
}

impl Shared {
    pub(crate) fn new() -> Arc<Shared> {
        let (inbox, drain) = inbox::new();
        Arc::new(Shared {
            id: LoopId::fresh(),
            lifecycle: Lifecycle::default(),
            inbox,
            drain: Mutex::new(Some(drain)),
            poller: OnceLock::new(),
            config: Mutex::new(None),
            thread: OnceLock::new(),
            join: Mutex::new(None),
            report: OnceLock::new(),
            counters: Counters::default(),
            errands: AtomicU64::new(0),
        })
    }

    pub(crate) fn is_loop_thread(&self) -> bool {
        self.thread.get() == Some(&std::thread::current().id())
    }

    pub(crate) fn post<F: FnOnce() + Send + 'static>(&self, f: F) -> std::result::Result<(), Rejected<F>> {
        self.push(Purpose::Post, f).map_err(|f| Rejected::new(f, self.lifecycle.state()))
    }

    /// Posts on the loop's own behalf; runs on the loop's thread in a turn. Not counted among the posts.
    pub(crate) fn errand<F: FnOnce() + Send + 'static>(&self, f: F) -> std::result::Result<(), F> {
        // Before the push, so that `accepted` never takes an errand for a post.
        self.errands.fetch_add(1, Ordering::AcqRel);
        self.push(Purpose::Errand, f).inspect_err(|_| {
            self.errands.fetch_sub(1, Ordering::AcqRel);
        })
    }

    #[inline]
    fn push<F: FnOnce() + Send + 'static>(&self, purpose: Purpose, f: F) -> std::result::Result<(), F> {
        let wake = SendJob::offer(purpose, f, |job| self.inbox.push(job))?;
        self.wake(wake);
        Ok(())
    }

    fn wake(&self, wake: Wake) {
        if wake == Wake::Needed {
            if let Some(poller) = self.poller.get() {
                poller.wake();
            }
        }
    }

    /// How many posts were accepted.
    pub(crate) fn accepted(&self) -> u64 {
        let errands = self.errands.load(Ordering::Acquire);
        self.inbox.accepted().saturating_sub(errands)
    }

    pub(crate) fn stats(&self) -> Stats {
        let mut stats = self.counters.snapshot();
        stats.accepted = self.accepted();
        stats
    }

    /// Steps 1 and 2 of a shutdown (see `event_loop`), and the wait for its end.
    pub(crate) fn stop(&self, timeout: Option<Duration>) -> StopOutcome {
        match self.lifecycle.begin_stop() {
            StopTurn::Won => {
                let wake = self.inbox.close();
                self.wake(wake);
            }
            StopTurn::NeverRan => {
                let _ = self.report.set(StopReport::default());
            }
            StopTurn::Lost => {}
        }
        if self.is_loop_thread() {
            return self.outcome();
        }
        if !self.lifecycle.wait_stopped(timeout) {
            return StopOutcome::Draining;
        }
        // Whoever comes first joins the thread; a second stop waits here until that is done. The thread itself does not
        // take this lock on its way out.
        let mut join = self.join.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(thread) = join.take() {
            // A panic that left the loop was reported by the panic hook; the loop's callbacks cannot cause one.
            let _ = thread.join();
        }
        self.outcome()
    }

    fn outcome(&self) -> StopOutcome {
        match self.report.get() {
            Some(report) if self.lifecycle.state() == State::Stopped => StopOutcome::Finished(*report),
            _ => StopOutcome::Draining,
        }
    }
}

/// A loop's own way to itself: from its timers, futures and fds, on whatever thread these are used or dropped.
#[derive(Clone, Debug)]
pub(crate) struct Remote(pub(crate) Arc<Shared>);

impl Remote {
    /// Runs `errand` on the loop: at once if this is its thread, otherwise as soon as it gets to it. If the loop has
    /// stopped it has dropped whatever the errand is about, and there is nothing left to do.
    pub(crate) fn run<F: FnOnce(&LoopState) + Send + 'static>(&self, errand: F) {
        if let Some(local) = self.local() {
            errand(local.state());
            return;
        }
        let _ = self.0.errand(move || {
            if let Ok(local) = Local::current() {
                errand(local.state());
            }
        });
    }

    pub(crate) fn is(&self, id: LoopId) -> bool {
        self.0.id == id
    }

    /// The loop, if this is its thread and it is in a turn.
    pub(crate) fn local(&self) -> Option<Local> {
        Local::current().ok().filter(|local| local.id() == self.0.id)
    }

    pub(crate) fn cancel_timer(&self, timer: TimerToken) {
        self.run(move |state| state.discard_timer(timer));
    }
}
