//! `Speaker`: tells those of one interpreter who wait for replies. Any thread.
//!
//! Who answers may be a scheduler, or the loop of the deadlines, and neither may wait for Python: so there is a thread for it, from the
//! first answer on. Each interpreter has its own, for code in C may keep one's GIL for as long as it likes.

use std::collections::HashSet;
use std::sync::Mutex;
use std::time::Duration;

use evloop::{Config, EventLoop, StopOutcome};
use waiters::{End, Ticket, Who};

use crate::inbox::lock;
use crate::replies::REPLIES;

/// The thread, and whom it will tell.
pub(crate) struct Speaker {
    thread: EventLoop,
    /// Who waits, for an interpreter that may end.
    expected: Option<Mutex<HashSet<u64>>>,
}

impl Speaker {
    /// That of an interpreter that stays, or of one that may end.
    pub(crate) fn new(stays: bool) -> Self {
        Self { thread: EventLoop::new(), expected: (!stays).then(Mutex::default) }
    }

    /// Somebody waits.
    pub(crate) fn expect(&self, ticket: Ticket) {
        if let Some(expected) = &self.expected {
            lock(expected).insert(ticket.word());
        }
    }

    /// It has ended.
    pub(crate) fn forget(&self, ticket: Ticket) {
        if let Some(expected) = &self.expected {
            lock(expected).remove(&ticket.word());
        }
    }

    /// Runs `f` on the thread.
    pub(crate) fn tell(&self, f: impl FnOnce() + Send + 'static) {
        if self.thread.start(Config::named("py_reply")).is_ok() {
            // Rejected only when the interpreter ends.
            let _ended = self.thread.post(f);
        }
    }

    /// The interpreter ends: nobody waits for anything any more. By a thread that is not attached.
    pub(crate) fn end(&self, patience: Duration) {
        let left = self.expected.as_ref().map(|expected| std::mem::take(&mut *lock(expected)));
        for word in left.unwrap_or_default() {
            drop(REPLIES.end(Who::Ticket(Ticket::from_word(word)), End::Cancelled));
        }
        if matches!(self.thread.stop_timeout(patience), StopOutcome::Draining) {
            // It waits for a GIL that it may never get, and so would whoever drops the last handle.
            std::mem::forget(self.thread.clone());
        }
    }
}
