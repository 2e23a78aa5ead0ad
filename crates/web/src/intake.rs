//! What has come in on a connection and is not taken yet: the buffer, the body of the request that is served, and when nothing more is read.

use std::sync::atomic::Ordering::Relaxed;

use pyrt::{Attached, Instance, PyResult, confined};

use crate::body::{Body, Taken};
use crate::connection::{Connection, Serving};
use crate::exchange::Exchange;

/// With so much waiting for an app nothing more is read.
pub(crate) const PLENTY: usize = 64 * 1024;

/// What has come in and is not taken yet.
#[derive(Default)]
pub(crate) struct Wire {
    pub(crate) buffer: Vec<u8>,
    /// The body of the request that is served, until it is all there.
    pub(crate) body: Option<Body>,
    /// The beginning of a head is there.
    pub(crate) begun: bool,
}

confined!(Wire { buffer, body, begun });

impl Connection {
    /// The buffer, for a while: what is made of it may run Python code.
    pub(crate) fn take_buffer(&self, py: Attached<'_>) -> PyResult<Vec<u8>> {
        self.wire.with(py, |wire| std::mem::take(&mut wire.buffer))
    }

    /// Gives the buffer back without its beginning.
    pub(crate) fn give_buffer(&self, py: Attached<'_>, mut buffer: Vec<u8>, used: usize) -> PyResult<()> {
        if used >= buffer.len() {
            buffer.clear();
        } else {
            drop(buffer.drain(..used));
        }
        self.wire.with(py, |wire| {
            buffer.append(&mut wire.buffer);
            wire.buffer = buffer;
        })
    }

    /// Takes what is there of a body. What comes after the end of the response is dropped.
    pub(crate) fn feed(&self, py: Attached<'_>, exchange: Instance<'_, Exchange>) -> PyResult<()> {
        let Some(mut body) = self.wire.with(py, |wire| wire.body.take())? else { return Ok(()) };
        let buffer = self.take_buffer(py)?;
        let mut used = 0;
        loop {
            let rest = buffer.get(used..).unwrap_or_default();
            match body.take(rest) {
                Ok(Taken::Piece(piece, taken)) => {
                    used += taken;
                    exchange.push(py, piece)?;
                }
                Ok(Taken::More(taken)) => {
                    self.give_buffer(py, buffer, used + taken)?;
                    self.deadline.store(self.site.after(self.site.for_body), Relaxed);
                    return self.wire.with(py, |wire| wire.body = Some(body));
                }
                Ok(Taken::End(taken)) => {
                    self.give_buffer(py, buffer, used + taken)?;
                    self.deadline.store(0, Relaxed);
                    return exchange.end_body(py);
                }
                Err(refusal) => return self.break_off(py, exchange, refusal.0),
            }
        }
    }

    /// Reads on, or not, as much as waits for the app.
    pub(crate) fn flow(&self, py: Attached<'_>) -> PyResult<()> {
        let waits = match self.serving(py) {
            None => 0,
            Some(object) => match self.kind_of(&object) {
                Some(Serving::Exchange(exchange)) => exchange.waiting(py)?,
                Some(Serving::Socket(socket)) => socket.waiting(py)?,
                None => 0,
            },
        };
        let pauses = waits > PLENTY
            || self.wire.with(py, |wire| wire.buffer.len() > PLENTY.max(self.site.limits.head))?;
        if pauses == self.is_paused.swap(pauses, Relaxed) {
            return Ok(());
        }
        let names = &self.site.web.names;
        if pauses {
            self.deadline.store(0, Relaxed);
        } else if self.wire.with(py, |wire| wire.body.is_some())? {
            self.deadline.store(self.site.after(self.site.for_body), Relaxed);
        }
        self.tell_transport(py, if pauses { &names.pause_reading } else { &names.resume_reading })
    }
}
