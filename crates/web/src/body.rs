//! The body of a request: which of the bytes that follow its head belong to it. Knows no Python.

use httparse::Status;

use crate::head::{BAD, Refusal, TOO_LARGE};

/// How the end of a body is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    Length(u64),
    Chunked,
}

/// The most that a chunk's size line, or all trailers, may take.
const LINES: usize = 8192;

/// Takes a body out of a stream of bytes.
#[derive(Debug)]
pub(crate) struct Body {
    state: State,
    /// How much there may still be of it.
    allowed: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// So much of the body, or of a chunk, is to come.
    Data {
        left: u64,
        chunked: bool,
    },
    /// The line break after a chunk.
    Break,
    /// The line with the size of the next one.
    Size,
    Trailers,
    Over,
}

/// What came of some bytes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Taken<'a> {
    /// A piece of the body, and how many bytes were used up.
    Piece(&'a [u8], usize),
    /// More is needed; so many bytes were used up.
    More(usize),
    /// That was all of it; so many bytes were used up.
    End(usize),
}

impl Body {
    pub(crate) fn new(framing: Framing, allowed: u64) -> Self {
        let state = match framing {
            Framing::Length(0) => State::Over,
            Framing::Length(left) => State::Data { left, chunked: false },
            Framing::Chunked => State::Size,
        };
        Self { state, allowed }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.state == State::Over
    }

    /// Takes the next part.
    pub(crate) fn take<'a>(&mut self, bytes: &'a [u8]) -> Result<Taken<'a>, Refusal> {
        let mut used = 0;
        loop {
            let rest = bytes.get(used..).unwrap_or_default();
            match self.state {
                State::Over => return Ok(Taken::End(used)),
                State::Data { .. } if rest.is_empty() => return Ok(Taken::More(used)),
                State::Data { left, chunked } => {
                    let size = usize::try_from(left).map_or(rest.len(), |left| left.min(rest.len()));
                    let left = left - size as u64;
                    self.state = match (left, chunked) {
                        (0, true) => State::Break,
                        (0, false) => State::Over,
                        _ => State::Data { left, chunked },
                    };
                    return Ok(Taken::Piece(rest.get(..size).unwrap_or_default(), used + size));
                }
                State::Break => match rest {
                    [b'\r', b'\n', ..] => {
                        used += 2;
                        self.state = State::Size;
                    }
                    [] | [b'\r'] => return Ok(Taken::More(used)),
                    _ => return Err(BAD),
                },
                // A line without a digit is a size of 0 to the parser.
                State::Size if rest.first().is_some_and(|byte| !byte.is_ascii_hexdigit()) => return Err(BAD),
                State::Size => match httparse::parse_chunk_size(rest) {
                    Ok(Status::Complete((length, 0))) => {
                        used += length;
                        self.state = State::Trailers;
                    }
                    Ok(Status::Complete((length, size))) => {
                        self.allowed = self.allowed.checked_sub(size).ok_or(TOO_LARGE)?;
                        used += length;
                        self.state = State::Data { left: size, chunked: true };
                    }
                    Ok(Status::Partial) if rest.len() <= LINES => return Ok(Taken::More(used)),
                    _ => return Err(BAD),
                },
                State::Trailers => match trailers(rest)? {
                    Some(length) => {
                        used += length;
                        self.state = State::Over;
                    }
                    None => return Ok(Taken::More(used)),
                },
            }
        }
    }
}

/// How long the trailers are, which nobody wants; nothing if they are not all there.
fn trailers(bytes: &[u8]) -> Result<Option<usize>, Refusal> {
    if bytes.starts_with(b"\r\n") {
        return Ok(Some(2));
    }
    match bytes.windows(4).take(LINES).position(|four| four == b"\r\n\r\n") {
        Some(at) => Ok(Some(at + 4)),
        None if bytes.len() <= LINES => Ok(None),
        None => Err(BAD),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The body in bytes that come in parts of a size, and what is left of them.
    fn read(framing: Framing, bytes: &[u8], part: usize) -> Result<(Vec<u8>, usize), u16> {
        let (mut body, mut found, mut buffer, mut sent) =
            (Body::new(framing, 100), Vec::new(), Vec::new(), 0);
        loop {
            let used = match body.take(&buffer).map_err(|Refusal(status)| status)? {
                Taken::Piece(piece, used) => {
                    found.extend_from_slice(piece);
                    used
                }
                Taken::End(used) => return Ok((found, buffer.len() - used + bytes.len() - sent)),
                Taken::More(used) => {
                    buffer.drain(..used);
                    let end = (sent + part).min(bytes.len());
                    assert!(sent < end, "more was wanted than there is");
                    buffer.extend_from_slice(&bytes[sent..end]);
                    sent = end;
                    continue;
                }
            };
            buffer.drain(..used);
        }
    }

    #[test]
    fn a_body_is_the_same_in_whatever_parts_it_comes() {
        let chunked = b"5\r\nhello\r\n1;x=y\r\n,\r\na\r\n0123456789\r\n0\r\nx: y\r\n\r\nGET";
        for part in 1..chunked.len() {
            let (found, left) = read(Framing::Chunked, chunked, part).unwrap();
            assert_eq!(found, b"hello,0123456789");
            assert_eq!(left, 3);
            assert_eq!(read(Framing::Length(5), b"helloGET", part), Ok((b"hello".to_vec(), 3)));
        }
        assert_eq!(read(Framing::Length(0), b"GET", 3), Ok((Vec::new(), 3)));
        assert_eq!(read(Framing::Chunked, b"0\r\n\r\nGET", 8), Ok((Vec::new(), 3)));
    }

    #[test]
    fn what_is_no_chunk_is_refused() {
        for bytes in [&b"x\r\n"[..], b"-1\r\n", b"5\r\nhelloX", b"\r\n", b"fffffffffffffffff\r\n"] {
            assert_eq!(read(Framing::Chunked, bytes, bytes.len()), Err(400), "{bytes:?}");
        }
        assert_eq!(read(Framing::Chunked, b"65\r\n", 4), Err(413));
        let endless = [b"0\r\n".to_vec(), vec![b'x'; 10000]].concat();
        assert_eq!(read(Framing::Chunked, &endless, 10003), Err(400));
    }
}
