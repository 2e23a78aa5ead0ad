//! What happens in a run, told to whoever wants to know; and `Recorder`, which writes it down.

use std::sync::Mutex;

/// What happened to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum What {
    /// Its work began.
    Started,
    /// It has its value.
    Finished,
    /// Its work failed.
    Failed,
    /// Its time was over.
    TimedOut,
    /// It did not get to run, or was stopped: the run was at its end, or an input had no value.
    Cancelled,
}

/// One event of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// The node's place in [`crate::Plan::names`].
    pub node: u32,
    /// What happened.
    pub what: What,
    /// When, in nanoseconds of the monotonic clock.
    pub at: u64,
    /// The thread of the pool, counted from one; zero is any other thread, the loop's above all.
    pub thread: u32,
}

/// Is told of every event, on the thread where it happens: to be quick about it.
pub trait Observer: Send + Sync {
    /// Something happened.
    fn event(&self, event: Event);
}

impl<F: Fn(Event) + Send + Sync> Observer for F {
    fn event(&self, event: Event) {
        self(event);
    }
}

/// Writes all events down.
#[derive(Debug, Default)]
pub struct Recorder(Mutex<Vec<Event>>);

impl Recorder {
    /// The events so far, by time.
    pub fn events(&self) -> Vec<Event> {
        let mut events = crate::lock(&self.0).clone();
        events.sort_by_key(|event| event.at);
        events
    }

    /// Forgets them.
    pub fn clear(&self) {
        crate::lock(&self.0).clear();
    }
}

impl Observer for Recorder {
    fn event(&self, event: Event) {
        crate::lock(&self.0).push(event);
    }
}
