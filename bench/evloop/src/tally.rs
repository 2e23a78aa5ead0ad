//! Counts what fired, notices what fired early, and says when the last one did. Shared by `timers` and
//! `sleeps`.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

pub(crate) struct Tally {
    delay: Duration,
    expected: u64,
    fired: AtomicU64,
    early: AtomicU64,
    last: Sender<Instant>,
}

impl Tally {
    /// The tally lives until the process ends, so that callbacks hold a plain reference: no arm pays for a
    /// reference count.
    pub(crate) fn leak(delay: Duration, expected: u64) -> (&'static Tally, Receiver<Instant>) {
        let (last, last_fired) = channel();
        let tally = Tally { delay, expected, fired: AtomicU64::new(0), early: AtomicU64::new(0), last };
        (Box::leak(Box::new(tally)), last_fired)
    }

    pub(crate) fn delay(&self) -> Duration {
        self.delay
    }

    pub(crate) fn expected(&self) -> u64 {
        self.expected
    }

    /// One timer armed at `armed` has fired.
    pub(crate) fn fired(&self, armed: Instant) {
        let now = Instant::now();
        if now.duration_since(armed) < self.delay {
            self.early.fetch_add(1, Relaxed);
        }
        if self.fired.fetch_add(1, Relaxed) + 1 == self.expected {
            let _ = self.last.send(now);
        }
    }

    /// Waits for the last one. A timer that never fires ends in an error, not in a process that hangs.
    pub(crate) fn wait(&self, last_fired: &Receiver<Instant>) -> Result<Instant, String> {
        let last = last_fired.recv_timeout(Duration::from_secs(60));
        let fired = self.fired.load(Relaxed);
        let last = last.map_err(|_| format!("{fired} of {} fired", self.expected))?;
        match self.early.load(Relaxed) {
            0 => Ok(last),
            early => Err(format!("{early} of {} fired early", self.expected)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_fires_early_spoils_the_result() {
        let (tally, last) = Tally::leak(Duration::from_secs(60), 1);
        tally.fired(Instant::now());
        assert!(tally.wait(&last).is_err());
    }
}
