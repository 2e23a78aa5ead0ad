//! What an app sends as its response: checked, ordered, and written.

use std::sync::atomic::Ordering::Relaxed;

use pyrt::{Attached, Borrowed, Fault, Owned, PyResult, confined, raise_class};

use crate::exchange::{Exchange, This};
use crate::message;
use crate::respond::{Ending, LAST_CHUNK, Start, chunk};

/// From here on a body is written by itself: it would cost more to copy it.
const LARGE: usize = 32 * 1024;

/// How far a response is.
#[derive(Default)]
pub(crate) struct Response {
    /// The head, until the first piece of the body is there, or does not come.
    head: Option<Start>,
    is_begun: bool,
    /// Something has been written.
    pub(crate) is_sent: bool,
    ending: Option<Ending>,
    pub(crate) is_ended: bool,
    /// The connection is to be closed after it.
    pub(crate) closes: bool,
}

confined!(Response { head, is_begun, is_sent, ending, is_ended, closes });

impl Exchange {
    pub(crate) fn send(py: Attached<'_>, this: This<'_>, message: Borrowed<'_>) -> PyResult<Owned> {
        let web = &this.site().web;
        let message = message.clone_ref(py);
        let mut found = None;
        let kind = message::kind(py, web, &message, &mut found)?;
        match kind {
            "http.response.start" => this.begin(py, this, &message)?,
            "http.response.body" => this.body(py, this, &message)?,
            other => return Err(message::out_of_order(py, other, "is not a message of a response")),
        }
        if this.connection.is_full.load(Relaxed) && !this.is_gone() {
            return web.drain.get(py)?.call1(py, &this.object());
        }
        Ok(web.nothing.clone_ref(py))
    }

    fn check_client(&self, py: Attached<'_>) -> PyResult<()> {
        if !self.is_gone() {
            return Ok(());
        }
        let class = self.site().web.disconnected.get(py)?;
        Err(raise_class(py, &class, [Owned::str(py, "the client is gone")?.borrow()]))
    }

    fn begin(&self, py: Attached<'_>, this: This<'_>, message: &Owned) -> PyResult<()> {
        let start = message::start(py, &self.site().web, message, self.facts.is_head)?;
        self.check_client(py)?;
        let is_late = self.response.with(py, |response| {
            if std::mem::replace(&mut response.is_begun, true) {
                return true;
            }
            response.closes = start.closes;
            response.head = Some(start);
            false
        })?;
        if is_late {
            return Err(message::out_of_order(py, "http.response.start", "came twice"));
        }
        if !self.is_first.load(Relaxed) {
            // The first piece may take its time; most are there at once.
            let flush = this.object().getattr_str(py, c"flush")?;
            self.site().owner.call_method1(py, &self.site().web.names.call_soon, &flush)?;
        }
        Ok(())
    }

    /// Sends the head if it still waits for a body.
    pub(crate) fn flush(py: Attached<'_>, this: This<'_>) -> PyResult<()> {
        if this.is_gone() {
            return Ok(());
        }
        let head = this.take_head(py, None)?;
        if head.is_empty() {
            return Ok(());
        }
        this.connection.write(py, &Owned::bytes(py, &head)?)
    }

    /// The head as bytes, if it was not sent yet. With the length of a body that is all there.
    fn take_head(&self, py: Attached<'_>, whole: Option<usize>) -> PyResult<Vec<u8>> {
        let Some(start) = self.response.with(py, |response| response.head.take())? else {
            return Ok(Vec::new());
        };
        let keeps = self.facts.keep_alive && !self.connection.is_last.load(Relaxed);
        let (head, ending) =
            self.site().date(py, |date| start.finish(whole, self.facts.is_old, keeps, date))?;
        self.response.with(py, |response| {
            response.is_sent = true;
            response.ending = Some(ending);
            response.closes |= ending == Ending::Close;
        })?;
        Ok(head)
    }

    fn body(&self, py: Attached<'_>, this: This<'_>, message: &Owned) -> PyResult<()> {
        let web = &self.site().web;
        let piece = message::value(py, message, &web.names.body)?.unwrap_or_else(|| web.empty.clone_ref(py));
        message::check_octets(py, &piece)?;
        let has_more = message::flag(py, message, &web.names.more_body)?;
        self.check_client(py)?;
        let (is_begun, is_ended) =
            self.response.with(py, |response| (response.is_begun, response.is_ended))?;
        if !is_begun {
            return Err(message::out_of_order(py, "http.response.body", "came before http.response.start"));
        }
        if is_ended {
            return Err(message::out_of_order(
                py,
                "http.response.body",
                "came after the end of the response",
            ));
        }
        message::with_octets(py, &piece, |bytes| self.write_piece(py, &piece, bytes, has_more))?;
        if has_more {
            return Ok(());
        }
        self.response.with(py, |response| response.is_ended = true)?;
        self.waiters.wake(py, self.site())?;
        self.connection.ended(py, self.connection.instance(), this)
    }

    fn write_piece(&self, py: Attached<'_>, object: &Owned, bytes: &[u8], has_more: bool) -> PyResult<()> {
        let mut out = self.take_head(py, (!has_more).then_some(bytes.len()))?;
        let ending = self.response.with(py, |response| response.ending)?;
        match ending {
            Some(Ending::Bodiless) | None => {}
            Some(Ending::Chunked) => {
                chunk(&mut out, bytes);
                if !has_more {
                    out.extend_from_slice(LAST_CHUNK);
                }
            }
            Some(Ending::Close) => out.extend_from_slice(bytes),
            Some(Ending::Length(left)) => {
                let left =
                    left.checked_sub(bytes.len() as u64).ok_or_else(|| self.wrong_length(py, "longer"))?;
                if left > 0 && !has_more {
                    return Err(self.wrong_length(py, "shorter"));
                }
                self.response.with(py, |response| response.ending = Some(Ending::Length(left)))?;
                if bytes.len() >= LARGE && object.is_exact_bytes() {
                    if !out.is_empty() {
                        self.connection.write(py, &Owned::bytes(py, &out)?)?;
                    }
                    return self.connection.write(py, object);
                }
                out.extend_from_slice(bytes);
            }
        }
        if out.is_empty() { Ok(()) } else { self.connection.write(py, &Owned::bytes(py, &out)?) }
    }

    #[cold]
    fn wrong_length(&self, py: Attached<'_>, how: &str) -> pyrt::Raised {
        Fault::runtime(format!("the body is {how} than its content-length")).raise(py)
    }
}
