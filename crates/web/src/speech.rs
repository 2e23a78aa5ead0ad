//! What an app sends over a WebSocket: nothing is accepted before it does, and what it does not accept is a 403.

use std::sync::atomic::Ordering::Relaxed;

use pyrt::{Attached, Borrowed, Fault, Owned, PyResult, raise_class};

use crate::message;
use crate::respond::Start;
use crate::socket::{Phase, Socket, This};

impl Socket {
    pub(crate) fn send(py: Attached<'_>, this: This<'_>, message: Borrowed<'_>) -> PyResult<Owned> {
        let web = &this.site().web;
        let message = message.clone_ref(py);
        let mut found = None;
        let kind = message::kind(py, web, &message, &mut found)?;
        match this.state.with(py, |state| state.phase)? {
            Phase::Lost => {
                let class = web.disconnected.get(py)?;
                return Err(raise_class(py, &class, [Owned::str(py, "the client is gone")?.borrow()]));
            }
            Phase::Ended => return Err(message::out_of_order(py, kind, "came after the end")),
            _ => {}
        }
        match kind {
            "websocket.accept" => this.accept(py, this, &message)?,
            "websocket.send" => this.say(py, &message)?,
            "websocket.close" => this.close(py, &message)?,
            "websocket.http.response.start" => this.refuse(py, &message)?,
            "websocket.http.response.body" => this.refuse_on(py, &message)?,
            other => return Err(message::out_of_order(py, other, "is not a message of a WebSocket")),
        }
        if this.connection.is_full.load(Relaxed) && !this.connection.is_gone.load(Relaxed) {
            return web.drain.get(py)?.call1(py, &this.object());
        }
        Ok(web.nothing.clone_ref(py))
    }

    fn expect(&self, py: Attached<'_>, wanted: Phase, kind: &str) -> PyResult<()> {
        if self.state.with(py, |state| state.phase)? == wanted {
            return Ok(());
        }
        Err(message::out_of_order(py, kind, "is out of order"))
    }

    fn accept(&self, py: Attached<'_>, this: This<'_>, message: &Owned) -> PyResult<()> {
        let web = &self.site().web;
        let subprotocol = message::value(py, message, &web.names.subprotocol)?;
        let mut head = Start::new(101, false);
        let accept = self.state.with(py, |state| state.accept.clone())?;
        let mut add = |name: &[u8], value: &[u8]| {
            head.header(name, value).map_err(|_| message::no_header(py, name, value))
        };
        add(b"upgrade", b"websocket")?;
        add(b"sec-websocket-accept", accept.as_bytes())?;
        if let Some(subprotocol) = &subprotocol {
            if !subprotocol.is_str() {
                return Err(subprotocol.wrong_type(py, "a str as subprotocol"));
            }
            add(b"sec-websocket-protocol", subprotocol.to_str(py)?.as_bytes())?;
        }
        message::headers(py, web, message, &mut add)?;
        self.expect(py, Phase::Connecting, "websocket.accept")?;
        head.upgrades();
        let (head, _) = self.site().date(py, |date| head.finish(None, false, true, date))?;
        self.state.with(py, |state| state.phase = Phase::Open)?;
        self.connection.write(py, &Owned::bytes(py, &head)?)?;
        self.listen(py, this)
    }

    fn say(&self, py: Attached<'_>, message: &Owned) -> PyResult<()> {
        let names = &self.site().web.names;
        let text = message::value(py, message, &names.text)?;
        let bytes = message::value(py, message, &names.bytes)?;
        self.check_text(py, text.as_ref())?;
        match (&text, &bytes) {
            (Some(text), None) => {
                let text = text.to_str(py)?;
                self.expect(py, Phase::Open, "websocket.send")?;
                self.state.with(py, |state| state.frames.as_mut().map(|frames| frames.text(text)))?;
            }
            (None, Some(bytes)) => {
                message::check_octets(py, bytes)?;
                self.expect(py, Phase::Open, "websocket.send")?;
                message::with_octets(py, bytes, |data| {
                    self.state.with(py, |state| state.frames.as_mut().map(|frames| frames.binary(data)))
                })?;
            }
            _ => return Err(Fault::value_error("websocket.send has either text or bytes").raise(py)),
        }
        self.write(py)
    }

    fn check_text(&self, py: Attached<'_>, text: Option<&Owned>) -> PyResult<()> {
        match text {
            Some(text) if !text.is_str() => Err(text.wrong_type(py, "a str as text")),
            _ => Ok(()),
        }
    }

    fn close(&self, py: Attached<'_>, message: &Owned) -> PyResult<()> {
        let names = &self.site().web.names;
        let code = match message::value(py, message, &names.code)? {
            None => 1000,
            Some(code) if code.is_int() => u16::try_from(code.to_i64(py)?)
                .map_err(|_| Fault::value_error("not a code of a close frame").raise(py))?,
            Some(code) => return Err(code.wrong_type(py, "an int as code")),
        };
        let reason = message::value(py, message, &names.reason)?;
        self.check_text(py, reason.as_ref())?;
        let reason = reason.as_ref().map_or(Ok(""), |reason| reason.to_str(py))?;
        if reason.len() > 123 {
            return Err(Fault::value_error("the reason of a close frame has at most 123 bytes").raise(py));
        }
        match self.state.with(py, |state| state.phase)? {
            Phase::Connecting => {
                self.state.with(py, |state| state.phase = Phase::Ended)?;
                self.connection.refuse(py, 403, &[])
            }
            Phase::Open => self.close_with(py, code, reason),
            _ => Err(message::out_of_order(py, "websocket.close", "is out of order")),
        }
    }

    /// Closes from this side; the client has a while to answer.
    pub(crate) fn close_with(&self, py: Attached<'_>, code: u16, reason: &str) -> PyResult<()> {
        self.state.with(py, |state| {
            state.phase = Phase::Ended;
            (state.code, state.reason) = (code, reason.to_owned());
            state.frames.as_mut().map(|frames| frames.close(code, reason))
        })?;
        self.write(py)?;
        let site = self.site();
        self.connection.deadline.store(site.after(site.for_body), Relaxed);
        self.waiters.wake(py, site)
    }

    /// The server ends.
    pub(crate) fn restart(&self, py: Attached<'_>, _this: This<'_>, code: u16) -> PyResult<()> {
        if self.state.with(py, |state| state.phase)? == Phase::Open {
            self.close_with(py, code, "")
        } else {
            Ok(())
        }
    }

    fn refuse(&self, py: Attached<'_>, message: &Owned) -> PyResult<()> {
        let start = message::start(py, &self.site().web, message, false)?;
        self.expect(py, Phase::Connecting, "websocket.http.response.start")?;
        self.state.with(py, |state| {
            state.phase = Phase::Refusing;
            state.refusal = Some(start);
        })
    }

    fn refuse_on(&self, py: Attached<'_>, message: &Owned) -> PyResult<()> {
        let web = &self.site().web;
        let piece = message::value(py, message, &web.names.body)?.unwrap_or_else(|| web.empty.clone_ref(py));
        message::check_octets(py, &piece)?;
        let has_more = message::flag(py, message, &web.names.more_body)?;
        self.expect(py, Phase::Refusing, "websocket.http.response.body")?;
        message::with_octets(py, &piece, |bytes| {
            self.state.with(py, |state| state.pieces.extend_from_slice(bytes))
        })?;
        if has_more {
            return Ok(());
        }
        let (start, body) = self.state.with(py, |state| {
            state.phase = Phase::Ended;
            (state.refusal.take(), std::mem::take(&mut state.pieces))
        })?;
        let Some(start) = start else { return Ok(()) };
        let (mut response, _) =
            self.site().date(py, |date| start.finish(Some(body.len()), false, false, date))?;
        response.extend_from_slice(&body);
        self.connection.write(py, &Owned::bytes(py, &response)?)?;
        self.connection.close(py)
    }
}
