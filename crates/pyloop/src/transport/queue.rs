//! `Queue`: what was written to a stream of bytes and is not sent yet. Lives in a transport, under its guard; runs no
//! Python code.

use std::collections::VecDeque;
use std::io::IoSlice;

use pyrt::{Attached, Owned, Raised, confined};
use rustix::io::Errno;

/// Where bytes go to. Neither call blocks, and both may take a part only.
pub(crate) trait Sink: Copy {
    fn send(self, data: &[u8]) -> Result<usize, Errno>;

    /// The same for several buffers at once.
    fn send_many(self, data: &[IoSlice<'_>]) -> Result<usize, Errno>;
}

/// The most buffers that one call takes: IOV_MAX on Linux (sysconf(3)).
const MOST: usize = 1024;

/// A buffer nobody changes: a `bytes` kept by reference, or a copy of something mutable.
enum Chunk {
    Kept(Owned),
    Copied(Box<[u8]>),
}

// SAFETY: a reference, or plain memory.
unsafe impl pyrt::Confined for Chunk {}

impl Chunk {
    fn bytes(&self, py: Attached<'_>) -> &[u8] {
        match self {
            // Only `bytes` are kept.
            Self::Kept(bytes) => bytes.to_bytes(py).unwrap_or_else(|raised| none(py, raised)),
            Self::Copied(bytes) => bytes,
        }
    }
}

#[cold]
fn none<'a>(py: Attached<'_>, raised: Raised) -> &'a [u8] {
    raised.clear(py);
    &[]
}

/// What is still to be sent, in order.
#[derive(Default)]
pub(crate) struct Queue {
    chunks: VecDeque<Chunk>,
    /// How much of the first chunk is gone.
    sent: usize,
    size: usize,
}

confined!(Queue { chunks, sent, size });

impl Queue {
    /// How many bytes wait.
    #[inline]
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// Adds a `bytes` of which the first `sent` bytes are gone already. More than none only if nothing waits.
    pub(crate) fn keep(&mut self, py: Attached<'_>, bytes: Owned, sent: usize) {
        let size = bytes.to_bytes(py).map_or_else(|raised| none(py, raised).len(), <[u8]>::len);
        if self.chunks.is_empty() {
            self.sent = sent;
            self.size = size.saturating_sub(sent);
        } else {
            self.size += size;
        }
        self.chunks.push_back(Chunk::Kept(bytes));
    }

    /// Adds a copy of something.
    pub(crate) fn copy(&mut self, bytes: &[u8]) {
        if self.chunks.is_empty() {
            self.sent = 0;
        }
        self.size += bytes.len();
        self.chunks.push_back(Chunk::Copied(bytes.into()));
    }

    /// Takes everything out, for the caller to drop.
    #[must_use = "to be dropped outside of the guard"]
    pub(crate) fn take(&mut self) -> Self {
        std::mem::take(self)
    }

    /// Sends as much as one call takes.
    pub(crate) fn send(&mut self, py: Attached<'_>, sink: impl Sink) -> Result<(), Errno> {
        let first = self.chunks.front().map(|chunk| chunk.bytes(py).get(self.sent..).unwrap_or(&[]));
        let Some(first) = first else { return Ok(()) };
        let done = if self.chunks.len() == 1 {
            sink.send(first)?
        } else {
            let rest = self.chunks.iter().skip(1).map(|chunk| chunk.bytes(py));
            let slices: Vec<IoSlice<'_>> =
                std::iter::once(first).chain(rest).take(MOST).map(IoSlice::new).collect();
            sink.send_many(&slices)?
        };
        self.advance(py, done);
        Ok(())
    }

    fn advance(&mut self, py: Attached<'_>, done: usize) {
        self.size = self.size.saturating_sub(done);
        self.sent += done;
        while let Some(first) = self.chunks.front() {
            let length = first.bytes(py).len();
            if self.sent < length {
                return;
            }
            self.sent -= length;
            // Dropping a `bytes` runs no Python code, and a subclass of it is copied.
            self.chunks.pop_front();
        }
        self.sent = 0;
    }

    /// A copy of all that waits, for those who look.
    pub(crate) fn to_vec(&self, py: Attached<'_>) -> Vec<u8> {
        let mut all = Vec::with_capacity(self.size + self.sent);
        for chunk in &self.chunks {
            all.extend_from_slice(chunk.bytes(py));
        }
        all.split_off(self.sent.min(all.len()))
    }
}
