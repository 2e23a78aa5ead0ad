//! Cross-thread wake-up latency. `sparse`: the loop's thread is asleep in the kernel before every sample, and
//! the time runs from just before the post to the first line of the closure. `dense`: two loops post to each
//! other without a pause, and a sample is one round trip.

use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use crate::loops::{Loop, Poster, on_evloop, on_tokio};
use crate::params::Params;
use crate::report::{Outcome, Report, cpu_time, micros, percentile};

type Samples = Result<(Vec<Duration>, Duration), String>;

pub(crate) fn run(arm: &str, params: &mut Params) -> Outcome {
    let row: String = params.take("row", "sparse".to_owned())?;
    let samples = params.take("samples", 1_000_usize)?;
    params.finish()?;
    let (mut samples, cpu) = match arm {
        "evloop" => measure::<on_evloop::Running>(&row, samples),
        "tokio" => measure::<on_tokio::Channel<false>>(&row, samples),
        other => Err(format!("no such arm: {other}")),
    }?;
    Ok(Report {
        topic: "wakeup",
        row,
        arm: arm.to_owned(),
        value: micros(percentile(&mut samples, 50)),
        unit: "us",
        cpu_seconds: cpu.as_secs_f64(),
        also: vec![("p99", micros(percentile(&mut samples, 99)))],
    })
}

fn measure<L: Loop>(row: &str, samples: usize) -> Samples {
    match row {
        "sparse" => sparse::<L>(samples),
        "dense" => dense::<L>(samples),
        other => Err(format!("no such row: {other}")),
    }
}

/// Long enough for a loop that spins before it sleeps; that it does sleep is checked, not assumed.
const PAUSE: Duration = Duration::from_micros(1_500);

fn sparse<L: Loop>(samples: usize) -> Samples {
    let the_loop = L::start();
    let poster = the_loop.poster();
    let (tell, told) = channel();
    poster.post(move || tell.send(fs::read_link("/proc/thread-self").unwrap()).unwrap());
    let stat = format!("/proc/{}/stat", told.recv().unwrap().display());

    let latency = Arc::new(AtomicU64::new(0));
    let mut taken = Vec::with_capacity(samples);
    let cpu = cpu_time();
    while taken.len() < samples {
        until_asleep(&stat)?;
        let slot = Arc::clone(&latency);
        let posted = Instant::now();
        poster.post(move || {
            let nanos = u64::try_from(posted.elapsed().as_nanos()).unwrap_or(u64::MAX);
            slot.store(nanos.max(1), Ordering::Release);
        });
        taken.push(answer(&latency)?);
    }
    let cpu = cpu_time() - cpu;
    drop(poster);
    the_loop.stop();
    Ok((taken, cpu))
}

/// Waits in steps of the pause until the kernel says that the thread sleeps.
fn until_asleep(stat: &str) -> Result<(), String> {
    for _ in 0..1_000 {
        thread::sleep(PAUSE);
        let line = fs::read_to_string(stat).map_err(|error| format!("{stat}: {error}"))?;
        // proc(5): the state is the letter after the name in parentheses, and the name may contain anything.
        if line.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('S')) {
            return Ok(());
        }
    }
    Err("the loop's thread never sleeps".to_owned())
}

fn answer(latency: &AtomicU64) -> Result<Duration, String> {
    for _ in 0..10_000 {
        thread::sleep(PAUSE);
        match latency.swap(0, Ordering::Acquire) {
            0 => {}
            nanos => return Ok(Duration::from_nanos(nanos)),
        }
    }
    Err("a posted closure never ran".to_owned())
}

struct Rally<P> {
    here: P,
    there: P,
    rounds: usize,
    taken: Mutex<Vec<Duration>>,
    over: Sender<()>,
}

/// Runs on the first loop: there, back, and again.
fn serve<P: Poster>(rally: Arc<Rally<P>>) {
    let sent = Instant::now();
    let reply = Arc::clone(&rally);
    rally.there.post(move || {
        let back = Arc::clone(&reply);
        reply.here.post(move || {
            let mut taken = back.taken.lock().unwrap();
            taken.push(sent.elapsed());
            let more = taken.len() < back.rounds;
            drop(taken);
            if more {
                serve(back);
            } else {
                let _ = back.over.send(());
            }
        });
    });
}

fn dense<L: Loop>(rounds: usize) -> Samples {
    let (first, second) = (L::start(), L::start());
    let (over, end) = channel();
    let rally = Arc::new(Rally {
        here: first.poster(),
        there: second.poster(),
        rounds,
        taken: Mutex::new(Vec::with_capacity(rounds)),
        over,
    });
    let cpu = cpu_time();
    let serving = Arc::clone(&rally);
    rally.here.post(move || serve(serving));
    let ended = end.recv_timeout(Duration::from_secs(60));
    let cpu = cpu_time() - cpu;
    let taken = std::mem::take(&mut *rally.taken.lock().unwrap());
    ended.map_err(|_| format!("{} of {rounds} round trips", taken.len()))?;
    drop(rally);
    first.stop();
    second.stop();
    Ok((taken, cpu))
}
