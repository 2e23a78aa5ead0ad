//! From the wire to the application.

use std::sync::atomic::Ordering::Relaxed;

use pyrt::{Attached, Borrowed, Buffer, Instance, Owned, PyResult, Room};

use super::phase::Phase;
use super::protocol::SslProtocol;
use super::window::{SIZE, Window};

impl SslProtocol {
    /// Where the transport below is to put what it reads: a buffer shared by all connections of the loop, unless another
    /// transport has it right now.
    pub(super) fn get_buffer(
        py: Attached<'_>,
        this: Instance<'_, Self>,
        _hint: Borrowed<'_>,
    ) -> PyResult<Owned> {
        if let Some(view) = this.owner.tls.lend(py, &this.part().window, this.object())? {
            return Ok(view);
        }
        if let Some(own) = this.buffer.get(py) {
            return Ok(own);
        }
        let window = this.part().window.create(py, Window::new(SIZE))?;
        let own = Owned::memoryview(py, &window)?;
        this.buffer.set(py, own.clone_ref(py));
        Ok(own)
    }

    pub(super) fn buffer_updated(
        py: Attached<'_>,
        this: Instance<'_, Self>,
        count: Borrowed<'_>,
    ) -> PyResult<()> {
        Self::received(py, this, count.to_usize(py)?)
    }

    /// So many bytes have come into the buffer that was handed out last.
    pub(crate) fn received(py: Attached<'_>, this: Instance<'_, Self>, count: usize) -> PyResult<()> {
        let shared = &this.owner.tls;
        let Some(window) = shared.returned(py, &this.part().window, this.object())? else {
            let whole = this.received_elsewhere(py, count)?;
            return Self::go_on(py, this, whole);
        };
        let whole = window.with(py, count, |data| this.framing.with(py, |framing| framing.feed(data)))?;
        match this.engine.line() {
            Some(line) => {
                // Decrypted where it is, and what is left then is kept by the line.
                let _working = shared.work(window, count, line);
                Self::go_on(py, this, whole)
            }
            None => {
                window.show(0, count);
                this.engine.put(py, window.object().borrow())?;
                Self::go_on(py, this, whole)
            }
        }
    }

    /// Something has come over the wire. `whole`: a record is complete that was not before.
    fn go_on(py: Attached<'_>, this: Instance<'_, Self>, whole: bool) -> PyResult<()> {
        match this.phases.get() {
            Phase::Unwrapped => Ok(()),
            Phase::Handshake => Self::do_handshake(py, this),
            // Less than a record: nothing to be had from the SSL object, and nothing else changes.
            Phase::Wrapped if !whole && !this.has_backlog(py)? => Ok(()),
            Phase::Wrapped => Self::do_read(py, this, true),
            Phase::Flushing => Self::do_flush(py, this),
            Phase::Shutdown => Self::do_shutdown(py, this),
        }
    }

    #[cold]
    fn received_elsewhere(&self, py: Attached<'_>, count: usize) -> PyResult<bool> {
        let Some(own) = self.buffer.get(py) else { return Ok(false) };
        let data = {
            let buffer = Buffer::read(py, &own)?;
            Owned::bytes(py, buffer.as_slice().get(..count).unwrap_or(buffer.as_slice()))?
        };
        self.engine.put(py, data.borrow())?;
        let data = data.to_bytes(py)?;
        self.framing.with(py, |framing| framing.feed(data))
    }

    /// Hands over what can be decrypted. `whole`: a record is known to be complete.
    pub(super) fn do_read(py: Attached<'_>, this: Instance<'_, Self>, whole: bool) -> PyResult<()> {
        if !matches!(this.phases.get(), Phase::Wrapped | Phase::Flushing) {
            return Ok(());
        }
        match Self::try_read(py, this, whole) {
            Ok(()) => Ok(()),
            Err(raised) => Self::failed(py, this, raised, c"Fatal error on SSL protocol"),
        }
    }

    fn try_read(py: Attached<'_>, this: Instance<'_, Self>, whole: bool) -> PyResult<()> {
        let phases = &this.phases;
        if !phases.app_paused.load(Relaxed) {
            if this.app.is_buffered() {
                Self::read_buffered(py, this, whole)?;
            } else {
                Self::read_copied(py, this, whole)?;
            }
            if this.has_backlog(py)? {
                Self::do_write(py, this)?;
            } else if phases.unflushed.load(Relaxed) > 0 || this.engine.pending_out(py, this.part())? > 0 {
                this.process_outgoing(py, this)?;
            }
            if this.incoming.is_default(py)
                && !phases.wire_paused.load(Relaxed)
                && !phases.inside.load(Relaxed)
            {
                // What is left is part of a record, and far below the mark.
                return Ok(());
            }
        } else if this.engine.pending_out(py, this.part())? > 0 {
            // The end of the handshake, if the application has paused at once: the peer waits for it.
            this.process_outgoing(py, this)?;
        }
        this.control_wire_reading(py)
    }

    /// Whether a read would give something, as far as can be known.
    fn is_readable(&self, py: Attached<'_>) -> PyResult<bool> {
        if self.phases.inside.load(Relaxed) {
            return Ok(true);
        }
        let pending = self.engine.pending_in(py, self.part())?;
        self.framing.with(py, |framing| framing.is_complete(pending))
    }

    /// [`is_readable`](Self::is_readable) after a read that gave `count` bytes for so much room.
    #[inline]
    fn is_readable_still(&self, py: Attached<'_>, count: usize, room: usize) -> PyResult<bool> {
        let inside = count == room;
        self.phases.inside.store(inside, Relaxed);
        if inside {
            return Ok(true);
        }
        // Less than there was room for: that was all of a record.
        Ok(self.framing.with(py, |framing| framing.read_one())? && self.is_readable(py)?)
    }

    fn read_copied(py: Attached<'_>, this: Instance<'_, Self>, mut whole: bool) -> PyResult<()> {
        let phases = &this.phases;
        if whole && this.engine.is_plain && !phases.inside.load(Relaxed) {
            match this.framing.with(py, |framing| framing.expected())? {
                Some(size) if size <= SIZE => return Self::read_records(py, this, size),
                _ => {}
            }
        }
        let plain = this.owner.tls.plain(py, &this.part().window)?;
        let mut filled = 0;
        let mut closed = false;
        whole = whole || this.is_readable(py)?;
        while whole {
            let room = plain.capacity() - filled;
            plain.show(filled, room);
            match this.engine.read(py, this.part(), 0, plain.object().borrow())? {
                None => {
                    phases.inside.store(false, Relaxed);
                    break;
                }
                Some(0) => {
                    closed = true;
                    break;
                }
                Some(count) => {
                    filled += count;
                    whole = this.is_readable_still(py, count, room)?;
                }
            }
            if filled == plain.capacity() {
                Self::hand_over_copy(py, this, &plain, filled)?;
                filled = 0;
                if phases.app_paused.load(Relaxed)
                    || this.app.is_buffered()
                    || !matches!(phases.get(), Phase::Wrapped | Phase::Flushing)
                {
                    return Self::go_on_soon(py, this);
                }
            }
        }
        if filled > 0 {
            Self::hand_over_copy(py, this, &plain, filled)?;
        }
        if closed { Self::peer_closed(py, this) } else { Ok(()) }
    }

    /// Whole records, one after the other into one `bytes`, which the application gets.
    fn read_records(py: Attached<'_>, this: Instance<'_, Self>, size: usize) -> PyResult<()> {
        let mut room = Room::new(py, size)?;
        let mut filled = 0;
        let mut closed = false;
        let mut more = true;
        while more && filled < size {
            match this.engine.read_into(py, this.part(), &this.owner.tls, &mut room, filled)? {
                None => {
                    this.phases.inside.store(false, Relaxed);
                    more = false;
                }
                Some(0) => {
                    closed = true;
                    more = false;
                }
                Some(count) => {
                    more = this.is_readable_still(py, count, size - filled)?;
                    filled += count;
                }
            }
        }
        if filled > 0 {
            // SAFETY: so much was decrypted into it.
            let data = unsafe { room.finish(py, filled)? };
            Self::hand_over(py, this, &data)?;
        }
        if closed {
            Self::peer_closed(py, this)
        } else if more {
            Self::go_on_soon(py, this)
        } else {
            Ok(())
        }
    }

    /// The rest of what is there, in another turn, if the application has not paused.
    fn go_on_soon(py: Attached<'_>, this: Instance<'_, Self>) -> PyResult<()> {
        if this.phases.app_paused.load(Relaxed) {
            return Ok(());
        }
        let do_read = this.object().getattr(py, &this.part().names.do_read)?;
        this.call_soon(py, do_read.borrow(), &[])
    }

    fn hand_over_copy(
        py: Attached<'_>,
        this: Instance<'_, Self>,
        plain: &Window,
        filled: usize,
    ) -> PyResult<()> {
        Self::hand_over(py, this, &plain.with(py, filled, |data| Owned::bytes(py, data))?)
    }

    fn hand_over(py: Attached<'_>, this: Instance<'_, Self>, data: &Owned) -> PyResult<()> {
        let Some(app) = this.app.get(py) else { return Ok(()) };
        let before = this.phases.handing.swap(true, Relaxed);
        let handed = app.call_method1(py, &this.part().names.data_received, data);
        this.phases.handing.store(before, Relaxed);
        handed.map(drop)
    }

    fn read_buffered(py: Attached<'_>, this: Instance<'_, Self>, whole: bool) -> PyResult<()> {
        if !whole && !this.is_readable(py)? {
            return Ok(());
        }
        let Some((get_buffer, buffer_updated)) = this.app.buffer_methods(py) else { return Ok(()) };
        let pending = this.engine.pending_in(py, this.part())?;
        let buffer = get_buffer.call1(py, &Owned::uint(py, pending as u64)?)?;
        let room = buffer.len(py)?;
        let mut filled = 0;
        let mut closed = false;
        loop {
            let count = if filled == 0 {
                this.engine.read(py, this.part(), room, buffer.borrow())?
            } else {
                // A slice of the view, not of the buffer: that of a bytearray would be a copy, and what is read lost.
                let view = Owned::memoryview(py, &buffer)?;
                let rest = view.get_item(py, &Owned::slice(py, filled as isize, isize::MAX)?)?;
                this.engine.read(py, this.part(), room - filled, rest.borrow())?
            };
            let more = match count {
                None => {
                    this.phases.inside.store(false, Relaxed);
                    break;
                }
                Some(0) => {
                    closed = true;
                    break;
                }
                Some(count) => {
                    let more = this.is_readable_still(py, count, room - filled)?;
                    filled += count;
                    more
                }
            };
            if filled >= room {
                Self::go_on_soon(py, this)?;
                break;
            }
            if !more {
                break;
            }
        }
        if filled > 0 {
            let before = this.phases.handing.swap(true, Relaxed);
            let updated = buffer_updated.call1(py, &Owned::uint(py, filled as u64)?);
            this.phases.handing.store(before, Relaxed);
            updated?;
        }
        if closed { Self::peer_closed(py, this) } else { Ok(()) }
    }

    /// The peer has said that it will send no more.
    fn peer_closed(py: Attached<'_>, this: Instance<'_, Self>) -> PyResult<()> {
        this.phases.inside.store(false, Relaxed);
        Self::tell_eof(py, this)?;
        Self::start_shutdown(py, this)
    }

    /// The application wants data again.
    pub(super) fn resume_reading(py: Attached<'_>, this: Instance<'_, Self>) -> PyResult<()> {
        if !this.phases.app_paused.swap(false, Relaxed) {
            return Ok(());
        }
        let resume = this.object().getattr(py, &this.part().names.resume)?;
        this.call_soon(py, resume.borrow(), &[])
    }

    pub(super) fn resume(py: Attached<'_>, this: Instance<'_, Self>) -> PyResult<()> {
        match this.phases.get() {
            Phase::Wrapped => Self::do_read(py, this, false),
            Phase::Flushing => Self::do_flush(py, this),
            Phase::Shutdown => Self::do_shutdown(py, this),
            Phase::Unwrapped | Phase::Handshake => Ok(()),
        }
    }

    /// Pauses the transport below when too much waits for the application, and resumes it when that is gone.
    pub(super) fn control_wire_reading(&self, py: Attached<'_>) -> PyResult<()> {
        let pending = self.engine.pending_in(py, self.part())?;
        let paused = self.phases.wire_paused.load(Relaxed);
        if !paused && self.incoming.is_high(pending) {
            self.phases.wire_paused.store(true, Relaxed);
            self.wire.pause_reading(py, self.part())
        } else if paused && self.incoming.is_low(pending) {
            self.phases.wire_paused.store(false, Relaxed);
            self.wire.resume_reading(py, self.part())
        } else {
            Ok(())
        }
    }
}
