//! `ReadPipeTransport`: what comes out of a pipe, with a protocol on top.

use std::ffi::CStr;
use std::sync::atomic::Ordering::Relaxed;

use evloop::Interest;
use pyrt::{
    Attached, Borrowed, Class, DictSlot, Imported, Instance, Method, Offset, Owned, Property, PyResult,
    Traverse, TypeSlot, Visit, Visited, WeakSlot, confined, offset,
};

use super::end::Pipe;
use crate::arguments::Request;
use crate::event_loop::Loop;
use crate::transport::{
    Base, Intake, Parts, Rows, Transport, call_connection_lost, fatal, finalize, is_later, listen, lose,
    note, os_error,
};

/// A transport that reads from a pipe.
pub(crate) struct ReadPipeTransport {
    pub(super) base: Base,
    pipe: Pipe,
    intake: Intake,
    dict: DictSlot,
    weak: WeakSlot,
}

confined!(ReadPipeTransport { base, pipe, intake, dict, weak });

impl Traverse for ReadPipeTransport {
    fn traverse(&self, visit: &mut Visit<'_>) -> Visited {
        self.base.traverse(visit)
    }

    fn clear(&self, py: Attached<'_>) {
        self.base.clear(py);
    }
}

type This<'a> = Instance<'a, ReadPipeTransport>;

impl Class for ReadPipeTransport {
    const NAME: &'static CStr = c"erlang._native.ReadPipeTransport";
    const DOC: &'static CStr = c"A transport that reads from a pipe. Made by the event loop.";
    const BASE_SLOTS: usize = 1;
    const DICT: Option<Offset<Self, DictSlot>> = Some(offset!(ReadPipeTransport, dict));
    const WEAKREFS: Option<Offset<Self, WeakSlot>> = Some(offset!(ReadPipeTransport, weak));
    const METHODS: &'static [Method<Self>] = &[
        Method::<Self>::noargs(c"close", Self::close, c"close($self)\n--\n\nCloses the pipe."),
        Method::one(
            c"_call_connection_lost",
            call_connection_lost::<Self>,
            c"_call_connection_lost($self, exc, /)\n--\n\n",
        ),
        Rows::IS_READING,
        Rows::PAUSE_READING,
        Rows::RESUME_READING,
        Rows::START_READING,
        Rows::IS_CLOSING,
        Rows::SET_PROTOCOL,
        Rows::GET_PROTOCOL,
        Rows::GET_EXTRA_INFO,
        Method::END,
    ];
    const PROPERTIES: &'static [Property<Self>] = &[
        Property::DICT,
        Property::<Self>::read(c"_fileno", |_, this| Ok(i64::from(this.pipe.number)), c""),
        Rows::PIPE,
        Rows::LOOP,
        Rows::PROTOCOL,
        Rows::CLOSING,
        Rows::PAUSED,
        Rows::EXTRA,
        Property::END,
    ];
    const SLOTS: &'static [TypeSlot<Self>] =
        &[TypeSlot::repr(Self::repr), TypeSlot::finalize(finalize::<Self>)];
}

impl Transport for ReadPipeTransport {
    fn base(&self) -> &Base {
        &self.base
    }

    fn read_ready(py: Attached<'_>, this: This<'_>) -> PyResult<()> {
        let Some(end) = this.pipe.end(py, &this.base) else { return Ok(()) };
        match this.intake.read(py, &this.base.owner, end)? {
            Ok(Some(data)) => {
                let Some(protocol) = this.base.protocol.get(py) else { return Ok(()) };
                protocol.call_method1(py, &this.base.parts().names.data_received, &data).map(drop)
            }
            Ok(None) => this.ended(py, this),
            Err(error) if is_later(error) => Ok(()),
            Err(error) => fatal(py, this, os_error(py, error), c"Fatal read error on pipe transport"),
        }
    }

    /// Never listened for.
    fn write_ready(_py: Attached<'_>, _this: This<'_>) -> PyResult<()> {
        Ok(())
    }

    fn close_file(py: Attached<'_>, this: This<'_>, file: Owned) -> PyResult<()> {
        this.pipe.close(py, &this.base, &file)
    }

    fn report_fatal(parts: &Parts) -> &Imported {
        &parts.report_fatal_read
    }
}

impl ReadPipeTransport {
    pub(super) fn new(base: Base, pipe: Pipe) -> Self {
        Self { base, pipe, intake: Intake::default(), dict: DictSlot::new(), weak: WeakSlot::new() }
    }

    /// Nothing more comes: the protocol hears of that, and then of the end.
    fn ended(&self, py: Attached<'_>, this: This<'_>) -> PyResult<()> {
        note(py, this, c"%r was closed by peer")?;
        self.base.closing.store(true, Relaxed);
        listen(py, this, Interest::NONE)?;
        if let Some(protocol) = self.base.protocol.get(py) {
            let callback = protocol.getattr(py, &self.base.parts().names.eof_received)?;
            let request = Request { callback: callback.borrow(), args: &[], context: None };
            Loop::schedule(py, self.base.owner.instance(), request)?;
        }
        lose(py, this, Borrowed::none(py))
    }

    fn close(py: Attached<'_>, this: This<'_>) -> PyResult<()> {
        if this.base.is_closing() { Ok(()) } else { lose(py, this, Borrowed::none(py)) }
    }

    fn repr(py: Attached<'_>, this: This<'_>) -> PyResult<String> {
        this.pipe.repr(py, this, Interest::READ, None)
    }
}
