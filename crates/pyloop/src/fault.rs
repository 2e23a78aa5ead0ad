//! Which Python exception an error of the event-loop core becomes: the one the stdlib's selectors give. Attached threads only.

use evloop::Error;
use pyrt::{Attached, Fault, Raised};

const EPERM: i32 = 1;
const EBADF: i32 = 9;
const EEXIST: i32 = 17;

/// Raises an error of the core.
#[cold]
pub(crate) fn raise(py: Attached<'_>, error: Error) -> Raised {
    let fault = match error {
        Error::BadFd { .. } => Fault::Os(EBADF),
        Error::NotPollable { .. } => Fault::Os(EPERM),
        Error::AlreadyRegistered { .. } => Fault::Os(EEXIST),
        Error::Os { source, .. } => Fault::Os(source.raw_os_error()),
        other => Fault::runtime(other.to_string()),
    };
    fault.raise(py)
}

/// What every method of a closed loop says.
#[cold]
pub(crate) fn closed(py: Attached<'_>) -> Raised {
    Fault::runtime("Event loop is closed").raise(py)
}
