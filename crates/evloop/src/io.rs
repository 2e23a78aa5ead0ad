//! `IoState`: an fd that futures wait on. It may be used on any thread; its registration is changed on the loop's, and
//! the fd is closed when the last reference is gone, which the registration holds until the poller has forgotten it.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use rustix::io::Errno;

use crate::driver::{LoopState, Source};
use crate::error::Result;
use crate::local::Local;
use crate::os::Interest;
use crate::readiness::{Direction, Polled, Readiness};
use crate::shared::Remote;
use crate::sources::Fd;
use crate::token::SourceToken;

#[derive(Debug)]
pub(crate) struct IoState {
    fd: OwnedFd,
    readiness: Readiness,
    token: OnceLock<SourceToken>,
    remote: Remote,
}

impl IoState {
    /// The loop's side of a report.
    pub(crate) fn deliver(self: &Arc<Self>, state: &LoopState, ready: Interest) {
        let delivery = self.readiness.deliver(ready);
        if delivery.rearm {
            self.apply(state);
        }
        for waker in delivery.wakers.into_iter().flatten() {
            waker.wake();
        }
    }

    /// Tells the poller what is armed now. However late and in whatever order these come, the last one is right.
    fn apply(&self, state: &LoopState) {
        if let Some(token) = self.token.get() {
            // It fails only for an fd that was deregistered meanwhile.
            let _ = state.core.borrow_mut().set_interest(*token, self.readiness.armed());
        }
    }
}

/// The one handle through which an fd is used. Dropping it ends the registration, then closes the fd.
#[derive(Debug)]
pub(crate) struct Io(Arc<IoState>);

impl Io {
    /// Registers a non-blocking fd with this thread's loop.
    pub(crate) fn new(fd: OwnedFd, armed: Interest) -> Result<Io> {
        let local = Local::current()?;
        let state = Arc::new(IoState {
            fd,
            readiness: Readiness::new(armed),
            token: OnceLock::new(),
            remote: local.remote(),
        });
        let lent = Fd::Lent(state.fd.as_raw_fd());
        let token = local.state().register(lent, armed, Source::Async(state.clone()))?;
        let _ = state.token.set(token);
        Ok(Io(state))
    }

    pub(crate) fn fd(&self) -> &OwnedFd {
        &self.0.fd
    }

    /// Tries `operation` until it does not say that it would block, waiting in between.
    pub(crate) fn poll<T>(
        &self,
        cx: &mut Context<'_>,
        direction: Direction,
        mut operation: impl FnMut(&OwnedFd) -> rustix::io::Result<T>,
    ) -> Poll<io::Result<T>> {
        loop {
            match self.0.readiness.poll(direction, cx.waker()) {
                Polled::Ready => match operation(&self.0.fd) {
                    Ok(value) => return Poll::Ready(Ok(value)),
                    Err(Errno::AGAIN) => self.0.readiness.clear(direction),
                    Err(Errno::INTR) => {}
                    Err(error) => return Poll::Ready(Err(error.into())),
                },
                Polled::Waiting { rearm } => {
                    if rearm {
                        let state = self.0.clone();
                        self.0.remote.run(move |on| state.apply(on));
                    }
                    return Poll::Pending;
                }
            }
        }
    }

    /// The last operation used up what there was: not worth another try before the next report.
    pub(crate) fn used_up(&self, direction: Direction) {
        self.0.readiness.clear(direction);
    }
}

impl Drop for Io {
    fn drop(&mut self) {
        let state = self.0.clone();
        self.0.remote.run(move |on| {
            if let Some(token) = state.token.get() {
                let source = on.core.borrow_mut().deregister(*token);
                drop(source);
            }
        });
    }
}
