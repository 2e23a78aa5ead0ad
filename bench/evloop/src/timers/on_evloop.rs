//! Our timers: `Local::call_later` and `Local::cancel`, from a callback on the loop's thread.

use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use evloop::{Local, TimerToken};

use super::{Taken, Timers};
use crate::loops::on_evloop::Running;
use crate::loops::{Loop, Poster};
use crate::tally::Tally;

pub(super) struct OnEvloop {
    running: Running,
    /// The tokens of `alive`, kept between rounds: the memory is warm, as it is for every arm.
    array: Arc<Mutex<Vec<TimerToken>>>,
}

impl OnEvloop {
    pub(super) fn start() -> OnEvloop {
        OnEvloop { running: Running::start(), array: Arc::default() }
    }

    /// Runs `work` on the loop's thread.
    fn on_loop(&self, work: impl FnOnce(&Local) -> Taken + Send + 'static) -> Taken {
        let (done, taken) = channel();
        Poster::post(&self.running.0, move || {
            let _ = done.send(work(&Local::current().unwrap()));
        });
        taken.recv().map_err(|_| "the loop is gone".to_owned())?
    }
}

/// A timer that is cancelled before it fires; its closure is as large as that of `fire`.
fn arm(local: &Local, delay: Duration, started: Instant) -> TimerToken {
    local.call_later(delay, move || fired_late(started)).unwrap()
}

#[cold]
fn fired_late(started: Instant) {
    eprintln!("a cancelled timer fired after {:?}", started.elapsed());
    std::process::abort();
}

impl Timers for OnEvloop {
    fn fire(&mut self, tally: &'static Tally, last: Receiver<Instant>) -> Taken {
        let (tell, told) = channel();
        Poster::post(&self.running.0, move || {
            let local = Local::current().unwrap();
            let _ = tell.send(Instant::now());
            for _ in 0..tally.expected() {
                let armed = Instant::now();
                local.call_later(tally.delay(), move || tally.fired(armed)).unwrap();
            }
        });
        let last = tally.wait(&last)?;
        let started = told.recv().map_err(|_| "the loop is gone".to_owned())?;
        Ok(last.duration_since(started))
    }

    fn alive(&mut self, delays: &'static [Duration]) -> Taken {
        let array = Arc::clone(&self.array);
        self.on_loop(move |local| {
            let mut array = array.lock().unwrap();
            array.reserve(delays.len());
            let started = Instant::now();
            array.extend(delays.iter().map(|delay| arm(local, *delay, started)));
            let cancelled = array.drain(..).filter(|token| local.cancel(*token) == Ok(true)).count();
            let taken = started.elapsed();
            if cancelled == delays.len() { Ok(taken) } else { Err(format!("{cancelled} timers were alive")) }
        })
    }

    fn pair(&mut self, count: u64, delay: Duration) -> Taken {
        self.on_loop(move |local| {
            let started = Instant::now();
            let mut cancelled = 0;
            for _ in 0..count {
                let token = arm(local, delay, started);
                cancelled += u64::from(local.cancel(token) == Ok(true));
            }
            let taken = started.elapsed();
            if cancelled == count { Ok(taken) } else { Err(format!("{cancelled} timers were alive")) }
        })
    }

    fn stop(self: Box<Self>) {
        self.running.stop();
    }
}
