//! WebSocket (RFC 6455): each message is one binary frame, and so is its echo. The frame around it is put on and taken off here.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};

use crate::link::{Link, tcp};

/// Final, binary.
const BINARY: u8 = 0x82;
const IS_MASKED: u8 = 0x80;

pub(crate) struct WebSocket {
    stream: TcpStream,
    size: usize,
    /// What stands before a message on the way out, and what is expected before its echo.
    out: Vec<u8>,
    back: Vec<u8>,
    /// How far the frame is, there and back.
    sent: usize,
    got: usize,
}

impl WebSocket {
    /// Asks for one at `address/path`.
    pub(crate) fn connect(at: &str, size: usize) -> io::Result<Self> {
        let (address, path) = at.split_once('/').unwrap_or((at, ""));
        let mut stream = tcp(address)?;
        write!(
            stream,
            "GET /{path} HTTP/1.1\r\nhost: {address}\r\nconnection: Upgrade\r\nupgrade: websocket\r\n\
             sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        )?;
        let mut answer = Vec::new();
        let mut byte = [0];
        while !answer.ends_with(b"\r\n\r\n") {
            stream.read_exact(&mut byte)?;
            answer.extend_from_slice(&byte);
        }
        if !answer.starts_with(b"HTTP/1.1 101 ") {
            return Err(io::Error::other(String::from_utf8_lossy(&answer).into_owned()));
        }
        let (out, back) = (header(size, IS_MASKED), header(size, 0));
        Ok(Self { stream, size, out, back, sent: 0, got: 0 })
    }
}

/// The beginning of a frame. A client has to mask (5.3); a key of zeros changes nothing, and the server cannot know.
fn header(size: usize, masked: u8) -> Vec<u8> {
    let mut bytes = vec![BINARY];
    match (u8::try_from(size), u16::try_from(size)) {
        (Ok(short @ ..126), _) => bytes.push(masked | short),
        (_, Ok(medium)) => {
            bytes.push(masked | 126);
            bytes.extend_from_slice(&medium.to_be_bytes());
        }
        _ => {
            bytes.push(masked | 127);
            bytes.extend_from_slice(&(size as u64).to_be_bytes());
        }
    }
    if masked != 0 {
        bytes.extend_from_slice(&[0; 4]);
    }
    bytes
}

impl AsFd for WebSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

impl Link for WebSocket {
    fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let head = self.out.get(self.sent..).unwrap_or_default();
        let count = self.stream.write_vectored(&[io::IoSlice::new(head), io::IoSlice::new(bytes)])?;
        let of_message = count.saturating_sub(head.len());
        self.sent += count;
        if self.sent == self.out.len() + self.size {
            self.sent = 0;
        }
        if of_message == 0 && count > 0 { Err(io::ErrorKind::Interrupted.into()) } else { Ok(of_message) }
    }

    fn recv(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.stream.read(buffer)?;
        let expected = self.back.get(self.got..).unwrap_or_default();
        let of_head = expected.len().min(count);
        if buffer.get(..of_head) != expected.get(..of_head) {
            return Err(io::Error::other("the echo is not one binary frame of that size"));
        }
        self.got += count;
        if self.got >= self.back.len() + self.size {
            self.got = 0;
        }
        buffer.copy_within(of_head..count, 0);
        match count - of_head {
            0 if count > 0 => Err(io::ErrorKind::Interrupted.into()),
            of_message => Ok(of_message),
        }
    }

    fn set_nonblocking(&self, on: bool) -> io::Result<()> {
        self.stream.set_nonblocking(on)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_begins_with_its_size_in_the_shortest_form() {
        assert_eq!(header(125, 0), [0x82, 125]);
        assert_eq!(header(126, 0), [0x82, 126, 0, 126]);
        assert_eq!(header(65536, 0), [0x82, 127, 0, 0, 0, 0, 0, 1, 0, 0]);
        assert_eq!(header(1, IS_MASKED), [0x82, 0x81, 0, 0, 0, 0]);
    }
}
