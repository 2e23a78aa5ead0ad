//! `Line`: what goes between OpenSSL and the wire, in both directions. Any thread: whoever uses the SSL object calls into this,
//! be it a user's thread that is not even attached.
//!
//! Each direction has a lock of its own, held while bytes are copied and no longer; no Python code runs under it.
//!
//! What comes in stays where the transport below has put it while it is worked on ([`lend`](Line::lend)), and is copied straight
//! to where OpenSSL wants it. What is left then, a part of a record as a rule, goes to memory of the connection's own, which is
//! let go of when it was read: an idle connection has none.

use std::collections::TryReserveError;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What OpenSSL reads and writes.
#[derive(Default)]
pub(super) struct Line {
    incoming: Mutex<Incoming>,
    outgoing: Mutex<Vec<u8>>,
}

/// What came and was not read: the older part in memory of its own, the newer part lent.
#[derive(Default)]
struct Incoming {
    kept: Vec<u8>,
    /// How much of `kept` was read.
    start: usize,
    lent: Lent,
}

/// Bytes that belong to somebody else.
struct Lent {
    start: *const u8,
    size: usize,
}

impl Default for Lent {
    fn default() -> Self {
        Self { start: std::ptr::null(), size: 0 }
    }
}

// SAFETY: plain memory, which is there until it is taken back, whichever thread reads it.
unsafe impl Send for Lent {}

impl Lent {
    /// Copies from the front, which then is gone.
    ///
    /// # Safety
    /// `size` is no more than there is, and at `target` there is room for so much.
    #[inline]
    unsafe fn read(&mut self, target: *mut u8, size: usize) {
        // SAFETY: the lender keeps the memory in place until it takes it back, which needs the lock that the caller has.
        unsafe {
            std::ptr::copy_nonoverlapping(self.start, target, size);
            self.start = self.start.add(size);
        }
        self.size -= size;
    }
}

impl Incoming {
    #[inline]
    fn size(&self) -> usize {
        self.kept.len() - self.start + self.lent.size
    }

    /// # Safety
    /// At `target` there is room for `room` bytes.
    #[inline]
    unsafe fn read(&mut self, target: *mut u8, room: usize) -> usize {
        let kept = self.kept.get(self.start..).unwrap_or_default();
        let first = kept.len().min(room);
        if first > 0 {
            // SAFETY: within both, and of different owners.
            unsafe { std::ptr::copy_nonoverlapping(kept.as_ptr(), target, first) };
            self.start += first;
            if self.start == self.kept.len() {
                self.kept = Vec::new();
                self.start = 0;
            }
        }
        let second = self.lent.size.min(room - first);
        if second > 0 {
            // SAFETY: no more than there is, and the rest of the room.
            unsafe { self.lent.read(target.add(first), second) };
        }
        first + second
    }

    /// Room in memory of its own, behind what is there.
    fn reserve(&mut self, size: usize) -> Result<(), TryReserveError> {
        if self.start > 0 {
            self.kept.drain(..self.start);
            self.start = 0;
        }
        // As a rule the rest of a read; more is added to it only while the application has paused, or by very small reads.
        if self.kept.is_empty() { self.kept.try_reserve_exact(size) } else { self.kept.try_reserve(size) }
    }

    /// Takes what is lent into memory of its own. False if there is none to be had.
    fn keep(&mut self) -> bool {
        let lent = std::mem::take(&mut self.lent);
        if lent.size == 0 {
            return true;
        }
        if self.reserve(lent.size).is_err() {
            return false;
        }
        // SAFETY: there until this returns, as `lend` asks for.
        self.kept.extend_from_slice(unsafe { std::slice::from_raw_parts(lent.start, lent.size) });
        true
    }
}

/// Ends a loan.
pub(super) struct Loan<'a> {
    line: &'a Line,
}

impl Drop for Loan<'_> {
    fn drop(&mut self) {
        // Without memory for the rest the stream has a hole, and the next record does not decrypt.
        lock(&self.line.incoming).keep();
    }
}

impl Line {
    /// How much has come that was not read.
    #[inline]
    pub(super) fn incoming(&self) -> usize {
        lock(&self.incoming).size()
    }

    /// How much waits to go out.
    #[inline]
    pub(super) fn outgoing(&self) -> usize {
        lock(&self.outgoing).len()
    }

    /// Adds to what came, by copying. False if there is no memory.
    pub(super) fn put(&self, data: &[u8]) -> bool {
        let mut incoming = lock(&self.incoming);
        let room = incoming.keep() && incoming.reserve(data.len()).is_ok();
        if room {
            incoming.kept.extend_from_slice(data);
        }
        room
    }

    /// Adds to what came, where it is, until the loan is dropped. Nothing may be lent already.
    ///
    /// # Safety
    /// From `start` on there are `size` bytes, initialised and in place as long as the loan lives, which is dropped and not
    /// forgotten.
    #[inline]
    pub(super) unsafe fn lend(&self, start: *const u8, size: usize) -> Loan<'_> {
        let mut incoming = lock(&self.incoming);
        incoming.keep();
        incoming.lent = Lent { start, size };
        Loan { line: self }
    }

    /// Reads what came. 0 if there is nothing.
    ///
    /// # Safety
    /// At `target` there is room for `room` bytes, which nobody else refers to.
    #[inline]
    pub(super) unsafe fn read(&self, target: *mut u8, room: usize) -> usize {
        // SAFETY: the caller's promise.
        unsafe { lock(&self.incoming).read(target, room) }
    }

    /// Adds to what goes out. False if there is no memory.
    #[inline]
    pub(super) fn write(&self, data: &[u8]) -> bool {
        let mut outgoing = lock(&self.outgoing);
        let room = outgoing.try_reserve(data.len()).is_ok();
        if room {
            outgoing.extend_from_slice(data);
        }
        room
    }

    /// Has what goes out collected in this memory, if it has none yet.
    #[inline]
    pub(super) fn collect_in(&self, spare: impl FnOnce() -> Vec<u8>) {
        let mut outgoing = lock(&self.outgoing);
        if outgoing.capacity() == 0 {
            *outgoing = spare();
        }
    }

    /// Everything that is to go out.
    #[inline]
    pub(super) fn take(&self) -> Vec<u8> {
        std::mem::take(&mut *lock(&self.outgoing))
    }
}

/// A panic while a lock is held cannot be; if it were, the bytes would still be bytes.
#[inline]
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
