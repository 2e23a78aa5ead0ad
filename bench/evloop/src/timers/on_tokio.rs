//! tokio's timers: `Sleep` futures on a current-thread runtime.
//!
//! A `Sleep` is in the wheel only after its first poll. All of them are polled outside tokio's cooperative
//! budget, which would otherwise answer "pending" after 128 polls without registering anything.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::task::unconstrained;
use tokio::time::{Sleep, sleep};

use super::{Taken, Timers};
use crate::loops::on_tokio::Spawning;
use crate::tally::Tally;

/// Fires from one task per timer, or (`unordered`) from one task over a `FuturesUnordered`; the better one
/// stands for tokio.
pub(super) struct OnTokio {
    runtime: Spawning,
    unordered: bool,
    /// The sleeps of `alive`, in one allocation that is kept between rounds, as libuv's array is: faster than
    /// a box each.
    array: Arc<Mutex<Vec<Sleep>>>,
}

impl OnTokio {
    pub(super) fn start(unordered: bool) -> OnTokio {
        OnTokio { runtime: Spawning::start(), unordered, array: Arc::default() }
    }

    /// Runs `work` on the runtime's thread, in a task.
    fn on_loop(&self, mut work: impl FnMut(&mut Context<'_>) -> Taken + Send + 'static) -> Taken {
        let (done, taken) = channel();
        let work = unconstrained(poll_fn(move |cx| Poll::Ready(work(cx))));
        self.runtime.handle.spawn(async move {
            let _ = done.send(work.await);
        });
        taken.recv().map_err(|_| "the runtime is gone".to_owned())?
    }
}

/// A timer whose deadline counts from this call.
fn timer(tally: &'static Tally) -> impl Future<Output = ()> + Send {
    let armed = Instant::now();
    let sleep = sleep(tally.delay());
    async move {
        sleep.await;
        tally.fired(armed);
    }
}

impl Timers for OnTokio {
    fn fire(&mut self, tally: &'static Tally, last: Receiver<Instant>) -> Taken {
        let (tell, told) = channel();
        let unordered = self.unordered;
        self.runtime.handle.spawn(async move {
            let _ = tell.send(Instant::now());
            if unordered {
                let all: FuturesUnordered<_> = (0..tally.expected()).map(|_| timer(tally)).collect();
                unconstrained(all.for_each(|()| std::future::ready(()))).await;
            } else {
                for _ in 0..tally.expected() {
                    tokio::spawn(timer(tally));
                }
            }
        });
        let last = tally.wait(&last)?;
        let started = told.recv().map_err(|_| "the runtime is gone".to_owned())?;
        Ok(last.duration_since(started))
    }

    fn alive(&mut self, delays: &'static [Duration]) -> Taken {
        let array = Arc::clone(&self.array);
        self.on_loop(move |cx| {
            let mut array = array.lock().unwrap();
            array.reserve(delays.len());
            let started = Instant::now();
            let mut pending = 0;
            for delay in delays {
                array.push(sleep(*delay));
                if let Some(sleep) = array.last_mut() {
                    // SAFETY: the array was reserved to its full size, so no push moves a sleep; nobody else
                    // takes one out, and `clear` drops them in place.
                    let sleep = unsafe { Pin::new_unchecked(sleep) };
                    pending += usize::from(sleep.poll(cx).is_pending());
                }
            }
            array.clear();
            let taken = started.elapsed();
            if pending == delays.len() { Ok(taken) } else { Err(format!("{pending} timers were alive")) }
        })
    }

    fn pair(&mut self, count: u64, delay: Duration) -> Taken {
        self.on_loop(move |cx| {
            let started = Instant::now();
            let mut pending = 0;
            for _ in 0..count {
                pending += u64::from(pin!(sleep(delay)).poll(cx).is_pending());
            }
            let taken = started.elapsed();
            if pending == count { Ok(taken) } else { Err(format!("{pending} timers were alive")) }
        })
    }

    fn stop(self: Box<Self>) {
        self.runtime.stop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
    use std::task::{Wake, Waker};

    #[derive(Default)]
    struct Count(AtomicU64);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Relaxed);
        }
    }

    /// What `alive` counts on: one poll puts a sleep into the wheel, however many were polled before it.
    #[test]
    fn every_sleep_polled_once_is_registered() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let count = Arc::new(Count::default());
        let waker = Waker::from(Arc::clone(&count));
        runtime.block_on(async {
            let mut sleeps: Vec<_> = (0..1_000).map(|_| Box::pin(sleep(Duration::from_millis(1)))).collect();
            unconstrained(poll_fn(|_| {
                let mut cx = Context::from_waker(&waker);
                assert!(sleeps.iter_mut().all(|sleep| sleep.as_mut().poll(&mut cx).is_pending()));
                Poll::Ready(())
            }))
            .await;
            sleep(Duration::from_millis(20)).await;
        });
        assert_eq!(count.0.load(Relaxed), 1_000);
    }
}
