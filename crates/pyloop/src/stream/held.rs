//! `Held`: small writes that go out at the end of the turn, of all stream transports of a loop.
//!
//! A peer that gets one message is woken, answers and sleeps again; one that gets those of a turn close together stays awake, and
//! both sides save what waking costs. So while other callbacks of the turn are still to come, a small write is put off: to
//! the end of the turn, until there are a few, or until anything else is done with the transport, to which it therefore looks as
//! if it had been sent. The last callback of a turn puts nothing off, so neither does a program with one connection.
//!
//! A transport's writes lie side by side, and are sent by one call. Whether a callback is alone in its turn is known here too, for TLS, which
//! sends large writes in pieces then.

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use pyrt::{
    Attached, Borrowed, Guarded, Owned, PyResult, Snapshot, Stay, Traverse, Typed, Visit, Visited, confined,
};

use super::{SocketTransport, This};
use crate::event_loop::Loop;
use crate::transport::{Paced as _, Sink as _, send_rest};

/// So many bytes of one transport at most: larger ones keep the peer busy by themselves.
const MOST_BYTES: usize = 16 * 1024;
/// So many bytes of all of them: memory that is used again at once stays in the caches, and with the process.
const MOST_IN_ALL: usize = 64 * 1024;
/// So many writes at most: who comes first in a long turn is not to wait for its end.
const MOST_WRITES: usize = 64;

thread_local! {
    /// Whether the loop that runs on this thread has put something off.
    static HERE: Cell<bool> = const { Cell::new(false) };
}

/// A write that is put off, and the variables of whoever wrote.
struct Write {
    transport: Typed<SocketTransport>,
    data: Owned,
    context: Snapshot,
}

/// What is put off, in order.
#[derive(Default)]
struct Queue {
    writes: VecDeque<Write>,
    /// How many bytes there are, and of the last transport.
    size: usize,
    last: usize,
}

confined!(Write { transport, data, context });
confined!(Queue { writes, size, last });

impl Traverse for Queue {
    fn traverse(&self, visit: &mut Visit<'_>) -> Visited {
        self.writes.iter().try_for_each(|write| {
            write.transport.traverse(visit)?;
            write.context.traverse(visit)
        })
    }
}

/// What the transports of a loop have put off.
#[derive(Default)]
pub(crate) struct Held {
    queue: Guarded<Queue>,
    /// The turn has several callbacks.
    several: AtomicBool,
    /// Callbacks of the turn are still to come.
    more: AtomicBool,
}

confined!(Held { queue, several, more });

impl Traverse for Held {
    fn traverse(&self, visit: &mut Visit<'_>) -> Visited {
        self.queue.traverse(visit)
    }

    fn clear(&self, py: Attached<'_>) {
        self.queue.clear(py);
    }
}

impl Held {
    /// Whether callbacks of the turn are still to come, after the one that is about to run.
    #[inline(always)]
    pub(crate) fn expect(&self, more: bool) {
        self.more.store(more, Relaxed);
    }

    /// A turn begins, of so many callbacks. Whether there are several.
    #[inline(always)]
    pub(crate) fn begin(&self, callbacks: usize) -> bool {
        let several = callbacks > 1;
        self.several.store(several, Relaxed);
        several
    }

    /// Whether the callback that runs is the only one of its turn.
    #[inline(always)]
    pub(crate) fn is_alone(&self) -> bool {
        !self.several.load(Relaxed)
    }

    /// The end of a turn, or of patience: all of it goes out.
    #[inline(always)]
    pub(crate) fn send(&self, py: Attached<'_>) -> PyResult<()> {
        match self.queue.with(py, |queue| queue.writes.is_empty())? {
            true => Ok(()),
            false => self.send_all(py),
        }
    }

    /// One after another: what runs in between if a connection ends may write, and may come here. All are tried; the first exception
    /// that ends the loop's run goes on.
    fn send_all(&self, py: Attached<'_>) -> PyResult<()> {
        let mut failed = None;
        while let Some((first, more)) = self.queue.with(py, Queue::next)? {
            if let Err(raised) = first.send(py, more) {
                failed.get_or_insert(raised.take(py));
            }
        }
        HERE.set(false);
        failed.map_or(Ok(()), |exception| Err(exception.raise(py)))
    }
}

impl Queue {
    /// Whether so much of a transport can be put off, next to what is there of it.
    fn takes(&self, this: This<'_>, size: usize, most: usize) -> bool {
        match self.writes.back() {
            Some(last) if last.transport.object().is(&this.object()) => self.last + size <= most,
            _ => !this.held.load(Relaxed) && size <= most,
        }
    }

    /// Whether these are as many as there may be.
    fn add(&mut self, write: Write, size: usize) -> bool {
        let goes_on =
            self.writes.back().is_some_and(|last| last.transport.object().is(write.transport.object()));
        self.last = if goes_on { self.last + size } else { size };
        self.size += size;
        self.writes.push_back(write);
        self.writes.len() >= MOST_WRITES || self.size >= MOST_IN_ALL
    }

    /// The writes of the first transport.
    fn next(&mut self) -> Option<(Write, Vec<Write>)> {
        // Whoever takes one takes all.
        self.size = 0;
        let first = self.writes.pop_front()?;
        let same = |next: &&Write| next.transport.object().is(first.transport.object());
        let more = self.writes.iter().take_while(same).count();
        Some((first, self.writes.drain(..more).collect()))
    }
}

impl Write {
    /// Sends it, and those that follow of the same transport.
    fn send(self, py: Attached<'_>, more: Vec<Write>) -> PyResult<()> {
        let this = self.transport.instance();
        this.held.store(false, Relaxed);
        let Some(socket) = this.base.socket(py).filter(|_| !this.base.is_lost()) else { return Ok(()) };
        let mut stay = Stay::new(&this.base.owner.payload().spare_context);
        if !more.is_empty() {
            let all = || {
                this.queue.with(py, |queue| {
                    for write in std::iter::once(&self).chain(&more) {
                        queue.keep(py, write.data.clone_ref(py), 0);
                    }
                })?;
                this.start_queue(py, this)
            };
            return self.context.run(py, &mut stay, all)?.0;
        }
        let data = self.data.to_bytes(py)?;
        match socket.send(data) {
            Ok(all) if all == data.len() => Ok(()),
            sent => {
                let rest = || send_rest(py, this, sent, data, Some(self.data.borrow()));
                self.context.run(py, &mut stay, rest)?.0
            }
        }
    }
}

impl SocketTransport {
    /// Puts a write off, or says that it is to be sent now. If that of another has ended the transport, nothing is to be done.
    #[inline]
    pub(super) fn put_off(
        &self,
        py: Attached<'_>,
        this: This<'_>,
        data: Borrowed<'_>,
        size: usize,
    ) -> PyResult<bool> {
        let held = &self.base.owner.payload().held;
        if !held.more.load(Relaxed) && !self.held.load(Relaxed) {
            return Ok(false);
        }
        let most = MOST_BYTES.min(self.flow.most());
        let takes = self.size(py)? == 0 && held.queue.with(py, |queue| queue.takes(this, size, most))?;
        if !takes {
            self.send_held(py)?;
            return Ok(self.base.is_lost());
        }
        let write = Write {
            transport: this.clone_ref(py),
            data: data.clone_ref(py),
            context: Snapshot::current(py)?,
        };
        self.held.store(true, Relaxed);
        HERE.set(true);
        if held.queue.with(py, |queue| queue.add(write, size))? {
            held.send_all(py)?;
        }
        Ok(true)
    }

    /// What is put off goes out, before anything else happens.
    #[inline]
    pub(super) fn send_held(&self, py: Attached<'_>) -> PyResult<()> {
        if self.held.load(Relaxed) { self.base.owner.payload().held.send_all(py) } else { Ok(()) }
    }
}

impl Loop {
    /// For who is about to block this thread: what callbacks of the turn have written goes out first. `running` says which loop runs here.
    pub fn send_held(py: Attached<'_>, running: impl FnOnce() -> PyResult<Owned>) -> PyResult<()> {
        if !HERE.replace(false) {
            return Ok(());
        }
        let running = running()?;
        match Self::expect(py, running.borrow()) {
            Ok(running) => running.held.send(py),
            Err(raised) => {
                // The one that has put something off runs no more.
                raised.clear(py);
                Ok(())
            }
        }
    }
}
