//! Counters of the bridge. Any thread counts; `py:stats/0` reads them.

use std::sync::atomic::AtomicU64;

use rustler::Atom;

use crate::atoms;

macro_rules! counters {
    ($($(#[$meta:meta])* $name:ident),* $(,)?) => {
        /// The counters.
        pub(crate) struct Stats {
            $($(#[$meta])* pub(crate) $name: AtomicU64,)*
        }

        pub(crate) static STATS: Stats = Stats { $($name: AtomicU64::new(0),)* };

        impl Stats {
            /// Each counter with its name.
            pub(crate) fn all(&self) -> Vec<(Atom, u64)> {
                vec![$((atoms::$name(), self.$name.load(std::sync::atomic::Ordering::Relaxed)),)*]
            }
        }
    };
}

counters! {
    /// Requests that were taken up.
    started,
    /// Answers sent.
    answered,
    /// Answers nobody wanted any more when they were ready.
    late,
    /// Requests cancelled while they were queued.
    skipped,
    /// Exceptions raised in running code to stop it.
    interrupted,
    /// Requests that went on for a second after they were told to stop.
    unstoppable,
    /// Calls from Python to Erlang.
    callbacks,
    /// Answers to calls from Python that nobody waited for any more.
    late_callbacks,
    /// Events that Python logged faster than they were taken.
    dropped_events,
}
