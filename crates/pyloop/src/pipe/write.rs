//! `WritePipeTransport`: what goes into a pipe, with a protocol that hears of room and of the end.

use std::ffi::CStr;
use std::sync::atomic::Ordering::Relaxed;

use evloop::Interest;
use pyrt::{
    Attached, Borrowed, Buffer, Class, DictSlot, Guarded, Instance, Kind, Method, Offset, Owned, Property,
    PyResult, Traverse, TypeSlot, Visit, Visited, WeakSlot, confined, offset, raise_class,
};

use super::end::Pipe;
use crate::transport::{
    Base, Flow, Paced, Queue, Rows, Sink, Streaming, Transport, call_connection_lost, fatal, finalize,
    force_close, is_later, listen_no_more, lose, maybe_resume, note, os_error, put,
};

/// A transport that writes to a pipe.
pub(crate) struct WritePipeTransport {
    pub(super) base: Base,
    flow: Flow,
    pipe: Pipe,
    queue: Guarded<Queue>,
    dict: DictSlot,
    weak: WeakSlot,
}

confined!(WritePipeTransport { base, flow, pipe, queue, dict, weak });

impl Traverse for WritePipeTransport {
    fn traverse(&self, visit: &mut Visit<'_>) -> Visited {
        // The queue holds nothing but `bytes`, which refer to nothing.
        self.base.traverse(visit)?;
        self.flow.traverse(visit)
    }

    fn clear(&self, py: Attached<'_>) {
        self.base.clear(py);
        self.flow.clear(py);
    }
}

type This<'a> = Instance<'a, WritePipeTransport>;

impl Class for WritePipeTransport {
    const NAME: &'static CStr = c"erlang._native.WritePipeTransport";
    const DOC: &'static CStr = c"A transport that writes to a pipe. Made by the event loop.";
    const BASE_SLOTS: usize = 5;
    const DICT: Option<Offset<Self, DictSlot>> = Some(offset!(WritePipeTransport, dict));
    const WEAKREFS: Option<Offset<Self, WeakSlot>> = Some(offset!(WritePipeTransport, weak));
    const METHODS: &'static [Method<Self>] = &[
        Method::one(
            c"write",
            Self::write,
            c"write($self, data, /)\n--\n\nSends data, now or when there is room; never waits.",
        ),
        Method::<Self>::noargs(
            c"write_eof",
            Self::close,
            c"write_eof($self)\n--\n\nSends what waits, then closes the pipe.",
        ),
        Method::<Self>::noargs(c"can_write_eof", |_, _| Ok(true), c"can_write_eof($self)\n--\n\nTrue."),
        Method::<Self>::noargs(
            c"close",
            Self::close,
            c"close($self)\n--\n\nSends what waits, then closes the pipe.",
        ),
        Method::one(
            c"_call_connection_lost",
            call_connection_lost::<Self>,
            c"_call_connection_lost($self, exc, /)\n--\n\n",
        ),
        Rows::START_READING,
        Rows::ABORT,
        Rows::IS_CLOSING,
        Rows::SET_PROTOCOL,
        Rows::GET_PROTOCOL,
        Rows::GET_EXTRA_INFO,
        Rows::BUFFER_SIZE,
        Rows::MAYBE_PAUSE,
        Rows::MAYBE_RESUME,
        Method::END,
    ];
    const PROPERTIES: &'static [Property<Self>] = &[
        Property::DICT,
        Property::<Self>::read(c"_fileno", |_, this| Ok(i64::from(this.pipe.number)), c""),
        Property::<Self>::read(c"_buffer", Self::buffer_copy, c"What waits to be sent; a copy."),
        Rows::PIPE,
        Rows::LOOP,
        Rows::PROTOCOL,
        Rows::CONN_LOST,
        Rows::CLOSING,
        Rows::EXTRA,
        Rows::PROTOCOL_PAUSED,
        Rows::HIGH_WATER,
        Rows::LOW_WATER,
        Property::END,
    ];
    const SLOTS: &'static [TypeSlot<Self>] =
        &[TypeSlot::repr(Self::repr), TypeSlot::finalize(finalize::<Self>)];
}

impl Transport for WritePipeTransport {
    fn base(&self) -> &Base {
        &self.base
    }

    /// Nobody reads any more. A socket that is used as a pipe says the same by sending something.
    fn read_ready(py: Attached<'_>, this: This<'_>) -> PyResult<()> {
        note(py, this, c"%r was closed by peer")?;
        if this.size(py)? == 0 {
            return force_close(py, this, Borrowed::none(py));
        }
        let broken = raise_class(py, &Kind::BrokenPipeError.class(py), []).take(py).into_value();
        force_close(py, this, broken.borrow())
    }

    /// There is room: sends what waits, and goes on with whatever waited for that.
    fn write_ready(py: Attached<'_>, this: This<'_>) -> PyResult<()> {
        let Some(end) = this.pipe.end(py, &this.base).filter(|_| !this.base.is_lost()) else { return Ok(()) };
        match this.queue.with(py, |queue| queue.send(py, end))? {
            Ok(()) => {}
            Err(error) if is_later(error) => return Ok(()),
            Err(error) => return fatal(py, this, os_error(py, error), Self::FAILED),
        }
        if this.size(py)? > 0 {
            return Ok(());
        }
        drop(this.base.writing_in.take(py));
        listen_no_more(py, this, Interest::WRITE)?;
        maybe_resume(py, this)?;
        // The protocol may have written more, or closed it.
        if this.base.is_closing() && !this.base.is_lost() {
            return call_connection_lost(py, this, Borrowed::none(py));
        }
        Ok(())
    }

    fn close_file(py: Attached<'_>, this: This<'_>, file: Owned) -> PyResult<()> {
        this.pipe.close(py, &this.base, &file)
    }

    fn drop_queue(&self, py: Attached<'_>) -> PyResult<()> {
        self.queue.with(py, |queue| queue.take()).map(drop)
    }
}

impl Paced for WritePipeTransport {
    fn flow(&self) -> &Flow {
        &self.flow
    }

    #[inline]
    fn size(&self, py: Attached<'_>) -> PyResult<usize> {
        self.queue.with(py, |queue| queue.size())
    }
}

impl Streaming for WritePipeTransport {
    const FAILED: &'static CStr = c"Fatal write error on pipe transport";

    fn queue(&self) -> &Guarded<Queue> {
        &self.queue
    }

    #[inline]
    fn sink(&self, py: Attached<'_>) -> Option<impl Sink> {
        self.pipe.end(py, &self.base)
    }
}

impl WritePipeTransport {
    pub(super) fn new(base: Base, pipe: Pipe) -> Self {
        let (dict, weak) = (DictSlot::new(), WeakSlot::new());
        Self { base, flow: Flow::default(), pipe, queue: Guarded::default(), dict, weak }
    }

    fn write(py: Attached<'_>, this: This<'_>, data: Borrowed<'_>) -> PyResult<()> {
        if data.is_exact_bytes() {
            let bytes = data.to_bytes(py)?;
            return if this.accepts(py, bytes)? { put(py, this, bytes, Some(data)) } else { Ok(()) };
        }
        if !(data.is_bytes() || data.is_bytearray() || data.is_memoryview()) {
            let text = data.repr(py)?.to_string_lossy(py)?;
            return Err(Kind::AssertionError.raise(py, &text));
        }
        match Buffer::read(py, &data) {
            Ok(buffer) if this.accepts(py, buffer.as_slice())? => put(py, this, buffer.as_slice(), None),
            Ok(_) => Ok(()),
            Err(raised) => fatal(py, this, raised, Self::FAILED),
        }
    }

    /// Whether there is something to be written, and somewhere to write it to.
    #[inline]
    fn accepts(&self, py: Attached<'_>, data: &[u8]) -> PyResult<bool> {
        if data.is_empty() {
            return Ok(false);
        }
        if self.base.is_lost() || self.base.is_closing() {
            let text = c"pipe closed by peer or os.write(pipe, data) raised exception.";
            return self.base.write_is_late(py, text).map(|()| false);
        }
        Ok(true)
    }

    fn close(py: Attached<'_>, this: This<'_>) -> PyResult<()> {
        if this.base.closing.swap(true, Relaxed) || this.size(py)? > 0 {
            // Closed already, or write_ready() goes on from here.
            return Ok(());
        }
        lose(py, this, Borrowed::none(py))
    }

    fn repr(py: Attached<'_>, this: This<'_>) -> PyResult<String> {
        this.pipe.repr(py, this, Interest::WRITE, Some(this.size(py)?))
    }

    fn buffer_copy(py: Attached<'_>, this: This<'_>) -> PyResult<Owned> {
        Owned::bytes(py, &this.queue.with(py, |queue| queue.to_vec(py))?)
    }
}
