//! `Intake`: reading a stream of bytes, one read(2) per readiness.
//!
//! Small reads go to a buffer that all transports of a loop share, and from there into a `bytes` of the exact size. Where the last
//! read was large the next one goes straight into a `bytes` as large as is to be expected, which saves the copy.

use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use pyrt::{Attached, Owned, PyResult, Room};
use rustix::io::Errno;

use super::{LARGEST, heap};
use crate::event_loop::Loop;

/// From here on a copy costs more than room that is not used up.
pub(crate) const LARGE: usize = 32 * 1024;

/// What a `bytes` and its block take beside the content. With it, room for 128 KiB stays below the size from which on
/// malloc(3) asks the kernel each time (mallopt(3), M_MMAP_THRESHOLD).
const HEADER: usize = 64;

/// Where bytes come from. The call does not block; no bytes at all are the end.
pub(crate) trait Origin: Copy {
    /// Reads into memory that need not be initialised; what was read comes back, from its start.
    fn receive(self, room: &mut [MaybeUninit<u8>]) -> Result<&[u8], Errno>;
}

/// How much the last reads brought: what the next one makes room for. Never more than twice [`LARGEST`].
#[derive(Default)]
pub(crate) struct Intake(AtomicU32);

impl Intake {
    #[inline]
    fn last(&self) -> usize {
        self.0.load(Relaxed) as usize
    }

    #[inline]
    fn remember(&self, size: usize) {
        self.0.store(size as u32, Relaxed);
    }

    /// What is there, or nothing at the end of the stream.
    #[inline]
    pub(crate) fn read(
        &self,
        py: Attached<'_>,
        owner: &Loop,
        origin: impl Origin,
    ) -> PyResult<Result<Option<Owned>, Errno>> {
        if self.last() >= LARGE { self.read_large(py, origin) } else { self.read_small(py, owner, origin) }
    }

    /// By way of the loop's buffer.
    #[inline]
    fn read_small(
        &self,
        py: Attached<'_>,
        owner: &Loop,
        origin: impl Origin,
    ) -> PyResult<Result<Option<Owned>, Errno>> {
        // Making a `bytes` runs no Python code: the collector does not know them.
        owner.scratch.with(py, |scratch| match origin.receive(scratch.room()) {
            Ok([]) => Ok(Ok(None)),
            Ok(read) => {
                self.remember(read.len());
                if read.len() >= heap::MEDIUM {
                    heap::keep();
                }
                Owned::bytes(py, read).map(|data| Ok(Some(data)))
            }
            Err(error) => Ok(Err(error)),
        })?
    }

    /// Straight into its place. The room follows the traffic: twice as much if it was used up, half if not a quarter was used.
    /// A message often comes as a large part and the rest; the rest must not make the room too small for the next one.
    fn read_large(&self, py: Attached<'_>, origin: impl Origin) -> PyResult<Result<Option<Owned>, Errno>> {
        let expected = self.last().next_power_of_two().min(LARGEST);
        let size = expected - HEADER;
        let mut room = Room::new(py, size)?;
        Ok(match origin.receive(room.space()).map(<[u8]>::len) {
            Ok(0) => Ok(None),
            Ok(read) => {
                let next = match read {
                    read if read == size => expected * 2,
                    read if read < expected / 4 => expected / 2,
                    _ => expected,
                };
                self.remember(next);
                // SAFETY: that many bytes were just read into it.
                Ok(Some(unsafe { room.finish(py, read)? }))
            }
            Err(error) => Err(error),
        })
    }
}
