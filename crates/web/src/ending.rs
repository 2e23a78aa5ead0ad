//! How a connection ends: refused, closed, broken off; by its deadline, or because the server ends.

use std::sync::atomic::Ordering::Relaxed;

use pyrt::{Attached, Instance, Owned, PyResult};

use crate::connection::{Connection, Serving, This};
use crate::exchange::Exchange;
use crate::respond;

/// What is said to a WebSocket when the server ends (RFC 6455, 7.4.1, and IANA's registry: service restart).
const RESTART: u16 = 1012;

impl Connection {
    /// The request cannot be read on.
    pub(crate) fn break_off(
        &self,
        py: Attached<'_>,
        exchange: Instance<'_, Exchange>,
        status: u16,
    ) -> PyResult<()> {
        if exchange.is_started(py)? {
            self.close(py)?
        } else {
            self.refuse(py, status, &[])?
        }
        exchange.disconnect(py)
    }

    /// Answers in place of the app, and closes.
    pub(crate) fn refuse(&self, py: Attached<'_>, status: u16, more: &[(&str, &str)]) -> PyResult<()> {
        let response = self.site.date(py, |date| respond::plain(status, false, more, date))?;
        self.write(py, &Owned::bytes(py, &response)?)?;
        self.linger(py)
    }

    /// Closes one direction, and reads on without listening: a socket closed with unread bytes in it is reset, and the client may
    /// lose what it was told last (RFC 9112, 9.6). It has a while to close, too.
    pub(crate) fn linger(&self, py: Attached<'_>) -> PyResult<()> {
        let names = &self.site.web.names;
        let Some(transport) = self.transport.get(py) else { return Ok(()) };
        if !transport.call_method0(py, &names.can_write_eof)?.is_true(py)? {
            return self.close(py);
        }
        self.is_shut.store(true, Relaxed);
        self.deadline.store(self.site.after(self.site.for_head.min(self.site.for_body)), Relaxed);
        if self.is_paused.swap(false, Relaxed) {
            transport.call_method0(py, &names.resume_reading)?;
        }
        transport.call_method0(py, &names.write_eof).map(drop)
    }

    /// Closes when all is written.
    pub(crate) fn close(&self, py: Attached<'_>) -> PyResult<()> {
        self.is_shut.store(true, Relaxed);
        self.deadline.store(self.site.after(self.site.for_body), Relaxed);
        self.tell_transport(py, &self.site.web.names.close)
    }

    pub(crate) fn abort(&self, py: Attached<'_>) -> PyResult<()> {
        self.is_shut.store(true, Relaxed);
        self.tell_transport(py, &self.site.web.names.abort)
    }

    pub(crate) fn tell_transport(&self, py: Attached<'_>, method: &pyrt::Fixed) -> PyResult<()> {
        self.transport.get(py).map_or(Ok(()), |transport| transport.call_method0(py, method).map(drop))
    }

    /// There is nothing to be done: the next request may come for a while.
    pub(crate) fn rest(&self, _py: Attached<'_>) -> PyResult<()> {
        self.deadline.store(self.site.after(self.site.idle), Relaxed);
        Ok(())
    }

    /// Its time is over: a head or a body that does not come, a client that does not close.
    pub(crate) fn expire(py: Attached<'_>, this: This<'_>) -> PyResult<()> {
        this.deadline.store(0, Relaxed);
        if this.is_shut.load(Relaxed) {
            return this.abort(py);
        }
        let Some(object) = this.serving(py) else {
            return if this.wire.with(py, |wire| wire.begun)? {
                this.refuse(py, 408, &[])
            } else {
                this.abort(py)
            };
        };
        match this.kind_of(&object) {
            Some(Serving::Exchange(exchange)) if !exchange.is_ended(py)? => this.break_off(py, exchange, 408),
            _ => this.abort(py),
        }
    }

    /// The server ends: what is served may come to its end.
    pub(crate) fn shutdown(py: Attached<'_>, this: This<'_>) -> PyResult<()> {
        this.is_last.store(true, Relaxed);
        let Some(object) = this.serving(py) else { return this.close(py) };
        match this.kind_of(&object) {
            Some(Serving::Socket(socket)) => socket.restart(py, socket, RESTART),
            _ => Ok(()),
        }
    }

    /// It has had time enough.
    pub(crate) fn cancel(py: Attached<'_>, this: This<'_>) -> PyResult<()> {
        if let Some(object) = this.serving(py) {
            let task = match this.kind_of(&object) {
                Some(Serving::Exchange(exchange)) => exchange.task.get(py),
                Some(Serving::Socket(socket)) => socket.task.get(py),
                None => None,
            };
            if let Some(task) = task {
                task.call_method0(py, &this.site.web.names.cancel)?;
            }
        }
        this.abort(py)
    }
}
