//! The CPU time of a process, this one or another, at the scheduler's own resolution.

use std::time::Duration;

/// All threads of process `pid` since its start (0: this process), by `clock_getcpuclockid(3)`.
pub(crate) fn of_process(pid: i32) -> Result<Duration, String> {
    let mut clock: libc::clockid_t = 0;
    // SAFETY: `clock` is a place for the answer and outlives the call.
    let found = unsafe { libc::clock_getcpuclockid(pid, &mut clock) };
    if found != 0 {
        return Err(format!("no CPU clock of process {pid}: error {found}"));
    }
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: as above, for `now`.
    if unsafe { libc::clock_gettime(clock, &mut now) } != 0 {
        return Err(format!("CPU clock of process {pid}: {}", std::io::Error::last_os_error()));
    }
    Ok(Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_of_a_process_does_not_go_back() {
        let mine = i32::try_from(std::process::id()).unwrap();
        let first = of_process(mine).unwrap();
        assert!(of_process(0).unwrap() >= first);
    }

    #[test]
    fn a_process_that_is_not_there_is_an_error() {
        // Above the largest process id the kernel gives out, 2^22.
        assert!(of_process(1 << 27).is_err());
    }
}
