//! The crate's one error type. Every message says what to do about it.

use std::os::fd::RawFd;

use rustix::io::Errno;

use crate::lifecycle::State;

/// What can go wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// `start` with a configuration that differs from the one the loop runs with.
    #[error(
        "the loop already runs with another configuration: start it with the same one, or make a new EventLoop"
    )]
    AlreadyStarted,
    /// `start` after `stop`.
    #[error("the loop was stopped and does not start again: make a new EventLoop")]
    Stopped,
    /// A delay that is negative or not a number.
    #[error(
        "a delay must be a number of seconds, zero or more, not {seconds}: pass 0 to run as soon as possible"
    )]
    BadDelay {
        /// What was given, as text (a NaN is not equal to itself).
        seconds: String,
    },
    /// The fd is not open, or was closed while it was registered.
    #[error("fd {fd} is not open: register it before closing it, and deregister it first when closing")]
    BadFd {
        /// The fd's number.
        fd: RawFd,
    },
    /// The fd is of a kind that is always ready, such as a regular file.
    #[error("fd {fd} cannot be polled (a regular file?): read and write it directly or on another thread")]
    NotPollable {
        /// The fd's number.
        fd: RawFd,
    },
    /// The fd is registered with this loop already.
    #[error("fd {fd} is registered with this loop: change its interest, or deregister it first")]
    AlreadyRegistered {
        /// The fd's number.
        fd: RawFd,
    },
    /// A token that another loop gave out.
    #[error("the token belongs to another loop: use it on the loop that gave it out")]
    ForeignToken,
    /// A token whose registration or timer is gone.
    #[error("the token's registration is gone: it fired, was cancelled, or was deregistered")]
    StaleToken,
    /// A call that only works on a loop's thread was made elsewhere.
    #[error(
        "no loop runs on this thread: make this call from a callback or a future on the loop, or use EventLoop::post"
    )]
    NotOnLoop,
    /// A turn inside a turn of the same loop.
    #[error(
        "the loop is in the middle of a turn: return from the callback instead of turning it from inside"
    )]
    Reentrant,
    /// The loop does not take work in its present state.
    #[error("{}", rejection(.0))]
    NotRunning(State),
    /// The operating system refused.
    #[error("cannot {what}: {source}")]
    Os {
        /// What was tried.
        what: &'static str,
        /// Why it failed.
        source: Errno,
    },
}

/// This crate's result.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub(crate) fn os(what: &'static str, source: Errno) -> Error {
        Error::Os { what, source }
    }
}

impl From<Error> for std::io::Error {
    fn from(error: Error) -> Self {
        match error {
            Error::Os { source, .. } => source.into(),
            other => std::io::Error::other(other),
        }
    }
}

/// Why a loop in this state takes no work, and what to do.
fn rejection(state: &State) -> &'static str {
    match state {
        State::Idle | State::Starting => "the loop does not run yet: call start first",
        State::Running => "the loop has just stopped taking work",
        State::Stopping => "the loop is stopping and takes no more work",
        State::Stopped => "the loop was stopped and takes no more work: make a new EventLoop",
    }
}

/// Work the loop did not take, given back unrun.
#[derive(thiserror::Error)]
#[error("{}", rejection(.state))]
pub struct Rejected<W> {
    work: W,
    state: State,
}

impl<W> Rejected<W> {
    pub(crate) fn new(work: W, state: State) -> Self {
        Self { work, state }
    }

    /// The work, untouched.
    pub fn into_inner(self) -> W {
        self.work
    }

    /// The state that the loop was in when it refused.
    pub fn state(&self) -> State {
        self.state
    }
}

impl<W> std::fmt::Debug for Rejected<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rejected").field("state", &self.state).finish_non_exhaustive()
    }
}

impl<W> From<Rejected<W>> for Error {
    fn from(rejected: Rejected<W>) -> Self {
        Error::NotRunning(rejected.state)
    }
}
