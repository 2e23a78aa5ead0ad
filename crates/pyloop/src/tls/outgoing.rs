//! From the application to the wire.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;

use pyrt::{Attached, Borrowed, Instance, Kind, Owned, PyResult, Traverse, Visit, Visited, confined};

use super::engine::Outgoing;
use super::part::Import;
use super::phase::Phase;
use super::protocol::SslProtocol;

/// The most that is kept back until the application returns from being handed data.
const KEPT_BACK: usize = 64 * 1024;

/// What is sent by itself while more is encrypted: three records of the largest size.
const PIECE: usize = 48 * 1024;

/// From how many writes to a closed connection on asyncio says something (`LOG_THRESHOLD_FOR_CONNLOST_WRITES`).
const NOTEWORTHY: u32 = 5;

/// Something to encrypt, and its length as Python counts it.
struct Piece {
    data: Owned,
    size: usize,
}

confined!(Piece { data, size });

/// What the SSL object has not taken yet: it takes everything, except during a handshake.
#[derive(Default)]
pub(super) struct Backlog {
    queue: VecDeque<Piece>,
    size: usize,
}

confined!(Backlog { queue, size });

impl Traverse for Backlog {
    fn traverse(&self, visit: &mut Visit<'_>) -> Visited {
        self.queue.iter().try_for_each(|piece| piece.data.traverse(visit))
    }
}

impl SslProtocol {
    #[inline]
    pub(super) fn has_backlog(&self, py: Attached<'_>) -> PyResult<bool> {
        self.backlog.with(py, |backlog| !backlog.queue.is_empty())
    }

    /// `write` of the transport above, with data that is not empty.
    pub(super) fn write(py: Attached<'_>, this: Instance<'_, Self>, data: Borrowed<'_>) -> PyResult<()> {
        if !this.takes_writes(py)? {
            return Ok(());
        }
        let size = data.len(py)?;
        if this.phases.get() != Phase::Wrapped || this.has_backlog(py)? {
            this.append(py, data, size)?;
            return Self::write_backlog(py, this);
        }
        match this.write_whole(py, this, data, size) {
            Ok(()) => Ok(()),
            Err(raised) => Self::failed(py, this, raised, c"Fatal error on SSL protocol"),
        }
    }

    /// Encrypts and sends all of it, in pieces if the peer can begin with the first; what is not taken is kept for later.
    #[inline]
    fn write_whole(
        &self,
        py: Attached<'_>,
        this: Instance<'_, Self>,
        data: Borrowed<'_>,
        size: usize,
    ) -> PyResult<()> {
        let mut done = 0;
        while size - done > 2 * PIECE && data.is_exact_bytes() && self.peer_may_begin(py) {
            let count = self.encrypt_part(py, data, done..done + PIECE)?.unwrap_or(0);
            done += count;
            if count < PIECE {
                self.append_rest(py, data, done, size)?;
                return self.flush(py, this, count);
            }
            self.send_now(py)?;
        }
        let last = if done == 0 { self.encrypt(py, data)? } else { self.encrypt_part(py, data, done..size)? };
        let count = last.unwrap_or(0);
        if done + count < size {
            self.append_rest(py, data, done + count, size)?;
        }
        if done == 0 {
            return self.flush(py, this, size);
        }
        // One write is one to the wire as well, which may have enough since its first piece.
        self.send_now(py)?;
        Self::control_app_writing(py, this)
    }

    /// Whether the peer is to be sent a part while this thread encrypts the next one: where others wait for their turn, a system call
    /// less for each is worth more. And a transport of others might write to this one between two parts.
    #[inline]
    fn peer_may_begin(&self, py: Attached<'_>) -> bool {
        !self.phases.wire_full.load(Relaxed)
            && self.owner.held.is_alone()
            && self.wire.is_ours(py, &self.native)
    }

    /// Rare: something has to come from the peer first.
    #[cold]
    fn append_rest(&self, py: Attached<'_>, data: Borrowed<'_>, done: usize, size: usize) -> PyResult<()> {
        if done == 0 {
            return self.append(py, data, size);
        }
        let rest = data.get_item(py, &Owned::slice(py, done as isize, isize::MAX)?)?;
        self.append(py, rest.borrow(), size - done)
    }

    /// How much of it was taken; nothing if something has to come over the wire first.
    #[inline]
    fn encrypt(&self, py: Attached<'_>, data: Borrowed<'_>) -> PyResult<Option<usize>> {
        self.collect_in_spare(py)?;
        self.engine.write(py, self.part(), data)
    }

    /// [`encrypt`](Self::encrypt) for a part of a `bytes`.
    fn encrypt_part(
        &self,
        py: Attached<'_>,
        data: Borrowed<'_>,
        which: Range<usize>,
    ) -> PyResult<Option<usize>> {
        self.collect_in_spare(py)?;
        self.engine.write_part(py, self.part(), data, which)
    }

    #[inline]
    fn collect_in_spare(&self, py: Attached<'_>) -> PyResult<()> {
        match self.engine.line() {
            Some(line) => self.owner.tls.spare_for(py, line),
            None => Ok(()),
        }
    }

    /// `writelines` of the transport above.
    pub(super) fn write_all(py: Attached<'_>, this: Instance<'_, Self>, list: Borrowed<'_>) -> PyResult<()> {
        if !this.takes_writes(py)? {
            return Ok(());
        }
        let items = list.iter(py)?;
        while let Some(data) = items.next(py)? {
            let size = data.len(py)?;
            this.append(py, data.borrow(), size)?;
        }
        Self::write_backlog(py, this)
    }

    fn takes_writes(&self, py: Attached<'_>) -> PyResult<bool> {
        if matches!(self.phases.get(), Phase::Handshake | Phase::Wrapped) {
            return Ok(true);
        }
        if self.phases.late.fetch_add(1, Relaxed) >= NOTEWORTHY {
            self.part().import(py, Import::ClosedWrite)?.call0(py)?;
        }
        Ok(false)
    }

    pub(super) fn append(&self, py: Attached<'_>, data: Borrowed<'_>, size: usize) -> PyResult<()> {
        let data = data.clone_ref(py);
        self.backlog.with(py, |backlog| {
            backlog.queue.push_back(Piece { data, size });
            backlog.size += size;
        })
    }

    fn write_backlog(py: Attached<'_>, this: Instance<'_, Self>) -> PyResult<()> {
        if this.phases.get() != Phase::Wrapped {
            return Ok(());
        }
        match Self::do_write(py, this) {
            Ok(()) => Ok(()),
            Err(raised) => Self::failed(py, this, raised, c"Fatal error on SSL protocol"),
        }
    }

    /// Encrypts the backlog as far as the SSL object takes it.
    pub(super) fn do_write(py: Attached<'_>, this: Instance<'_, Self>) -> PyResult<()> {
        let mut written = 0;
        loop {
            let first = this.backlog.with(py, |backlog| {
                backlog.queue.front().map(|piece| (piece.data.clone_ref(py), piece.size))
            })?;
            let Some((data, size)) = first else { break };
            let Some(count) = this.encrypt(py, data.borrow())? else { break };
            written += count;
            let rest = if count < size {
                Some(data.get_item(py, &Owned::slice(py, count as isize, isize::MAX)?)?)
            } else {
                None
            };
            let count = count.min(size);
            let done = this.backlog.with(py, |backlog| {
                backlog.size = backlog.size.saturating_sub(count);
                let done = backlog.queue.pop_front();
                if let Some(rest) = rest {
                    backlog.queue.push_front(Piece { data: rest, size: size - count });
                }
                done
            })?;
            drop(done);
        }
        this.flush(py, this, written)
    }

    /// Sends what was encrypted: now, or when the application returns from being handed data.
    #[inline]
    fn flush(&self, py: Attached<'_>, this: Instance<'_, Self>, written: usize) -> PyResult<()> {
        let unflushed = self.phases.unflushed.load(Relaxed).saturating_add(written);
        if self.phases.handing.load(Relaxed) && unflushed < KEPT_BACK {
            self.phases.unflushed.store(unflushed, Relaxed);
            return Ok(());
        }
        self.process_outgoing(py, this)
    }

    /// Sends what was kept back, before something is done that the stdlib would do after sending.
    pub(super) fn flush_unseen(&self, py: Attached<'_>) -> PyResult<()> {
        if self.phases.unflushed.load(Relaxed) > 0 { self.send(py) } else { Ok(()) }
    }

    /// Moves what the SSL object has for the peer to the transport below, if that takes it.
    fn send(&self, py: Attached<'_>) -> PyResult<()> {
        if self.phases.wire_full.load(Relaxed) {
            self.phases.unflushed.store(0, Relaxed);
            return Ok(());
        }
        self.send_now(py)
    }

    fn send_now(&self, py: Attached<'_>) -> PyResult<()> {
        self.phases.unflushed.store(0, Relaxed);
        match self.engine.take(py)? {
            Outgoing::Bytes(data) if data.to_bytes(py)?.is_empty() => Ok(()),
            Outgoing::Bytes(data) => self.wire.write(py, self.part(), &data),
            Outgoing::Memory(data) if data.is_empty() => Ok(()),
            Outgoing::Memory(data) => {
                self.wire.write_slice(py, &self.native, &data)?;
                self.owner.tls.give_back(py, data)
            }
        }
    }

    pub(super) fn process_outgoing(&self, py: Attached<'_>, this: Instance<'_, Self>) -> PyResult<()> {
        self.send(py)?;
        Self::control_app_writing(py, this)
    }

    /// How much waits to be sent by the transport below, or to be encrypted.
    pub(super) fn buffered(&self, py: Attached<'_>) -> PyResult<usize> {
        Ok(self.engine.pending_out(py, self.part())? + self.backlog.with(py, |backlog| backlog.size)?)
    }

    /// Tells the application to stop writing, or to go on.
    pub(super) fn control_app_writing(py: Attached<'_>, this: Instance<'_, Self>) -> PyResult<()> {
        let phases = &this.phases;
        let size = if phases.wire_full.load(Relaxed) || !this.outgoing.is_default(py) {
            this.buffered(py)?
        } else {
            // Everything that was encrypted has just gone.
            this.backlog.with(py, |backlog| backlog.size)?
        };
        let names = &this.part().names;
        let full = phases.app_full.load(Relaxed);
        let (method, message) = if !full && this.outgoing.is_high(size) {
            phases.app_full.store(true, Relaxed);
            (&names.pause_writing, c"protocol.pause_writing() failed")
        } else if full && this.outgoing.is_low(size) {
            phases.app_full.store(false, Relaxed);
            (&names.resume_writing, c"protocol.resume_writing() failed")
        } else {
            return Ok(());
        };
        let Some(app) = this.app.get(py) else { return Ok(()) };
        match app.call_method0(py, method) {
            Ok(_) => Ok(()),
            Err(raised)
                if raised.matches(py, &Kind::SystemExit.class(py))
                    || raised.matches(py, &Kind::KeyboardInterrupt.class(py)) =>
            {
                Err(raised)
            }
            Err(raised) => {
                let exception = raised.take(py);
                let message = Owned::interned(py, message)?;
                let failed = this.part().import(py, Import::FlowFailed)?;
                failed.call(py, [this.object(), exception.value(), message.borrow()]).map(drop)
            }
        }
    }

    /// The transport below has enough to send.
    pub(super) fn pause_writing(_py: Attached<'_>, this: Instance<'_, Self>) -> PyResult<()> {
        this.phases.wire_full.store(true, Relaxed);
        Ok(())
    }

    /// The transport below wants more to send.
    pub(super) fn resume_writing(py: Attached<'_>, this: Instance<'_, Self>) -> PyResult<()> {
        this.phases.wire_full.store(false, Relaxed);
        this.process_outgoing(py, this)
    }
}
