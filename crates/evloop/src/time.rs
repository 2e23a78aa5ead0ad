//! Time for Rust futures on a loop: `sleep` and `timeout`, and `Delay`, a checked length of time.

use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use crate::error::{Error, Result};
use crate::local::Local;
use crate::os::{Nanos, now};
use crate::shared::Remote;
use crate::token::TimerToken;

/// A length of time from now on. Exact to the nanosecond and, where a conversion cannot be exact, rounded up: nothing
/// fires early.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Delay(Nanos);

impl Delay {
    /// From seconds as a float, the way Python gives them. Negative delays and NaN are refused; what is longer than
    /// the clock lasts (584 years) is as long as the clock lasts.
    pub fn from_secs_f64(seconds: f64) -> Result<Delay> {
        if seconds.is_nan() || seconds < 0.0 {
            return Err(Error::BadDelay { seconds: seconds.to_string() });
        }
        // A float-to-integer cast saturates.
        Ok(Delay((seconds * 1e9).ceil() as Nanos))
    }

    /// The deadline this long from now.
    #[inline]
    pub fn deadline(self) -> Nanos {
        now().saturating_add(self.0)
    }
}

impl From<Duration> for Delay {
    #[inline]
    fn from(duration: Duration) -> Self {
        Delay(Nanos::try_from(duration.as_nanos()).unwrap_or(Nanos::MAX))
    }
}

/// Waits for `delay`, counted from the first poll. Fails if polled where no loop runs.
pub fn sleep(delay: impl Into<Delay>) -> Sleep {
    Sleep { delay: delay.into(), armed: None }
}

/// The future of [`sleep`]. Dropping it cancels its timer.
#[derive(Debug)]
#[must_use = "futures do nothing unless awaited"]
pub struct Sleep {
    delay: Delay,
    armed: Option<Armed>,
}

#[derive(Debug)]
struct Armed {
    deadline: Nanos,
    waker: Waker,
    timer: TimerToken,
    remote: Remote,
}

impl Future for Sleep {
    type Output = Result<()>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let deadline = match &self.armed {
            Some(armed) => armed.deadline,
            None => self.delay.deadline(),
        };
        if deadline <= now() {
            self.disarm();
            return Poll::Ready(Ok(()));
        }
        let local = Local::current()?;
        if let Some(armed) = &self.armed {
            if armed.waker.will_wake(cx.waker()) && armed.remote.is(local.id()) {
                return Poll::Pending;
            }
        }
        // Another task awaits it now, or even on another loop.
        self.disarm();
        let waker = cx.waker().clone();
        let timer = local.wake_at(deadline, waker.clone())?;
        self.armed = Some(Armed { deadline, waker, timer, remote: local.remote() });
        Poll::Pending
    }
}

impl Sleep {
    fn disarm(&mut self) {
        if let Some(armed) = self.armed.take() {
            armed.remote.cancel_timer(armed.timer);
        }
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        self.disarm();
    }
}

/// The time given to [`timeout`] is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the time is over")]
pub struct Elapsed;

/// Runs `future` for at most `delay`; then it is dropped. The outer error is the loop's, the inner one the clock's.
pub async fn timeout<F: Future>(
    delay: impl Into<Delay>,
    future: F,
) -> Result<std::result::Result<F::Output, Elapsed>> {
    let mut future = pin!(future);
    let mut sleep = pin!(sleep(delay));
    std::future::poll_fn(|cx| {
        if let Poll::Ready(output) = future.as_mut().poll(cx) {
            return Poll::Ready(Ok(Ok(output)));
        }
        Poll::Ready(ready!(sleep.as_mut().poll(cx)).map(|()| Err(Elapsed)))
    })
    .await
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_delay_is_rounded_up_and_a_bad_one_is_named() {
        assert_eq!(Delay::from_secs_f64(1e-10), Ok(Delay(1)));
        assert_eq!(Delay::from_secs_f64(0.0), Ok(Delay(0)));
        assert_eq!(Delay::from_secs_f64(f64::INFINITY), Ok(Delay(Nanos::MAX)));
        assert_eq!(Delay::from(Duration::MAX), Delay(Nanos::MAX));
        for bad in [-1.0, -1e-9, f64::NAN, f64::NEG_INFINITY] {
            let error = Delay::from_secs_f64(bad).unwrap_err();
            assert!(matches!(error, Error::BadDelay { .. }));
            assert!(error.to_string().contains("pass 0"), "{error}");
        }
    }

    #[test]
    fn a_sleep_where_no_loop_runs_says_so() {
        let mut sleep = pin!(sleep(Duration::from_secs(1)));
        let mut cx = Context::from_waker(std::task::Waker::noop());
        assert_eq!(sleep.as_mut().poll(&mut cx), Poll::Ready(Err(Error::NotOnLoop)));
    }
}
