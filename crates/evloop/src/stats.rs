//! What a loop counts. The loop's thread writes, any thread reads.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// A snapshot of a loop's counters.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct Stats { $($(#[$doc])* pub $name: u64,)* }

        #[derive(Debug, Default)]
        pub(crate) struct Counters { $(pub(crate) $name: Counter,)* }

        impl Counters {
            pub(crate) fn snapshot(&self) -> Stats {
                Stats { $($name: self.$name.get(),)* }
            }
        }
    };
}

counters! {
    /// Closures accepted by `post`.
    accepted,
    /// Posted closures run to their end, or to their panic.
    executed,
    /// Timers that fired.
    timers_fired,
    /// Timers still to fire.
    timers,
    /// Futures still to finish.
    tasks,
    /// Fds listened to.
    sources,
    /// Panics contained.
    panics,
    /// Turns taken.
    turns,
    /// Times that the loop slept and was woken.
    wakeups,
    /// Times that epoll was asked.
    polls,
    /// Events for registrations that were gone, dropped.
    stale_events,
    /// Times that the epoll instance had to be replaced because of an fd closed while registered.
    rebuilds,
}

/// Written by one thread, so an addition needs no read-modify-write instruction.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    #[inline]
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn add(&self, more: u64) {
        self.set(self.get() + more);
    }
}
