//! The end of a connection, beyond what ends every transport: the queue goes out first, and a server is told.

use std::sync::atomic::Ordering::Relaxed;

use evloop::Interest;
use pyrt::{Attached, Borrowed, Kind, Owned, PyResult, Traverse as _, raise_class};

use super::{SocketTransport, This};
use crate::transport::{Paced as _, call_connection_lost, finalize, listen_no_more, lose};

impl SocketTransport {
    pub(super) fn close(py: Attached<'_>, this: This<'_>) -> PyResult<()> {
        this.send_held(py)?;
        if this.base.closing.swap(true, Relaxed) {
            return Ok(());
        }
        listen_no_more(py, this, Interest::READ)?;
        if this.size(py)? > 0 {
            // flush() goes on from here.
            return Ok(());
        }
        lose(py, this, Borrowed::none(py))
    }

    /// `_call_connection_lost`: the end, of which a sendfile that is under way hears too.
    pub(super) fn connection_lost(py: Attached<'_>, this: This<'_>, cause: Borrowed<'_>) -> PyResult<()> {
        if !this.base.is_open(py) {
            return Ok(());
        }
        call_connection_lost(py, this, cause)?;
        let Some(waiter) = this.empty_waiter.get(py) else { return Ok(()) };
        let names = &this.base.parts().names;
        if waiter.call_method0(py, &names.done)?.is_true(py)? {
            return Ok(());
        }
        let text = Owned::str(py, "Connection is closed by peer")?;
        let raised = raise_class(py, &Kind::ConnectionError.class(py), [text.borrow()]);
        waiter.call_method1(py, &names.set_exception, &raised.take(py).into_value()).map(drop)
    }

    pub(super) fn leave_server(&self, py: Attached<'_>, this: This<'_>) -> PyResult<()> {
        let Some(server) = self.server.take(py) else { return Ok(()) };
        let names = &self.base.parts().names;
        let left = match self.parts().named_to_server {
            true => server.call_method1(py, &names.detach, &this.object()),
            false => server.call_method0(py, &names.detach),
        };
        left.map(drop)
    }

    /// Nobody refers to it any more. Before 3.13 a server does not hear of that.
    pub(super) fn finalize(py: Attached<'_>, this: This<'_>) -> PyResult<()> {
        if !this.parts().named_to_server {
            this.server.clear(py);
        }
        finalize(py, this)
    }
}
