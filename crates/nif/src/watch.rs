//! The watchdog: one thread that stops what was cancelled, wakes a second worker when the first is stuck, and sends what scheduler
//! threads may not.
//!
//! It looks around every millisecond while requests come and go, and sleeps for good when none do: then it is woken by the first
//! request, by a cancellation or by a letter.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::Thread;
use std::time::{Duration, Instant};

use pyrt::{Attached, Owned};

use crate::beam::{Letter, OUTBOX};
use crate::bridge::Bridge;
use crate::context::start_reserve;
use crate::crew::CREW;
use crate::inbox::lock;
use crate::jobs;
use crate::pool::{APART, POOL, Relief};
use crate::python;
use crate::runner::Runner;
use crate::stats::STATS;
use crate::table::{self, Id};

const TICK: Duration = Duration::from_millis(1);
/// Looks without news before it goes to sleep.
const QUIET: u32 = 20;
/// Code that swallows an interrupt gets another one after this, and then after twice that.
const AGAIN: Duration = Duration::from_millis(20);
const AGAIN_AT_MOST: Duration = Duration::from_millis(500);
/// How often, and after which time, an interrupt is called for again that has not struck.
const INSISTING: u32 = 40;
const BREATH: Duration = Duration::from_micros(50);
const UNSTOPPABLE: Duration = Duration::from_secs(1);

#[derive(Default)]
struct Post {
    /// What is to stop, and from when on.
    cancelled: Vec<(Id, Instant)>,
    letters: Vec<Letter>,
}

impl Post {
    fn is_empty(&self) -> bool {
        self.cancelled.is_empty() && self.letters.is_empty()
    }
}

static POST: Mutex<Post> = Mutex::new(Post { cancelled: Vec::new(), letters: Vec::new() });
static THREAD: OnceLock<Thread> = OnceLock::new();
/// Whether references wait to be dropped.
static GIVEN_UP: AtomicBool = AtomicBool::new(false);
/// Whether it sleeps until somebody wakes it.
static ASLEEP: AtomicBool = AtomicBool::new(false);

/// A request begins: somebody should keep an eye on it.
#[inline]
pub(crate) fn notice() {
    if ASLEEP.load(Ordering::SeqCst) {
        wake();
    }
}

fn wake() {
    if let Some(thread) = THREAD.get() {
        thread.unpark();
    }
}

/// Stops a request that was cancelled, wherever it is.
pub(crate) fn interrupt(id: Id) {
    interrupt_after(id, Duration::ZERO);
}

/// Stops what has an id, if it takes longer than this.
pub(crate) fn interrupt_after(id: Id, grace: Duration) {
    lock(&POST).cancelled.push((id, Instant::now() + grace));
    wake();
}

/// References of Python were given up by threads that may not drop them.
pub(crate) fn give_back() {
    GIVEN_UP.store(true, Ordering::Release);
    wake();
}

fn deliver(letter: Letter) -> bool {
    lock(&POST).letters.push(letter);
    wake();
    true
}

/// Starts the thread, once.
pub(crate) fn start() -> std::io::Result<()> {
    let handle =
        std::thread::Builder::new().name(String::from("py_watch")).spawn(|| Watchdog::default().run())?;
    // Already set: the VM has started Python before.
    let _again = THREAD.set(handle.thread().clone());
    let _again = OUTBOX.set(deliver);
    Ok(())
}

/// A request that was told to stop.
struct Stopping {
    id: Id,
    since: Instant,
    next: Instant,
    pause: Duration,
    counted: bool,
}

#[derive(Default)]
struct Watchdog {
    stopping: Vec<Stopping>,
    quiet: u32,
    started: u64,
}

impl Watchdog {
    fn run(&mut self) {
        loop {
            let post = std::mem::take(&mut *lock(&POST));
            for letter in post.letters {
                letter.send();
            }
            if GIVEN_UP.swap(false, Ordering::AcqRel) {
                // Attaching drops them.
                python::attach(|_, _| ());
            }
            let now = Instant::now();
            self.stopping.extend(post.cancelled.into_iter().map(|(id, from)| Stopping {
                id,
                since: from,
                next: from,
                pause: AGAIN,
                counted: false,
            }));
            self.stop_the_cancelled(now);
            let mut young = false;
            for runner in Runner::all() {
                young |= runner.look();
                runner.tray.look();
            }
            let relief = POOL.relieve();
            let apart = APART.relieve();
            // Without another thread the queue waits for those there are.
            let started = relief == Relief::Start && start_reserve().is_ok();
            let queued = CREW.relieve();
            self.rest(young || started || queued || relief == Relief::Later || apart == Relief::Later);
        }
    }

    fn rest(&mut self, busy: bool) {
        let started = STATS.started.load(Ordering::Relaxed);
        if started == self.started && !busy {
            self.quiet += 1;
        } else {
            self.quiet = 0;
        }
        self.started = started;
        if self.quiet < QUIET {
            std::thread::park_timeout(TICK);
            return;
        }
        ASLEEP.store(true, Ordering::SeqCst);
        // What came before the flag was seen is found by looking once more.
        let news = STATS.started.load(Ordering::SeqCst) != started
            || POOL.wants_relief()
            || APART.wants_relief()
            || CREW.has_work()
            || !lock(&POST).is_empty();
        if !news {
            match self.stopping.iter().map(|stopping| stopping.next).min() {
                Some(next) => std::thread::park_timeout(next.saturating_duration_since(Instant::now())),
                None => std::thread::park(),
            }
        }
        ASLEEP.store(false, Ordering::Release);
        self.quiet = 0;
    }

    fn stop_the_cancelled(&mut self, now: Instant) {
        if self.stopping.iter().all(|stopping| stopping.next > now) {
            return;
        }
        let runners = Runner::all();
        let runs = |id| runners.iter().any(|runner| runner.has(id));
        // Cancelled requests are skipped by whoever takes them, and what has ended needs nothing. One that is to be
        // interrupted is live, and may still be queued.
        self.stopping.retain(|stopping| table::is_live(stopping.id) || runs(stopping.id));
        for stopping in &mut self.stopping {
            if stopping.next > now {
                continue;
            }
            // It may have come to wait on a loop, where it is cancelled.
            let runs = runs(stopping.id);
            if !runs && !jobs::interrupt_waiting(stopping.id) {
                stopping.since = now;
                stopping.next = now + TICK;
                continue;
            }
            stopping.next = now + stopping.pause;
            stopping.pause = (stopping.pause * 2).min(AGAIN_AT_MOST);
            if !runs {
                stopping.since = now;
                continue;
            }
            let id = stopping.id;
            if !stopping.counted && now.duration_since(stopping.since) > UNSTOPPABLE {
                stopping.counted = true;
                STATS.unstoppable.fetch_add(1, Ordering::Relaxed);
                let seats = runners.iter().filter(|runner| runner.has(id)).filter_map(|runner| runner.seat());
                seats.for_each(|seat| seat.pool.write_off(&seat));
            }
            for runner in runners.iter().filter(|runner| runner.has(id)) {
                if let Some(realm) = runner.realm() {
                    realm.interrupt(id);
                }
            }
        }
    }
}

/// Interrupts a request that runs in this interpreter.
pub(crate) fn strike(py: Attached<'_>, bridge: &Bridge, id: Id) {
    let Ok(class) = bridge.interrupted.get(py) else { return };
    for runner in Runner::all() {
        let here = runner.realm().is_some_and(|realm| *realm.interpreter() == bridge.home);
        if here && runner.interrupt(py, id, &class) {
            nudge(py, bridge, runner.ident);
            insist(py, bridge, &runner);
        }
    }
}

/// Sees to it for a while that an interrupt strikes. Afterwards it is tried anew, less and less often.
fn insist(py: Attached<'_>, bridge: &Bridge, runner: &Arc<Runner>) {
    for _ in 0..INSISTING {
        if !runner.strike_again(py) {
            return;
        }
        bridge.home.detach(py, || std::thread::sleep(BREATH));
    }
}

/// A thread that waits in Python, for a step of an async generator, is told to look up.
fn nudge(py: Attached<'_>, bridge: &Bridge, ident: u64) {
    let woken = Owned::int(py, ident.cast_signed()).and_then(|ident| bridge.wake.get(py)?.call1(py, &ident));
    if let Err(raised) = woken {
        raised.write_unraisable(py, None);
    }
}
