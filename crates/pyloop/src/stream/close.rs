//! The end of a connection: by `close()`, by `abort()`, by an error, or because nobody refers to it any more.

use std::ffi::CStr;
use std::sync::atomic::Ordering::Relaxed;

use evloop::Interest;
use pyrt::{
    Args, Attached, Borrowed, Kind, Owned, PyResult, Raised, Traverse as _, raise_class, warn_resource,
};

use super::{SocketTransport, This};
use crate::arguments::Request;
use crate::event_loop::Loop;

impl SocketTransport {
    pub(super) fn close(py: Attached<'_>, this: This<'_>) -> PyResult<()> {
        if this.closing.swap(true, Relaxed) {
            return Ok(());
        }
        this.listen_no_more(py, this, Interest::READ)?;
        if this.size(py)? > 0 {
            // flush() goes on from here.
            return Ok(());
        }
        this.lose(py, this, Borrowed::none(py))
    }

    pub(super) fn abort(py: Attached<'_>, this: This<'_>) -> PyResult<()> {
        this.force_close(py, this, Borrowed::none(py))
    }

    pub(super) fn force_close_method(py: Attached<'_>, this: This<'_>, cause: Borrowed<'_>) -> PyResult<()> {
        this.force_close(py, this, cause)
    }

    /// Drops what waits and ends the connection in the next turn.
    fn force_close(&self, py: Attached<'_>, this: This<'_>, cause: Borrowed<'_>) -> PyResult<()> {
        if self.is_lost() {
            return Ok(());
        }
        drop(self.queue.with(py, |queue| queue.take())?);
        self.closing.store(true, Relaxed);
        self.lose(py, this, cause)
    }

    /// Schedules the end.
    fn lose(&self, py: Attached<'_>, this: This<'_>, cause: Borrowed<'_>) -> PyResult<()> {
        self.conn_lost.fetch_add(1, Relaxed);
        self.listen(py, this, Interest::NONE)?;
        self.owner.check_open(py)?;
        let callback = this.object().getattr(py, &self.parts().names.call_connection_lost)?;
        let request = Request { callback: callback.borrow(), args: &[cause], context: None };
        Loop::schedule(py, self.owner.instance(), request).map(drop)
    }

    pub(super) fn call_connection_lost(
        py: Attached<'_>,
        this: This<'_>,
        cause: Borrowed<'_>,
    ) -> PyResult<()> {
        if !this.sock.is_set(py) {
            return Ok(());
        }
        let told = match this.protocol.get(py).filter(|_| this.protocol_connected.load(Relaxed)) {
            Some(protocol) => {
                protocol.call_method1(py, &this.parts().names.connection_lost, &cause).map(drop)
            }
            None => Ok(()),
        };
        let exception = told.err().map(|raised| raised.take(py));
        let ended = this.end(py, this);
        if let Some(exception) = exception {
            if let Err(raised) = ended {
                raised.write_unraisable(py, Some(&this.object()));
            }
            return Err(exception.raise(py));
        }
        ended?;
        let Some(waiter) = this.empty_waiter.get(py) else { return Ok(()) };
        let names = &this.parts().names;
        if waiter.call_method0(py, &names.done)?.is_true(py)? {
            return Ok(());
        }
        let text = Owned::str(py, "Connection is closed by peer")?;
        let raised = raise_class(py, &Kind::ConnectionError.class(py), [text.borrow()]);
        waiter.call_method1(py, &names.set_exception, &raised.take(py).into_value()).map(drop)
    }

    /// Out of epoll first, then closed; and everything is let go.
    fn end(&self, py: Attached<'_>, this: This<'_>) -> PyResult<()> {
        // A writer that was flushed in close() has not gone through `lose`.
        if !self.is_lost() {
            self.conn_lost.fetch_add(1, Relaxed);
        }
        self.listen(py, this, Interest::NONE)?;
        drop(self.queue.with(py, |queue| queue.take())?);
        // While there is still something to be found out.
        let known = self.extra(py).map(drop);
        let sock = self.sock.take(py);
        let closed = match &sock {
            Some(sock) => self.close_socket(py, sock.borrow()),
            None => Ok(()),
        };
        drop((self.protocol.take(py), self.reading_in.take(py), self.writing_in.take(py)));
        let detached = self.leave_server(py, this);
        known.and(closed).and(detached)
    }

    fn close_socket(&self, py: Attached<'_>, sock: Borrowed<'_>) -> PyResult<()> {
        let names = &self.parts().names;
        // What `hold_open` has counted.
        if sock.getattr_opt(py, &names.io_refs)?.is_some() {
            sock.call_method0(py, &names.decref_io)?;
        }
        sock.call_method0(py, &names.close).map(drop)
    }

    fn leave_server(&self, py: Attached<'_>, this: This<'_>) -> PyResult<()> {
        let Some(server) = self.server.take(py) else { return Ok(()) };
        let parts = self.parts();
        let left = match parts.named_to_server {
            true => server.call_method1(py, &parts.names.detach, &this.object()),
            false => server.call_method0(py, &parts.names.detach),
        };
        left.map(drop)
    }

    /// An exception out of the protocol or the socket: said, unless it is the network's, and the connection ends. What ends
    /// the loop's run goes on.
    #[cold]
    pub(super) fn fatal(
        &self,
        py: Attached<'_>,
        this: This<'_>,
        raised: Raised,
        message: &CStr,
    ) -> PyResult<()> {
        let exception = reportable(py, raised)?;
        let message = Owned::interned(py, message)?;
        self.fatal_error(py, this, exception.borrow(), message.borrow())
    }

    fn fatal_error(
        &self,
        py: Attached<'_>,
        this: This<'_>,
        exception: Borrowed<'_>,
        message: Borrowed<'_>,
    ) -> PyResult<()> {
        self.parts().report_fatal.get(py)?.call(py, [this.object(), exception, message])?;
        self.force_close(py, this, exception)
    }

    pub(super) fn fatal_error_method(py: Attached<'_>, this: This<'_>, args: Args<'_>) -> PyResult<()> {
        let [Some(exception), message] = this.parts().fatal.parse(py, &args)? else {
            return Err(pyrt::Fault::system("a required argument was lost").raise(py));
        };
        match message {
            Some(message) => this.fatal_error(py, this, exception, message),
            None => {
                let message = Owned::interned(py, c"Fatal error on transport")?;
                this.fatal_error(py, this, exception, message.borrow())
            }
        }
    }

    /// Nobody refers to it any more. Said if it is still open, and closed.
    pub(super) fn finalize(py: Attached<'_>, this: This<'_>) -> PyResult<()> {
        if !this.sock.is_set(py) {
            return Ok(());
        }
        let text = Self::repr(py, this)?;
        let warned = warn_resource(py, &this.object(), &format!("unclosed transport {text}"));
        let warned = warned.map_err(|raised| raised.take(py));
        // A registration would have kept it alive, unless the loop goes with it.
        this.listen(py, this, Interest::NONE)?;
        if let Some(sock) = this.sock.take(py) {
            this.close_socket(py, sock.borrow())?;
        }
        if this.parts().named_to_server {
            this.leave_server(py, this)?;
        }
        this.server.clear(py);
        warned.map_err(|exception| exception.raise(py))
    }
}

/// The exception, unless it is one that ends the loop's run.
pub(super) fn reportable(py: Attached<'_>, raised: Raised) -> PyResult<Owned> {
    if raised.matches(py, &Kind::SystemExit.class(py))
        || raised.matches(py, &Kind::KeyboardInterrupt.class(py))
    {
        return Err(raised);
    }
    Ok(raised.take(py).into_value())
}
