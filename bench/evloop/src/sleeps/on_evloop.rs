//! Ours: one future per sleep, spawned from outside onto the loop.

use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use crate::loops::Loop;
use crate::loops::on_evloop::Running;
use crate::tally::Tally;

pub(super) fn measure(tally: &'static Tally, last: &Receiver<Instant>) -> Result<Duration, String> {
    let running = Running::start();
    let started = Instant::now();
    // The handles are kept until the end: whether dropping one would end its task is not this bench's question.
    let mut tasks = Vec::with_capacity(usize::try_from(tally.expected()).unwrap());
    for _ in 0..tally.expected() {
        let armed = Instant::now();
        let task = running.0.spawn(async move {
            // One that fails does not count, and the tally says so.
            if evloop::sleep(tally.delay()).await.is_ok() {
                tally.fired(armed);
            }
        });
        tasks.push(task.map_err(|_| "the loop is gone".to_owned())?);
    }
    let last = tally.wait(last)?;
    drop(tasks);
    running.stop();
    Ok(last.duration_since(started))
}
