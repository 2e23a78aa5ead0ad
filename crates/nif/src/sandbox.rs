//! What Python may not do in this process, as far as CPython's auditing knows of it. `erlang._sandbox` has the rest.

use pyrt::Refusals;

macro_rules! programs {
    ($name:literal) => {
        match core::ffi::CStr::from_bytes_with_nul(
            concat!(
                $name,
                " is refused inside the Erlang VM, whose threads a forked child would not have: start programs in Erlang, ",
                "with open_port/2, and register a function for it that Python calls\0"
            )
            .as_bytes(),
        ) {
            Ok(text) => text,
            Err(_) => c"refused inside the Erlang VM: use open_port/2",
        }
    };
}

/// The events, by the names CPython documents.
pub(crate) const REFUSED: Refusals = &[
    (c"os.fork", programs!("os.fork")),
    (c"os.forkpty", programs!("os.forkpty")),
    (c"os.exec", programs!("os.exec")),
    (c"os.posix_spawn", programs!("os.posix_spawn")),
    (c"os.spawn", programs!("os.spawn")),
    (c"os.system", programs!("os.system")),
    (c"subprocess.Popen", programs!("subprocess.Popen")),
    (c"pty.spawn", programs!("pty.spawn")),
];
