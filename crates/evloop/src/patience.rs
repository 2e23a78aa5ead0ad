//! `Patience`: whether a wait is worth staying awake for. Sleeping and being woken costs more than a short wait itself, and
//! on a virtual machine much more.
//!
//! Only in dense traffic, and a wait in vain makes the next ones rarer, so that traffic that is not dense enough, or a machine
//! with no core to spare for the other side, soon pays nothing for it.

use crate::os::Nanos;

/// What the last waits taught.
#[derive(Debug)]
pub(crate) struct Patience {
    /// How long the last wait took.
    last_gap: Nanos,
    /// Waits in vain in a row, and how many to sleep through at once for that.
    misses: u32,
    pause: u32,
}

/// In vain so often in a row, it is tried once in 2^8 waits.
const MOST: u32 = 8;

impl Patience {
    pub(crate) fn new() -> Self {
        Self { last_gap: Nanos::MAX, misses: 0, pause: 0 }
    }

    /// Whether to stay awake for `limit` now.
    pub(crate) fn pays(&mut self, limit: Nanos) -> bool {
        // A gap that was slept through is longer than the same gap watched, by what it takes to wake a thread.
        if limit == 0 || self.last_gap > limit.saturating_mul(4) {
            return false;
        }
        let pays = self.pause == 0;
        self.pause = self.pause.saturating_sub(1);
        pays
    }

    /// Staying awake was right.
    pub(crate) fn found(&mut self) {
        self.misses = 0;
    }

    /// It was not.
    pub(crate) fn in_vain(&mut self) {
        self.misses = (self.misses + 1).min(MOST);
        self.pause = 1 << self.misses;
    }

    /// A wait has ended, slept through or not.
    pub(crate) fn waited(&mut self, gap: Nanos) {
        self.last_gap = gap;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tries_in(patience: &mut Patience, waits: u32) -> u32 {
        (0..waits)
            .filter(|_| {
                let pays = patience.pays(10);
                if pays {
                    patience.in_vain();
                }
                pays
            })
            .count() as u32
    }

    #[test]
    fn nobody_stays_awake_before_traffic_was_dense_or_without_a_limit() {
        let mut patience = Patience::new();
        assert!(!patience.pays(10));
        patience.waited(41);
        assert!(!patience.pays(10));
        patience.waited(40);
        assert!(patience.pays(10));
        assert!(!patience.pays(0));
    }

    #[test]
    fn waits_in_vain_become_rare_and_a_find_brings_them_back() {
        let mut patience = Patience::new();
        patience.waited(1);
        let early = tries_in(&mut patience, 256);
        assert!(early > 2 && early < 10, "{early}");
        assert!(tries_in(&mut patience, 2560) <= 10);
        patience.found();
        while !patience.pays(10) {}
        assert!(patience.pays(10));
    }
}
