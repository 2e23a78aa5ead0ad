//! `Child`: a child process that is waited for, by its pidfd. The loop's thread only.
//!
//! Made by `_watch_pid` and held by its registration alone, which owns the pidfd: it goes when the child has ended or the loop is closed.
//! Whoever waits for a child goes on when the last of this is done, so it is native: the same in Python took 14 µs, in caches that the child
//! has just used.

use std::ffi::CStr;
use std::os::fd::AsRawFd as _;
use std::sync::OnceLock;

use evloop::{Fd, Interest, SourceToken};
use pyrt::{
    Args, Attached, Borrowed, Class, Fixed, Instance, Kind, ObjCell, Owned, PyResult, Snapshot, Stay,
    Traverse, Typed, Visit, Visited, check_signals, confined,
};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, WaitOptions, WaitStatus, pidfd_open, waitpid};

use crate::event_loop::Loop;
use crate::transport::os_error;

/// A child, and the transport that is told of its end.
pub(crate) struct Child {
    owner: Typed<Loop>,
    transport: Fixed,
    /// What its transport is told in; nothing if there are no variables.
    context: ObjCell,
    pid: Pid,
    number: i32,
    token: OnceLock<SourceToken>,
}

confined!(Child { owner, transport, context, pid, number, token });

impl Traverse for Child {
    fn traverse(&self, visit: &mut Visit<'_>) -> Visited {
        self.owner.traverse(visit)?;
        self.transport.traverse(visit)?;
        self.context.traverse(visit)
    }
}

impl Class for Child {
    const NAME: &'static CStr = c"erlang._native.Child";
    const DOC: &'static CStr = c"A child process that is waited for. Made by the event loop.";
}

impl Loop {
    /// `_watch_pid(pid, transport)`: calls `transport._process_exited` with the exit code when the child has ended. False if the kernel
    /// has no pidfd for it.
    pub(crate) fn watch_pid(py: Attached<'_>, this: Instance<'_, Self>, args: Args<'_>) -> PyResult<bool> {
        let [pid, transport] = args.positional() else {
            return Err(Kind::TypeError.raise(py, "_watch_pid() takes a pid and a transport"));
        };
        let Some(pid) = Pid::from_raw(pid.to_i32(py)?) else {
            return Err(Kind::ValueError.raise(py, "a process has a positive pid"));
        };
        let Ok(pidfd) = pidfd_open(pid, PidfdFlags::empty()) else { return Ok(false) };
        let number = pidfd.as_raw_fd();
        let child = this.native().child.create(
            py,
            Child {
                owner: this.clone_ref(py),
                transport: transport.clone_ref(py).into(),
                context: Snapshot::current(py)?.into_object().map_or_else(ObjCell::empty, ObjCell::new),
                pid,
                number,
                token: OnceLock::new(),
            },
        )?;
        let target = child.object().clone_ref(py);
        let token = this.register(py, Fd::Owned(pidfd), number, Interest::READ, target, ended)?;
        // A second time does not happen, and would change nothing.
        let _ = child.token.set(token);
        Ok(true)
    }
}

/// The pidfd is ready: the child has ended.
fn ended(py: Attached<'_>, target: Borrowed<'_>, _what: Interest) -> PyResult<()> {
    // SAFETY: `watch_pid` registers this function with an instance of this class, and nobody else does.
    let this = unsafe { Instance::<Child>::assume(target) };
    this.tell(py).or_else(|raised| this.owner.native().native_failed(py, this.transport.borrow(), raised))
}

impl Child {
    /// The pidfd is let go, the child reaped, its transport told.
    fn tell(&self, py: Attached<'_>) -> PyResult<()> {
        if let Some(token) = self.token.get() {
            drop(self.owner.deregister(py, *token, self.number)?);
        }
        let native = self.owner.native();
        let code = match self.reap(py)? {
            Ok(status) => Owned::int(py, exit_code(status))?,
            Err(Errno::CHILD) => {
                let pid = Owned::int(py, self.pid.as_raw_pid().into())?;
                native.lost_status.get(py)?.call(py, [pid.borrow()])?
            }
            Err(error) => return Err(os_error(py, error)),
        };
        let context = self.context.take(py).map_or_else(Snapshot::default, Snapshot::given);
        let told = || self.transport.call_method1(py, &native.names.process_exited, &code).map(drop);
        context.run(py, &mut Stay::new(&self.owner.spare_context), told)?.0
    }

    /// How it has ended. One that is traced has to be waited for all the same, which asyncio does there and then.
    fn reap(&self, py: Attached<'_>) -> PyResult<Result<WaitStatus, Errno>> {
        let mut found = waitpid(Some(self.pid), WaitOptions::NOHANG);
        loop {
            match found {
                Ok(Some((_, status))) => return Ok(Ok(status)),
                Ok(None) | Err(Errno::INTR) => check_signals(py)?,
                Err(error) => return Ok(Err(error)),
            }
            found = py.detach(|| waitpid(Some(self.pid), WaitOptions::empty()));
        }
    }
}

/// As `os.waitstatus_to_exitcode` has it: what it exited with, or the signal that ended it, negative.
fn exit_code(status: WaitStatus) -> i64 {
    let code = status.exit_status().or_else(|| status.terminating_signal().map(|signal| -signal));
    code.unwrap_or(status.as_raw()).into()
}
