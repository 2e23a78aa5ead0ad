//! `EventLoop`: a loop on a thread of its own, and the handle to it that any thread may hold.
//!
//! # Shutdown
//!
//! 1. `stop`, or the drop of the last handle, moves the lifecycle from Running to Stopping. One call wins; the others
//!    go to step 6.
//! 2. The winner closes the inbox. From here on every post is rejected, and what was accepted is a fixed list. It wakes
//!    the loop.
//! 3. The loop runs what is on that list, in order. No timer fires any more and no future is polled.
//! 4. The loop drops its futures, oldest first, then its timers, earliest first, then its fds. Destructors run on the
//!    loop's thread; what they post or spawn is rejected.
//! 5. The report is published, and the lifecycle moves to Stopped.
//! 6. Whoever called from another thread returns once the thread has been joined. A call from the loop's own thread
//!    returned at step 2, and the rest happens after its callback; the thread then owns the last reference to the
//!    loop's state and frees it on its way out, so nothing leaks even if no handle is left.

use std::future::Future;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, Weak};
use std::time::Duration;

use crate::core::Tuning;
use crate::driver::Driver;
use crate::error::{Error, Rejected, Result};
use crate::lifecycle::State;
use crate::local::Local;
use crate::os::{Nanos, Poller};
use crate::shared::{Remote, Shared};
use crate::stats::Stats;
use crate::task::{self, JoinHandle, Parcel};
use crate::time::Delay;
use crate::token::TimerToken;

/// How a loop is set up.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Config {
    /// The thread's name.
    pub name: String,
    /// How the loop trades latency against CPU time.
    pub tuning: Tuning,
}

impl Default for Config {
    fn default() -> Self {
        Self { name: "evloop".to_owned(), tuning: Tuning::default() }
    }
}

impl Config {
    /// The default with another thread name.
    pub fn named(name: impl Into<String>) -> Config {
        Config { name: name.into(), ..Config::default() }
    }
}

/// What a loop did in its life, told at its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StopReport {
    /// Posts accepted.
    pub accepted: u64,
    /// Posts run. Equal to `accepted`, always.
    pub executed: u64,
    /// Timers that had not fired when the loop stopped.
    pub dropped_timers: u64,
    /// Futures that had not finished when the loop stopped.
    pub dropped_tasks: u64,
    /// Panics contained.
    pub panics: u64,
}

/// How a stop went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a loop may still be draining"]
pub enum StopOutcome {
    /// The loop is at its end.
    Finished(StopReport),
    /// The loop takes no more work and still drains what it took: the call came from its own thread, or the time given
    /// was over.
    Draining,
}

impl StopOutcome {
    /// The report, if the loop is at its end.
    pub fn report(self) -> Option<StopReport> {
        match self {
            StopOutcome::Finished(report) => Some(report),
            StopOutcome::Draining => None,
        }
    }
}

/// A handle to a loop. Clones are handles to the same loop; when the last one is dropped the loop is stopped.
#[derive(Clone, Debug)]
pub struct EventLoop {
    handle: Arc<Handle>,
}

/// A handle that does not keep its loop running.
#[derive(Clone, Debug)]
pub struct WeakLoop(Weak<Handle>);

#[derive(Debug)]
struct Handle {
    shared: Arc<Shared>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        let _ = self.shared.stop(None);
    }
}

impl Default for EventLoop {
    fn default() -> Self {
        Self::new()
    }
}

impl EventLoop {
    /// A loop that does not run yet.
    pub fn new() -> EventLoop {
        EventLoop { handle: Arc::new(Handle { shared: Shared::new() }) }
    }

    fn shared(&self) -> &Arc<Shared> {
        &self.handle.shared
    }

    /// Starts the loop on a thread of its own and returns once it runs. A second start with the same configuration does
    /// nothing; with another one it is an error, as is a start after a stop.
    pub fn start(&self, config: Config) -> Result<()> {
        self.begin(config, |shared, poller, config| {
            let for_thread = shared.clone();
            let tuning = config.tuning.clone();
            // The handle goes in before the loop can end, so that a stop finds it. Until then the thread waits.
            let mut join = shared.join.lock().unwrap_or_else(PoisonError::into_inner);
            let thread = std::thread::Builder::new()
                .name(config.name.clone())
                .spawn(move || Driver::new(for_thread, poller, tuning).run())
                .map_err(|error| Error::Os {
                    what: "start the loop's thread",
                    source: rustix::io::Errno::from_io_error(&error).unwrap_or(rustix::io::Errno::AGAIN),
                })?;
            *join = Some(thread);
            drop(join);
            shared.lifecycle.wait_while(State::Starting);
            Ok(())
        })
    }

    /// Starts the loop without a thread: whoever gets the driver turns it, on this thread, or parks it and waits on its
    /// fd. Unlike [`EventLoop::start`] this cannot be repeated, as there is one driver.
    pub fn drive(&self, config: Config) -> Result<Driver> {
        let mut driver = None;
        self.begin(config, |shared, poller, config| {
            driver = Some(Driver::new(shared.clone(), poller, config.tuning.clone()));
            Ok(())
        })?;
        driver.ok_or(Error::AlreadyStarted)
    }

    /// Wins the start, or finds out who did.
    fn begin(
        &self,
        config: Config,
        launch: impl FnOnce(&Arc<Shared>, Arc<Poller>, &Config) -> Result<()>,
    ) -> Result<()> {
        let shared = self.shared();
        loop {
            match shared.lifecycle.begin_start() {
                Ok(()) => break,
                Err(State::Starting) => {
                    shared.lifecycle.wait_while(State::Starting);
                }
                Err(State::Running) => {
                    let running = shared.config.lock().unwrap_or_else(PoisonError::into_inner);
                    return if *running == Some(config) { Ok(()) } else { Err(Error::AlreadyStarted) };
                }
                Err(State::Idle) => {}
                Err(State::Stopping | State::Stopped) => return Err(Error::Stopped),
            }
        }
        let launched = Poller::new().and_then(|poller| {
            let poller = Arc::new(poller);
            // Empty until a start succeeds this far: a start whose thread could not be had leaves its poller for the
            // next one.
            let poller = shared.poller.get_or_init(|| poller).clone();
            *shared.config.lock().unwrap_or_else(PoisonError::into_inner) = Some(config.clone());
            launch(shared, poller, &config)
        });
        launched.inspect_err(|_| {
            let _ = shared.lifecycle.start_failed();
        })
    }

    /// Runs `f` on the loop. Accepted means that it will run; otherwise it comes back unrun. From any thread.
    #[inline]
    pub fn post<F: FnOnce() + Send + 'static>(&self, f: F) -> std::result::Result<(), Rejected<F>> {
        self.shared().post(f)
    }

    /// Runs `f` on the loop after `delay`, unless cancelled or stopped before. From any thread.
    pub fn call_later<F: FnOnce() + Send + 'static>(
        &self,
        delay: impl Into<Delay>,
        f: F,
    ) -> std::result::Result<TimerHandle, Rejected<F>> {
        let deadline = delay.into().deadline();
        let timer = Arc::new(RemoteTimer::default());
        let remote = Remote(self.shared().clone());
        let (for_loop, parcel) = (timer.clone(), Parcel::new(f));
        let contents = parcel.clone();
        let insert = move || {
            let (Ok(local), Some(f)) = (Local::current(), contents.take()) else { return };
            for_loop.insert(&local, deadline, f);
        };
        let sent = match remote.local() {
            Some(local) if local.state().takes_work() => {
                insert();
                Ok(())
            }
            Some(_) => Err(insert),
            None => self.shared().errand(insert),
        };
        parcel.receipt(sent, self.shared()).map(|()| TimerHandle { timer, remote })
    }

    /// Runs a future on the loop. From any thread; a future that cannot leave the loop's thread is made there, with
    /// [`EventLoop::spawn_with`].
    pub fn spawn<F>(&self, future: F) -> std::result::Result<JoinHandle<F::Output>, Rejected<F>>
    where
        F: Future + Send + 'static,
        F::Output: Send,
    {
        task::spawn_remote(self.shared(), future)
    }

    /// Runs `make` on the loop, and the future that it makes there.
    pub fn spawn_with<M, F>(&self, make: M) -> std::result::Result<JoinHandle<F::Output>, Rejected<M>>
    where
        M: FnOnce() -> F + Send + 'static,
        F: Future + 'static,
        F::Output: Send,
    {
        task::spawn_remote_with(self.shared(), make)
    }

    /// Stops the loop: refuses new work, drains what it took, and returns once its thread has ended. From the loop's own
    /// thread it returns at once, and the rest drains after the current callback. Any number of times, from anywhere.
    pub fn stop(&self) -> StopOutcome {
        self.shared().stop(None)
    }

    /// Like [`EventLoop::stop`], but waits at most for `timeout`. The loop goes on stopping after that.
    pub fn stop_timeout(&self, timeout: Duration) -> StopOutcome {
        self.shared().stop(Some(timeout))
    }

    /// Whether this is the loop's thread.
    pub fn is_loop_thread(&self) -> bool {
        self.shared().is_loop_thread()
    }

    /// Where the loop is in its life.
    pub fn state(&self) -> State {
        self.shared().lifecycle.state()
    }

    /// What the loop has counted so far.
    pub fn stats(&self) -> Stats {
        self.shared().stats()
    }

    /// A handle that does not keep the loop running: for callbacks and futures on the loop itself, which would
    /// otherwise keep it alive for as long as it keeps them.
    pub fn downgrade(&self) -> WeakLoop {
        WeakLoop(Arc::downgrade(&self.handle))
    }
}

impl WeakLoop {
    /// A handle, unless the last one is gone.
    pub fn upgrade(&self) -> Option<EventLoop> {
        self.0.upgrade().map(|handle| EventLoop { handle })
    }
}

const PENDING: u8 = 0;
const FIRED: u8 = 1;
const CANCELLED: u8 = 2;

#[derive(Debug, Default)]
struct RemoteTimer {
    /// Who got there first.
    state: AtomicU8,
    /// Set on the loop's thread once the timer is there.
    token: OnceLock<TimerToken>,
}

impl RemoteTimer {
    /// Makes the timer, unless it was cancelled on its way here.
    fn insert(self: Arc<Self>, local: &Local, deadline: Nanos, f: impl FnOnce() + 'static) {
        if self.state.load(Ordering::Acquire) == CANCELLED {
            return;
        }
        let firing = self.clone();
        let call = move || {
            if firing.claim(FIRED) {
                f();
            }
        };
        // Refused only by a loop that is stopping, which drops its timers anyway.
        if let Ok(token) = local.call_at(deadline, call) {
            let _ = self.token.set(token);
        }
    }

    fn claim(&self, state: u8) -> bool {
        self.state.compare_exchange(PENDING, state, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

/// A timer made by [`EventLoop::call_later`]. Dropping the handle does not cancel the timer.
#[derive(Clone, Debug)]
pub struct TimerHandle {
    timer: Arc<RemoteTimer>,
    remote: Remote,
}

impl TimerHandle {
    /// Cancels the timer. `true` means that it had not fired and never will; of several calls one gets `true`.
    pub fn cancel(&self) -> bool {
        if !self.timer.claim(CANCELLED) {
            return false;
        }
        let timer = self.timer.clone();
        // Behind the errand that inserts the timer, so the token is there.
        self.remote.run(move |state| {
            if let Some(token) = timer.token.get() {
                state.discard_timer(*token);
            }
        });
        true
    }
}
