//! What the tests of the scheduler share: a scheduler, gates to hold nodes at, and names of what came out.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

pub mod redis;
pub mod servers;

use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use dag::{Graph, Plan, Pool, PoolConfig, Scheduler};
use evloop::{Config, EventLoop};

pub type Failure = Result<i64, String>;

/// A scheduler with so many threads and a loop of its own.
pub fn scheduler(threads: usize) -> Scheduler {
    let events = EventLoop::new();
    events.start(Config::default()).unwrap();
    Scheduler::new(Pool::new(PoolConfig::threads(threads)).unwrap(), events)
}

pub fn plan<V: Clone + Send + Sync + 'static>(graph: Graph<V>) -> Arc<Plan<V>> {
    Arc::new(graph.compile().unwrap())
}

/// Holds whoever passes until it is opened.
#[derive(Clone, Default)]
pub struct Gate(Arc<(Mutex<(bool, usize)>, Condvar)>);

impl Gate {
    pub fn open(&self) {
        self.0.0.lock().unwrap().0 = true;
        self.0.1.notify_all();
    }

    /// Waits until it is open.
    pub fn pass(&self) {
        let mut state = self.0.0.lock().unwrap();
        state.1 += 1;
        self.0.1.notify_all();
        while !state.0 {
            state = self.0.1.wait(state).unwrap();
        }
    }

    /// How many have come to it.
    pub fn arrivals(&self) -> usize {
        self.0.0.lock().unwrap().1
    }

    /// Waits until so many have come to it.
    pub fn await_arrivals(&self, count: usize) {
        let mut state = self.0.0.lock().unwrap();
        while state.1 < count {
            state = self.0.1.wait(state).unwrap();
        }
    }
}

/// Waits until `condition` holds; what never gets there fails the test instead of hanging it.
pub fn eventually(what: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(120);
    while !condition() {
        assert!(Instant::now() < deadline, "never: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Longer than any test takes.
pub const LONG: Duration = Duration::from_secs(3600);
/// Over at once.
pub const SHORT: Duration = Duration::from_millis(1);
