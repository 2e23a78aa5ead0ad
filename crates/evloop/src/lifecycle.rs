//! The life of a loop, in one atomic with a method per transition.
//!
//! ```text
//!   Idle ──begin_start──▶ Starting ──started──▶ Running ──begin_stop──▶ Stopping ──finished──▶ Stopped
//!    │  ◀──start_failed──────┘                                                                  ▲
//!    └──────────────────────────────────begin_stop─────────────────────────────────────────────┘
//! ```
//!
//! Any thread may call any method; of several that race for a transition one wins and the others are told the state
//! they found. A stopped loop never starts again.

use std::time::{Duration, Instant};

use crate::sync::{AtomicU8, Condvar, Mutex, Ordering, lock};

/// Where a loop is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum State {
    /// Made, not started.
    Idle = 0,
    /// `start` is under way.
    Starting = 1,
    /// Takes and runs work.
    Running = 2,
    /// Takes no more work and drains what it took.
    Stopping = 3,
    /// At its end.
    Stopped = 4,
}

impl State {
    fn from_u8(value: u8) -> State {
        match value {
            0 => State::Idle,
            1 => State::Starting,
            2 => State::Running,
            3 => State::Stopping,
            _ => State::Stopped,
        }
    }
}

/// What a call to stop has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopTurn {
    /// This call won: it closes the inbox and wakes the loop.
    Won,
    /// Another call won, or the loop ended: only the end is to be waited for.
    Lost,
    /// The loop never ran and is stopped now.
    NeverRan,
}

/// The state, and a way to wait for it.
#[derive(Debug)]
pub struct Lifecycle {
    state: AtomicU8,
    /// Held while the state changes, so that a waiter cannot miss a change.
    gate: Mutex<()>,
    changed: Condvar,
}

impl Default for Lifecycle {
    fn default() -> Self {
        Self { state: AtomicU8::new(State::Idle as u8), gate: Mutex::new(()), changed: Condvar::new() }
    }
}

impl Lifecycle {
    /// The state now.
    #[inline]
    pub fn state(&self) -> State {
        State::from_u8(self.state.load(Ordering::Acquire))
    }

    /// Idle → Starting. The winner makes the loop and calls [`Lifecycle::started`] or [`Lifecycle::start_failed`].
    pub fn begin_start(&self) -> Result<(), State> {
        self.transition(State::Idle, State::Starting)
    }

    /// Starting → Running.
    pub fn started(&self) -> Result<(), State> {
        self.transition(State::Starting, State::Running)
    }

    /// Starting → Idle: the operating system refused something.
    pub fn start_failed(&self) -> Result<(), State> {
        self.transition(State::Starting, State::Idle)
    }

    /// Running → Stopping, or Idle → Stopped. A start that is under way is waited for.
    pub fn begin_stop(&self) -> StopTurn {
        loop {
            match self.wait_while(State::Starting) {
                State::Running => {
                    if self.transition(State::Running, State::Stopping).is_ok() {
                        return StopTurn::Won;
                    }
                }
                State::Idle => {
                    if self.transition(State::Idle, State::Stopped).is_ok() {
                        return StopTurn::NeverRan;
                    }
                }
                State::Starting => {}
                State::Stopping | State::Stopped => return StopTurn::Lost,
            }
        }
    }

    /// Stopping → Stopped.
    pub fn finished(&self) -> Result<(), State> {
        self.transition(State::Stopping, State::Stopped)
    }

    /// Waits as long as the state is `state`, and tells the next one.
    pub fn wait_while(&self, state: State) -> State {
        let mut gate = lock(&self.gate);
        loop {
            let now = self.state();
            if now != state {
                return now;
            }
            gate = self.changed.wait(gate).unwrap_or_else(std::sync::PoisonError::into_inner);
        }
    }

    /// Waits for the end, at most for `timeout`. Whether it came.
    pub fn wait_stopped(&self, timeout: Option<Duration>) -> bool {
        // A time out of the clock's range is as good as none.
        let deadline = timeout.and_then(|t| Instant::now().checked_add(t));
        let mut gate = lock(&self.gate);
        while self.state() != State::Stopped {
            gate = match deadline {
                None => self.changed.wait(gate).unwrap_or_else(std::sync::PoisonError::into_inner),
                Some(deadline) => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return false;
                    }
                    self.changed.wait_timeout(gate, left).unwrap_or_else(std::sync::PoisonError::into_inner).0
                }
            };
        }
        true
    }

    fn transition(&self, from: State, to: State) -> Result<(), State> {
        let gate = lock(&self.gate);
        let result = self.state.compare_exchange(from as u8, to as u8, Ordering::AcqRel, Ordering::Acquire);
        drop(gate);
        match result {
            Ok(_) => {
                self.changed.notify_all();
                Ok(())
            }
            Err(found) => Err(State::from_u8(found)),
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn goes_through_its_states_in_order_and_in_no_other() {
        let life = Lifecycle::default();
        assert_eq!(life.state(), State::Idle);
        assert_eq!(life.started(), Err(State::Idle));
        assert_eq!(life.finished(), Err(State::Idle));
        assert_eq!(life.begin_start(), Ok(()));
        assert_eq!(life.begin_start(), Err(State::Starting));
        assert_eq!(life.start_failed(), Ok(()));
        assert_eq!(life.begin_start(), Ok(()));
        assert_eq!(life.started(), Ok(()));
        assert_eq!(life.start_failed(), Err(State::Running));
        assert_eq!(life.begin_stop(), StopTurn::Won);
        assert_eq!(life.begin_stop(), StopTurn::Lost);
        assert!(!life.wait_stopped(Some(Duration::from_millis(1))));
        assert_eq!(life.finished(), Ok(()));
        assert!(life.wait_stopped(None));
        assert_eq!(life.begin_stop(), StopTurn::Lost);
        assert_eq!(life.begin_start(), Err(State::Stopped));
    }

    #[test]
    fn a_loop_that_never_ran_is_stopped_at_once() {
        let life = Lifecycle::default();
        assert_eq!(life.begin_stop(), StopTurn::NeverRan);
        assert_eq!(life.state(), State::Stopped);
        assert_eq!(life.begin_start(), Err(State::Stopped));
    }
}
