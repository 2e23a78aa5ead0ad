//! The frames of a WebSocket: bytes to messages and back, by tungstenite's codec over buffers. Knows no Python.

use std::io::{ErrorKind, Read, Result as IoResult, Write};

use tungstenite::error::{CapacityError, Error};
use tungstenite::protocol::frame::coding::CloseCode;
use tungstenite::protocol::{CloseFrame, Message, Role, WebSocketConfig, WebSocketContext};

/// Bytes on their way in and out.
#[derive(Default)]
struct Pipe {
    incoming: Vec<u8>,
    taken: usize,
    outgoing: Vec<u8>,
}

impl Read for Pipe {
    fn read(&mut self, room: &mut [u8]) -> IoResult<usize> {
        let mut rest = self.incoming.get(self.taken..).unwrap_or_default();
        if rest.is_empty() {
            self.incoming.clear();
            self.taken = 0;
            return Err(ErrorKind::WouldBlock.into());
        }
        let read = rest.read(room)?;
        self.taken += read;
        Ok(read)
    }
}

impl Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> IoResult<usize> {
        self.outgoing.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> IoResult<()> {
        Ok(())
    }
}

/// What comes of a client's bytes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Event {
    Text(String),
    Binary(Vec<u8>),
    /// The client closes, with its code and its reason.
    Closed(u16, String),
    /// The client breaks the rules, and is told by this code.
    Broken(u16),
}

/// The code of a close frame without one (RFC 6455, 7.1.5).
const NO_CODE: u16 = 1005;

pub(crate) struct Frames {
    context: WebSocketContext,
    pipe: Pipe,
}

impl Frames {
    pub(crate) fn new(largest: usize) -> Self {
        let config = WebSocketConfig::default()
            .read_buffer_size(4096)
            .write_buffer_size(0)
            .max_message_size(Some(largest))
            .max_frame_size(Some(largest));
        Self { context: WebSocketContext::new(Role::Server, Some(config)), pipe: Pipe::default() }
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.pipe.incoming.extend_from_slice(bytes);
    }

    /// The next event, if it is there. Pings are answered.
    pub(crate) fn next(&mut self) -> Option<Event> {
        loop {
            return match self.context.read(&mut self.pipe) {
                Ok(Message::Text(text)) => Some(Event::Text(text.as_str().to_owned())),
                Ok(Message::Binary(data)) => Some(Event::Binary(data.to_vec())),
                Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_)) => continue,
                Ok(Message::Close(frame)) => {
                    let _flushed = self.context.flush(&mut self.pipe);
                    let said = frame.map(|frame| (u16::from(frame.code), frame.reason.as_str().to_owned()));
                    let (code, reason) = said.unwrap_or((NO_CODE, String::new()));
                    Some(Event::Closed(code, reason))
                }
                Err(Error::Io(_)) => {
                    let _flushed = self.context.flush(&mut self.pipe);
                    None
                }
                Err(Error::ConnectionClosed | Error::AlreadyClosed) => None,
                Err(error) => {
                    let code = match error {
                        Error::Utf8(_) => 1007,
                        Error::Capacity(CapacityError::MessageTooLong { .. }) => 1009,
                        _ => 1002,
                    };
                    self.close(code, "");
                    Some(Event::Broken(code))
                }
            };
        }
    }

    pub(crate) fn text(&mut self, text: &str) {
        self.say(Message::text(text.to_owned()));
    }

    pub(crate) fn binary(&mut self, data: &[u8]) {
        self.say(Message::binary(data.to_vec()));
    }

    fn say(&mut self, message: Message) {
        // What fails is a connection that is being closed.
        let _sent = self.context.write(&mut self.pipe, message);
        let _flushed = self.context.flush(&mut self.pipe);
    }

    pub(crate) fn close(&mut self, code: u16, reason: &str) {
        let frame = (code != NO_CODE)
            .then(|| CloseFrame { code: CloseCode::from(code), reason: reason.to_owned().into() });
        let _sent = self.context.close(&mut self.pipe, frame);
        let _flushed = self.context.flush(&mut self.pipe);
    }

    /// What is to be written.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.pipe.outgoing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame as clients send it.
    fn masked(first: u8, payload: &[u8]) -> Vec<u8> {
        let mut frame = vec![first, 0x80 | u8::try_from(payload.len()).unwrap(), 1, 2, 3, 4];
        frame.extend(payload.iter().zip([1, 2, 3, 4].into_iter().cycle()).map(|(byte, key)| byte ^ key));
        frame
    }

    #[test]
    fn messages_come_out_whole_and_pings_are_answered() {
        let mut frames = Frames::new(1000);
        let bytes =
            [masked(0x01, b"he"), masked(0x89, b"ping"), masked(0x80, b"llo"), masked(0x82, b"\0\xff")]
                .concat();
        let mut events = Vec::new();
        for byte in bytes {
            frames.push(&[byte]);
            events.extend(frames.next());
        }
        assert_eq!(events, [Event::Text("hello".to_owned()), Event::Binary(vec![0, 255])]);
        assert_eq!(frames.take(), [&[0x8a, 4][..], b"ping"].concat());
    }

    #[test]
    fn a_close_is_answered_once() {
        let mut frames = Frames::new(1000);
        frames.push(&masked(0x88, &[0x0f, 0xa1, b'b', b'y', b'e']));
        assert_eq!(frames.next(), Some(Event::Closed(4001, "bye".to_owned())));
        assert_eq!(frames.take(), [&[0x88, 5, 0x0f, 0xa1][..], b"bye"].concat());
        assert_eq!(frames.next(), None);
        assert!(frames.take().is_empty());
    }

    #[test]
    fn who_breaks_the_rules_is_told() {
        for (bytes, code) in [
            (vec![0x81, 1, b'x'], 1002),
            (masked(0xc1, b"x"), 1002),
            (masked(0x81, b"\xff"), 1007),
            (masked(0x81, &[b'x'; 101]), 1009),
            (masked(0x83, b"x"), 1002),
        ] {
            let mut frames = Frames::new(100);
            frames.push(&bytes);
            assert_eq!(frames.next(), Some(Event::Broken(code)), "{bytes:?}");
            let [high, low] = code.to_be_bytes();
            assert_eq!(frames.take(), [0x88, 2, high, low]);
        }
    }
}
