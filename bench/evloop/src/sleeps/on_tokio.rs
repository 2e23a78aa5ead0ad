//! tokio: one task per sleep, spawned from outside onto a current-thread runtime.

use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use crate::loops::on_tokio::Spawning;
use crate::tally::Tally;

pub(super) fn measure(tally: &'static Tally, last: &Receiver<Instant>) -> Result<Duration, String> {
    let runtime = Spawning::start();
    let started = Instant::now();
    for _ in 0..tally.expected() {
        let armed = Instant::now();
        runtime.handle.spawn(async move {
            tokio::time::sleep(tally.delay()).await;
            tally.fired(armed);
        });
    }
    let last = tally.wait(last)?;
    runtime.stop();
    Ok(last.duration_since(started))
}
