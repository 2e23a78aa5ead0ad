//! `Rows`: the methods and attributes that transports have in common, to be listed in the tables of each class.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use pyrt::{Args, Attached, Borrowed, Fault, Instance, Kind, Method, Owned, Property, PyResult, Typed};

use super::{Paced, Transport, end, flow, start};
use crate::event_loop::Loop;

/// The rows for one class.
pub(crate) struct Rows<T>(core::marker::PhantomData<T>);

impl<T: Transport> Rows<T> {
    pub(crate) const IS_READING: Method<T> = Method::noargs(
        c"is_reading",
        |_, this: Instance<'_, T>| Ok(this.payload().base().is_reading()),
        c"is_reading($self)\n--\n\nWhether it reads.",
    );
    pub(crate) const PAUSE_READING: Method<T> = Method::noargs(
        c"pause_reading",
        start::pause_reading::<T>,
        c"pause_reading($self)\n--\n\nNothing is received until resume_reading().",
    );
    pub(crate) const RESUME_READING: Method<T> = Method::noargs(
        c"resume_reading",
        start::resume_reading::<T>,
        c"resume_reading($self)\n--\n\nReads again.",
    );
    pub(crate) const START_READING: Method<T> =
        Method::noargs(c"_start_reading", start::start_reading::<T>, c"_start_reading($self)\n--\n\n");
    pub(crate) const ABORT: Method<T> = Method::noargs(
        c"abort",
        |py, this: Instance<'_, T>| end::force_close(py, this, Borrowed::none(py)),
        c"abort($self)\n--\n\nEnds it at once; what waits is dropped.",
    );
    pub(crate) const IS_CLOSING: Method<T> = Method::noargs(
        c"is_closing",
        |_, this: Instance<'_, T>| Ok(this.payload().base().is_closing()),
        c"is_closing($self)\n--\n\nWhether it is closing or closed.",
    );
    pub(crate) const SET_PROTOCOL: Method<T> = Method::one(
        c"set_protocol",
        |py, this: Instance<'_, T>, protocol| {
            this.payload().base().set_protocol(py, protocol);
            Ok(())
        },
        c"set_protocol($self, protocol, /)\n--\n\nChanges the protocol.",
    );
    pub(crate) const GET_PROTOCOL: Method<T> = Method::noargs(
        c"get_protocol",
        |py, this: Instance<'_, T>| Ok(this.payload().base().protocol.get(py)),
        c"get_protocol($self)\n--\n\nThe protocol.",
    );
    pub(crate) const GET_EXTRA_INFO: Method<T> = Method::fast(
        c"get_extra_info",
        get_extra_info::<T>,
        c"get_extra_info($self, name, default=None)\n--\n\nsocket, sockname, peername, or pipe.",
    );
    pub(crate) const FORCE_CLOSE: Method<T> =
        Method::one(c"_force_close", end::force_close::<T>, c"_force_close($self, exc, /)\n--\n\n");
    pub(crate) const FATAL_ERROR: Method<T> = Method::fast(
        c"_fatal_error",
        end::fatal_error_method::<T>,
        c"_fatal_error($self, exc, message='Fatal error on transport')\n--\n\n",
    );

    pub(crate) const LOOP: Property<T> =
        Property::read(c"_loop", loop_or_none::<T>, c"").write(|_, _, _| Ok(()));
    pub(crate) const PROTOCOL: Property<T> = Property::read(
        c"_protocol",
        |py, this: Instance<'_, T>| Ok(this.payload().base().protocol.get(py)),
        c"",
    )
    .write(set_protocol_attr::<T>);
    pub(crate) const CONN_LOST: Property<T> = Property::read(
        c"_conn_lost",
        |_, this: Instance<'_, T>| Ok(i64::from(this.payload().base().conn_lost.load(Relaxed))),
        c"",
    )
    .write(set_conn_lost::<T>);
    pub(crate) const CLOSING: Property<T> =
        Property::read(c"_closing", |_, this: Instance<'_, T>| Ok(this.payload().base().is_closing()), c"")
            .write(|py, this, value| set_flag(py, &this.payload().base().closing, value));
    pub(crate) const PAUSED: Property<T> = Property::read(
        c"_paused",
        |_, this: Instance<'_, T>| Ok(this.payload().base().paused.load(Relaxed)),
        c"",
    )
    .write(|py, this, value| set_flag(py, &this.payload().base().paused, value));
    pub(crate) const PROTOCOL_CONNECTED: Property<T> = Property::read(
        c"_protocol_connected",
        |_, this: Instance<'_, T>| Ok(this.payload().base().connected.load(Relaxed)),
        c"",
    )
    .write(|py, this, value| set_flag(py, &this.payload().base().connected, value));
    pub(crate) const EXTRA: Property<T> =
        Property::read(c"_extra", |py, this: Instance<'_, T>| this.payload().extra(py), c"");
    pub(crate) const SOCK: Property<T> =
        Property::read(c"_sock", |py, this: Instance<'_, T>| Ok(this.payload().base().file.get(py)), c"");
    pub(crate) const SOCK_FD: Property<T> =
        Property::read(c"_sock_fd", |_, this: Instance<'_, T>| Ok(i64::from(this.payload().base().fd)), c"");
    /// Set to `None` it is let go of, for whoever has closed it.
    pub(crate) const PIPE: Property<T> =
        Property::read(c"_pipe", |py, this: Instance<'_, T>| Ok(this.payload().base().file.get(py)), c"")
            .write(let_go::<T>);
}

impl<T: Paced> Rows<T> {
    pub(crate) const BUFFER_SIZE: Method<T> = Method::noargs(
        c"get_write_buffer_size",
        |py, this: Instance<'_, T>| {
            this.payload().settle(py)?;
            this.payload().size(py)
        },
        c"get_write_buffer_size($self)\n--\n\nHow many bytes wait.",
    );
    pub(crate) const MAYBE_PAUSE: Method<T> = Method::noargs(
        c"_maybe_pause_protocol",
        |py, this: Instance<'_, T>| {
            this.payload().settle(py)?;
            flow::maybe_pause(py, this)
        },
        c"_maybe_pause_protocol($self)\n--\n\n",
    );
    pub(crate) const MAYBE_RESUME: Method<T> = Method::noargs(
        c"_maybe_resume_protocol",
        flow::maybe_resume::<T>,
        c"_maybe_resume_protocol($self)\n--\n\n",
    );
    pub(crate) const PROTOCOL_PAUSED: Property<T> = Property::read(
        c"_protocol_paused",
        |_, this: Instance<'_, T>| Ok(this.payload().flow().paused.load(Relaxed)),
        c"",
    )
    .write(|py, this, value| set_flag(py, &this.payload().flow().paused, value));
    pub(crate) const HIGH_WATER: Property<T> =
        Property::read(c"_high_water", flow::high_water::<T>, c"").write(flow::set_high::<T>);
    pub(crate) const LOW_WATER: Property<T> =
        Property::read(c"_low_water", flow::low_water::<T>, c"").write(flow::set_low::<T>);
}

fn get_extra_info<T: Transport>(py: Attached<'_>, this: Instance<'_, T>, args: Args<'_>) -> PyResult<Owned> {
    let [Some(name), default] = this.payload().base().parts().info.parse(py, &args)? else {
        return Err(Fault::system("a required argument was lost").raise(py));
    };
    let default = || default.map_or_else(|| Owned::none(py), |default| default.clone_ref(py));
    let Some(extra) = this.payload().extra(py)? else { return Ok(default()) };
    Ok(extra.dict_get(py, &name)?.unwrap_or_else(default))
}

/// `_loop`, which a closed transport has not any more.
fn loop_or_none<T: Transport>(py: Attached<'_>, this: Instance<'_, T>) -> PyResult<Option<Typed<Loop>>> {
    let base = this.payload().base();
    Ok(base.is_open(py).then(|| base.owner.clone_ref(py)))
}

fn set_protocol_attr<T: Transport>(
    py: Attached<'_>,
    this: Instance<'_, T>,
    protocol: Option<Borrowed<'_>>,
) -> PyResult<()> {
    let protocol = set_to(py, protocol)?;
    drop(this.payload().base().protocol.replace(py, (!protocol.is_none()).then(|| protocol.clone_ref(py))));
    Ok(())
}

fn let_go<T: Transport>(
    py: Attached<'_>,
    this: Instance<'_, T>,
    value: Option<Borrowed<'_>>,
) -> PyResult<()> {
    if !set_to(py, value)?.is_none() {
        return Err(Kind::AttributeError.raise(py, "can be set to None only"));
    }
    drop(this.payload().base().file.take(py));
    Ok(())
}

fn set_conn_lost<T: Transport>(
    py: Attached<'_>,
    this: Instance<'_, T>,
    value: Option<Borrowed<'_>>,
) -> PyResult<()> {
    let value = set_to(py, value)?.to_i64(py)?;
    this.payload().base().conn_lost.store(u32::try_from(value).unwrap_or(u32::MAX), Relaxed);
    Ok(())
}

pub(crate) fn set_flag(py: Attached<'_>, flag: &AtomicBool, value: Option<Borrowed<'_>>) -> PyResult<()> {
    flag.store(set_to(py, value)?.is_true(py)?, Relaxed);
    Ok(())
}

pub(crate) fn set_to<'a>(py: Attached<'_>, value: Option<Borrowed<'a>>) -> PyResult<Borrowed<'a>> {
    value.ok_or_else(|| Kind::AttributeError.raise(py, "cannot delete attribute"))
}
