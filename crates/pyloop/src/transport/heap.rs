//! The memory that messages pass through stays with the process.
//!
//! malloc(3) of glibc gives the end of its heap back to the kernel when 128 KiB of it are free, and takes it anew, page fault by
//! page fault, with the next message: some connections with messages of 10 KiB are enough. Both sizes grow, as documented (mallopt(3),
//! M_MMAP_THRESHOLD), when a larger block that was mapped by itself is freed; so one is, by the first message that is not small.
//! Who has set them, by mallopt(3) or in the environment, has said so for good.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Messages from here on take part: dozens of them make up what would be given back.
pub(super) const MEDIUM: usize = 4 * 1024;
/// Twice as much may be free at the end of the heap from then on.
const BLOCK: usize = 2 * 1024 * 1024;

static KEPT: AtomicBool = AtomicBool::new(false);

/// Once per process; any thread.
#[inline]
pub(super) fn keep() {
    if !KEPT.load(Relaxed) {
        keep_now();
    }
}

#[cold]
fn keep_now() {
    KEPT.store(true, Relaxed);
    // None of its pages is touched.
    drop(black_box(Vec::<u8>::with_capacity(BLOCK)));
}
