//! What others look at: extra information, the repr, and the attributes that asyncio's own code asks transports for.

use std::ffi::CStr;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering::Relaxed};

use evloop::Interest;
use pyrt::{Args, Attached, Borrowed, Kind, ObjCell, Owned, PyResult, Typed};

use super::{SocketTransport, This, flow};
use crate::event_loop::Loop;

impl SocketTransport {
    pub(super) fn set_protocol(py: Attached<'_>, this: This<'_>, protocol: Borrowed<'_>) -> PyResult<()> {
        let buffered = protocol.is_instance(py, &this.parts().buffered_protocol)?;
        this.buffered.store(buffered, Relaxed);
        this.protocol.set(py, protocol.clone_ref(py));
        this.protocol_connected.store(true, Relaxed);
        Ok(())
    }

    pub(super) fn set_protocol_attr(
        py: Attached<'_>,
        this: This<'_>,
        protocol: Option<Borrowed<'_>>,
    ) -> PyResult<()> {
        let protocol = set_to(py, protocol)?;
        drop(this.protocol.replace(py, (!protocol.is_none()).then(|| protocol.clone_ref(py))));
        Ok(())
    }

    pub(super) fn get_extra_info(py: Attached<'_>, this: This<'_>, args: Args<'_>) -> PyResult<Owned> {
        let [Some(name), default] = this.parts().info.parse(py, &args)? else {
            return Err(pyrt::Fault::system("a required argument was lost").raise(py));
        };
        let default = || default.map_or_else(|| Owned::none(py), |default| default.clone_ref(py));
        let Some(extra) = this.extra(py)? else { return Ok(default()) };
        Ok(extra.dict_get(py, &name)?.unwrap_or_else(default))
    }

    /// `_loop`, which a closed transport has not any more.
    pub(super) fn loop_or_none(py: Attached<'_>, this: This<'_>) -> PyResult<Option<Typed<Loop>>> {
        Ok(this.sock.is_set(py).then(|| this.owner.clone_ref(py)))
    }

    pub(super) fn repr(py: Attached<'_>, this: This<'_>) -> PyResult<String> {
        let mut text = format!("<{}", this.object().class_name(py));
        let open = this.sock.is_set(py);
        if !open {
            text.push_str(" closed");
        } else if this.is_closing() {
            text.push_str(" closing");
        }
        // Writing to a string does not fail.
        let _ = write!(text, " fd={}", this.fd);
        if open && !this.owner.is_closed() {
            let interest = this.interest(py)?;
            let state = |direction| if interest.contains(direction) { "polling" } else { "idle" };
            let (read, write) = (state(Interest::READ), state(Interest::WRITE));
            let _ = write!(text, " read={read} write=<{write}, bufsize={}>", this.size(py)?);
        }
        text.push('>');
        Ok(text)
    }

    pub(super) fn buffer_copy(py: Attached<'_>, this: This<'_>) -> PyResult<Owned> {
        Owned::bytes(py, &this.queue.with(py, |queue| queue.to_vec(py))?)
    }

    pub(super) fn high_water(py: Attached<'_>, this: This<'_>) -> PyResult<Owned> {
        this.high_given.get(py).map_or_else(|| Owned::int(py, flow::HIGH), Ok)
    }

    pub(super) fn low_water(py: Attached<'_>, this: This<'_>) -> PyResult<Owned> {
        this.low_given.get(py).map_or_else(|| Owned::int(py, flow::LOW), Ok)
    }

    pub(super) fn set_conn_lost(
        py: Attached<'_>,
        this: This<'_>,
        value: Option<Borrowed<'_>>,
    ) -> PyResult<()> {
        let value = set_to(py, value)?.to_i64(py)?;
        this.conn_lost.store(u32::try_from(value).unwrap_or(u32::MAX), Relaxed);
        Ok(())
    }

    pub(super) fn set_empty_waiter(
        py: Attached<'_>,
        this: This<'_>,
        value: Option<Borrowed<'_>>,
    ) -> PyResult<()> {
        let value = set_to(py, value)?;
        drop(this.empty_waiter.replace(py, (!value.is_none()).then(|| value.clone_ref(py))));
        Ok(())
    }

    /// A future that is done when nothing waits to be sent; until it is reset, nothing can be written. For sendfile.
    pub(super) fn make_empty_waiter(py: Attached<'_>, this: This<'_>) -> PyResult<Owned> {
        if this.empty_waiter.is_set(py) {
            return Err(Kind::RuntimeError.raise(py, "Empty waiter is already set"));
        }
        let names = &this.parts().names;
        let waiter = this.owner.object().call_method0(py, &names.create_future)?;
        this.empty_waiter.set(py, waiter.clone_ref(py));
        if this.size(py)? == 0 {
            waiter.call_method1(py, &names.set_result, &Borrowed::none(py))?;
        }
        Ok(waiter)
    }

    /// A line for asyncio's log in debug mode.
    #[inline]
    pub(super) fn debug(&self, py: Attached<'_>, this: This<'_>, text: &CStr) -> PyResult<()> {
        if !self.owner.is_debug() {
            return Ok(());
        }
        let text = Owned::interned(py, text)?;
        self.parts().debug.get(py)?.call(py, [text.borrow(), this.object()]).map(drop)
    }
}

pub(super) fn set_flag(py: Attached<'_>, flag: &AtomicBool, value: Option<Borrowed<'_>>) -> PyResult<()> {
    flag.store(set_to(py, value)?.is_true(py)?, Relaxed);
    Ok(())
}

/// A water mark: what was given, and a number near enough to compare sizes with.
pub(super) fn set_mark(
    py: Attached<'_>,
    mark: &AtomicI64,
    given: &ObjCell,
    value: Option<Borrowed<'_>>,
) -> PyResult<()> {
    let value = set_to(py, value)?;
    // A float-to-integer cast saturates; what is too big for a float is too big for any buffer.
    let number = match value.to_f64(py) {
        Ok(number) => number.floor() as i64,
        Err(raised) if raised.matches(py, &Kind::OverflowError.class(py)) => {
            raised.clear(py);
            i64::MAX
        }
        Err(raised) => return Err(raised),
    };
    mark.store(number, Relaxed);
    given.set(py, value.clone_ref(py));
    Ok(())
}

fn set_to<'a>(py: Attached<'_>, value: Option<Borrowed<'a>>) -> PyResult<Borrowed<'a>> {
    value.ok_or_else(|| Kind::AttributeError.raise(py, "cannot delete attribute"))
}
