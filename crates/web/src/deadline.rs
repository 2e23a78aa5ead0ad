//! When a connection's time is over, and how one is ended from outside: by its deadline, or because the server ends.

use std::sync::atomic::Ordering::Relaxed;

use pyrt::{Attached, PyResult};

use crate::connection::{Connection, Serving, This};

/// What is said to a WebSocket when the server ends (RFC 6455, 7.4.1, and IANA's registry: service restart).
const RESTART: u16 = 1012;

impl Connection {
    /// There is nothing to be done: the next request may come for a while.
    pub(crate) fn rest(&self, _py: Attached<'_>) -> PyResult<()> {
        self.deadline.store(self.site.after(self.site.idle), Relaxed);
        Ok(())
    }

    /// Its time is over: a head or a body that does not come, a client that does not close.
    pub(crate) fn expire(py: Attached<'_>, this: This<'_>) -> PyResult<()> {
        this.deadline.store(0, Relaxed);
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
