//! Eight blocking threads over one channel: what a program without an event loop does.

use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use crate::loops::Job;
use crate::tally::Tally;

const THREADS: usize = 8;

pub(super) fn measure(tally: &'static Tally, last: &Receiver<Instant>) -> Result<Duration, String> {
    let (sender, jobs) = channel::<Job>();
    let jobs = Arc::new(Mutex::new(jobs));
    let threads: Vec<_> = (0..THREADS)
        .map(|_| {
            let jobs = Arc::clone(&jobs);
            thread::spawn(move || {
                loop {
                    // The lock is given back before the job runs.
                    let job = jobs.lock().unwrap().recv();
                    match job {
                        Ok(job) => job(),
                        Err(_) => break,
                    }
                }
            })
        })
        .collect();
    let started = Instant::now();
    for _ in 0..tally.expected() {
        let armed = Instant::now();
        let job: Job = Box::new(move || {
            thread::sleep(tally.delay());
            tally.fired(armed);
        });
        sender.send(job).map_err(|_| "the pool is gone".to_owned())?;
    }
    let last = tally.wait(last)?;
    drop(sender);
    for thread in threads {
        thread.join().unwrap();
    }
    Ok(last.duration_since(started))
}
