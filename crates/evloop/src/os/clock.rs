//! The loop's clock: CLOCK_MONOTONIC in whole nanoseconds, the clock that `time.monotonic()` and timerfd use too. And a look at
//! the processor's counter, for whoever only wants to know whether it is worth asking the clock again.

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds on the monotonic clock. 2^64 of them are 584 years of uptime.
pub type Nanos = u64;

/// The time now.
#[inline]
pub fn now() -> Nanos {
    let t = clock_gettime(ClockId::Monotonic);
    // The monotonic clock starts at boot and is never negative.
    (t.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(t.tv_nsec as u64)
}

/// When the clock was last asked, as the processor counts.
#[derive(Clone, Copy, Debug, Default)]
pub struct Glance(u64);

impl Glance {
    /// 2 to 4 µs on the processors of today, 82 µs if one counted a hundred million a second.
    const TICKS: u64 = 8192;
    /// No less time than that.
    pub const MOST: Nanos = 100_000;

    /// One that was never asked.
    pub const fn new() -> Self {
        Self(0)
    }

    /// Whether next to no time has passed since this said otherwise: less than [`MOST`](Self::MOST). To ask costs a third of what the
    /// clock does. A counter that has jumped, or that of another core, makes it ask the clock; only one that stands still would not.
    #[inline]
    pub fn is_fresh(&mut self) -> bool {
        match ticks() {
            Some(ticks) if ticks.wrapping_sub(self.0) < Self::TICKS => true,
            ticks => {
                self.0 = ticks.unwrap_or_default();
                false
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn ticks() -> Option<u64> {
    // SAFETY: every x86-64 processor has the instruction, and the clock itself is read by it.
    Some(unsafe { core::arch::x86_64::_rdtsc() })
}

#[cfg(not(target_arch = "x86_64"))]
#[inline]
fn ticks() -> Option<u64> {
    None
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::Glance;

    #[test]
    fn a_glance_is_never_fresh_after_its_time() {
        let mut glance = Glance::default();
        glance.is_fresh();
        std::thread::sleep(Duration::from_nanos(Glance::MOST));
        assert!(!glance.is_fresh());
    }

    #[test]
    fn glances_without_a_pause_do_not_stay_fresh_for_ever() {
        let mut glance = Glance::default();
        let end = Instant::now() + Duration::from_secs(20);
        glance.is_fresh();
        while glance.is_fresh() {
            assert!(Instant::now() < end, "the counter stands still");
        }
    }
}
