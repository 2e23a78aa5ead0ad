//! The loop's clock: CLOCK_MONOTONIC in whole nanoseconds, the clock that `time.monotonic()` and timerfd use too.

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
