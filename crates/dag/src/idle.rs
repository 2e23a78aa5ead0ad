//! `Idle`: which workers look for work and which sleep, and the hand-shake by which none sleeps over work.
//!
//! Whoever adds work wakes a sleeper, unless somebody is looking already. The last who stops looking counts itself among
//! the sleepers first and then looks once more: either it sees the work, or who added the work sees a sleeper. Of those
//! who find something the last one wakes another, for there may be more.

use crate::sync::{AtomicU32, Condvar, Mutex, Ordering, fence, lock};

const SLEEPER: u32 = 1;
const SEARCHER: u32 = 1 << 16;

/// The sleep of a pool's workers.
#[derive(Debug)]
pub struct Idle {
    /// How many search and how many sleep.
    counts: AtomicU32,
    /// Wakes given and not taken.
    wakes: Mutex<u32>,
    woken: Condvar,
}

impl Default for Idle {
    fn default() -> Self {
        Self { counts: AtomicU32::new(0), wakes: Mutex::new(0), woken: Condvar::new() }
    }
}

impl Idle {
    /// To be called after work was added.
    #[inline]
    pub fn added(&self) {
        // Between the addition and this look at who sleeps, as between counting oneself among the sleepers and the
        // look at the work: one of the two is seen.
        fence(Ordering::SeqCst);
        let counts = self.counts.load(Ordering::Relaxed);
        if counts < SEARCHER && counts != 0 {
            self.wake_one();
        }
    }

    /// Moves one from the sleepers to those who look, unless somebody looks.
    #[cold]
    fn wake_one(&self) {
        let mut counts = self.counts.load(Ordering::SeqCst);
        while counts < SEARCHER && counts != 0 {
            let next = counts - SLEEPER + SEARCHER;
            match self.counts.compare_exchange_weak(counts, next, Ordering::SeqCst, Ordering::SeqCst) {
                Ok(_) => {
                    *lock(&self.wakes) += 1;
                    self.woken.notify_one();
                    return;
                }
                Err(now) => counts = now,
            }
        }
    }

    /// A worker begins to look for work.
    pub fn search(&self) {
        self.counts.fetch_add(SEARCHER, Ordering::SeqCst);
    }

    /// A worker that looked has found some.
    pub fn found(&self) {
        if self.counts.fetch_sub(SEARCHER, Ordering::SeqCst) / SEARCHER == 1 {
            self.wake_one();
        }
    }

    /// A worker that looked has found nothing: sleeps until it is to look again, unless `look` finds something. Either
    /// way the worker is looking afterwards.
    pub fn sleep(&self, look: impl FnOnce() -> bool) {
        self.counts.fetch_sub(SEARCHER - SLEEPER, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        if look() {
            self.rise();
        } else {
            self.wait();
        }
    }

    /// Takes itself from the sleepers, or takes the wake that somebody has just given.
    fn rise(&self) {
        let mut counts = self.counts.load(Ordering::SeqCst);
        while counts % SEARCHER > 0 {
            let next = counts - SLEEPER + SEARCHER;
            match self.counts.compare_exchange_weak(counts, next, Ordering::SeqCst, Ordering::SeqCst) {
                Ok(_) => return,
                Err(now) => counts = now,
            }
        }
        // All who slept were moved by others, this one too: its wake is there or on its way.
        self.wait();
    }

    fn wait(&self) {
        let mut wakes = lock(&self.wakes);
        while *wakes == 0 {
            wakes = self.woken.wait(wakes).unwrap_or_else(std::sync::PoisonError::into_inner);
        }
        *wakes -= 1;
    }

    /// Wakes all, to look around.
    pub fn wake_all(&self) {
        let mut counts = self.counts.load(Ordering::SeqCst);
        while counts % SEARCHER > 0 {
            let sleepers = counts % SEARCHER;
            let next = counts - sleepers * SLEEPER + sleepers * SEARCHER;
            match self.counts.compare_exchange_weak(counts, next, Ordering::SeqCst, Ordering::SeqCst) {
                Ok(_) => {
                    *lock(&self.wakes) += sleepers;
                    self.woken.notify_all();
                    return;
                }
                Err(now) => counts = now,
            }
        }
    }
}
