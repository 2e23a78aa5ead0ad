//! `Tray`: answers of small tasks that go out together. Each thread that runs requests has one; it alone puts something in, and it or
//! the watchdog empties it.
//!
//! A process that waits for thousands of tasks takes an answer in less time than the next task needs. So each message found it asleep, and
//! to wake it was a third of what the loop's thread did for a task: locks, lines of the cache and system calls that two cores pass to
//! each other. Answers that come together find it awake.
//!
//! Nothing is kept but for a moment. Only while the loop's next piece of work is the next request already, only after many short ones in a
//! row, and for [`AGE`] at most; whatever else this thread sends, or a pause that it makes, sends them before. If the next request takes its
//! time all the same, the watchdog sends them, after two of its looks.

use std::cell::{Cell, RefCell};
use std::sync::Mutex;
use std::sync::atomic::Ordering;

use evloop::os::{Glance, Nanos, now};
use pyloop::Posted;
use pyrt::Attached;
use rustler::sys::ErlNifTerm;
use rustler::{Encoder, Env, LocalPid, ResourceArc};

use crate::beam::{self, Mail};
use crate::convert::Leaf;
use crate::inbox::lock;
use crate::runner::Runner;
use crate::stats::STATS;
use crate::table::{self, Id};
use crate::task::Task;
use crate::{atoms, spare};

/// So many go out together.
const MOST: usize = 64;
/// How long the first of them may have to wait.
const AGE: Nanos = 100_000;
/// Requests that begin within this of each other are short ones.
const SHORT: Nanos = 50_000;
/// After so many of them in a row answers are kept.
const STREAK: u32 = 16;

/// The answer of a task, and the only right to send it: it is sent by being dropped.
pub(crate) struct Reply {
    pub(crate) id: Id,
    pub(crate) pid: LocalPid,
    pub(crate) task: ResourceArc<Task>,
    pub(crate) leaf: Leaf,
}

impl Reply {
    fn put(&self, env: Env<'_>) -> ErlNifTerm {
        let result = (atoms::ok(), self.leaf.term(env)).encode(env);
        self.task.form().put(self.task.encode(env), result).as_c_arg()
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        if !table::close(self.id) {
            STATS.late.fetch_add(1, Ordering::Relaxed);
            return;
        }
        STATS.answered.fetch_add(1, Ordering::Relaxed);
        let copied = if beam::is_scheduler() {
            None
        } else {
            // A copy, so that one environment serves many.
            spare::lend(|mail| mail.send_copy(self.pid, self.put(mail.env())))
        };
        if copied.is_none()
            && let Some(mail) = Mail::new()
        {
            let word = self.put(mail.env());
            mail.send(self.pid, word);
        }
    }
}

/// What is kept.
#[derive(Default)]
struct Kept {
    replies: Vec<Reply>,
    /// How many were ever put in, and how many the watchdog saw last.
    put: u64,
    seen: u64,
}

/// The tray of one thread.
#[derive(Default)]
pub(crate) struct Tray(Mutex<Kept>);

/// How the requests of a thread follow each other.
#[derive(Clone, Copy)]
struct Pace {
    glance: Glance,
    /// When the last one began, about.
    last: Nanos,
    /// How many short ones there were in a row.
    streak: u32,
    /// When the first was put into the tray.
    first: Nanos,
}

thread_local! {
    static PACE: RefCell<Pace> =
        const { RefCell::new(Pace { glance: Glance::new(), last: 0, streak: 0, first: 0 }) };
    /// Whether the answer of this request may be kept.
    static MAY: Cell<bool> = const { Cell::new(false) };
    /// Whether there may be something in the tray of this thread.
    static FILLED: Cell<bool> = const { Cell::new(false) };
}

/// A request begins, and is followed by another at once or not.
pub(crate) fn begin(followed: bool) {
    let dense = PACE.with_borrow_mut(|pace| {
        if !pace.glance.is_fresh() {
            let now = now();
            let short = now.saturating_sub(pace.last) < SHORT;
            pace.last = now;
            pace.streak = if short { pace.streak } else { 0 };
        }
        pace.streak = pace.streak.saturating_add(1);
        pace.streak > STREAK
    });
    MAY.set(followed && dense);
}

/// It has ended, or goes on by itself.
pub(crate) fn end(followed: bool) {
    MAY.set(false);
    if !followed {
        empty();
    }
}

/// This thread sends something, or may be away for a while: what is in its tray goes first, and nothing more is kept for now.
#[inline]
pub(crate) fn clear() {
    MAY.set(false);
    empty();
}

/// Work for a loop that is no request: it may take its time, so what was kept is sent before.
pub(crate) fn errand(work: impl FnOnce(Attached<'_>) + Send + 'static) -> Posted {
    Box::new(move |py, _followed| {
        clear();
        work(py);
    })
}

#[inline]
fn empty() {
    if FILLED.get() {
        FILLED.set(false);
        Runner::empty_tray();
    }
}

impl Tray {
    /// Sends an answer, now or in a moment. By the thread whose tray it is.
    pub(crate) fn put(&self, reply: Reply) {
        if !MAY.get() {
            empty();
            return drop(reply);
        }
        let mut kept = lock(&self.0);
        kept.put += 1;
        kept.replies.push(reply);
        let due = PACE.with_borrow_mut(|pace| {
            if kept.replies.len() == 1 {
                pace.first = pace.last;
            }
            kept.replies.len() >= MOST || pace.last.saturating_sub(pace.first) >= AGE
        });
        FILLED.set(!due);
        if due {
            kept.replies.clear();
        }
    }

    /// Sends all, in their order: under the lock, which nobody else wants meanwhile but a thread that is to send after them.
    pub(crate) fn send(&self) {
        lock(&self.0).replies.clear();
    }

    /// A look of the watchdog: what was there at its last one is sent.
    pub(crate) fn look(&self) {
        let mut kept = lock(&self.0);
        if kept.seen == kept.put {
            kept.replies.clear();
        }
        kept.seen = kept.put;
    }
}
