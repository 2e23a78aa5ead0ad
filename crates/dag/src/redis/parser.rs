//! `Parser`: replies out of bytes that come in pieces. Goes on where it stopped; what is nested is kept on a stack of its
//! own, of limited depth. RESP2 and RESP3 in one: no prefix means two things.

use super::Error;
use super::value::Value;

/// How deep replies may be nested.
const DEEPEST: usize = 128;
/// The longest line: of a status, an error, a number.
const LONGEST_LINE: usize = 1 << 20;
/// The longest string; Redis's own limit.
const LONGEST_STRING: i64 = 512 << 20;
/// How much is read at once, at least.
const READ: usize = 16 << 10;

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Array,
    Map,
    Set,
    Push,
    /// Said about the value that follows, which counts in its place.
    Attribute,
}

/// A collection of which some items are missing.
struct Open {
    kind: Kind,
    missing: usize,
    items: Vec<Value>,
}

/// What the next bytes are.
enum Piece {
    Value(Value),
    Open(Kind, usize),
}

/// Takes bytes and gives replies.
#[derive(Default)]
pub struct Parser {
    buffer: Vec<u8>,
    /// What of the buffer has been dealt with, and what has been filled.
    begin: usize,
    end: usize,
    open: Vec<Open>,
}

impl std::fmt::Debug for Parser {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let unread = self.end - self.begin;
        f.debug_struct("Parser").field("unread", &unread).field("open", &self.open.len()).finish()
    }
}

impl Parser {
    /// Room for the next bytes; as many as were put there are then told by `filled`.
    pub fn space(&mut self) -> &mut [u8] {
        if self.begin == self.end {
            (self.begin, self.end) = (0, 0);
        } else if self.buffer.len() - self.end < READ {
            self.buffer.copy_within(self.begin..self.end, 0);
            (self.begin, self.end) = (0, self.end - self.begin);
        }
        if self.buffer.len() - self.end < READ {
            // As much again: a long string is then moved a few times only.
            self.buffer.resize((self.buffer.len() * 2).max(self.end + 2 * READ), 0);
        }
        self.buffer.get_mut(self.end..).unwrap_or_default()
    }

    /// So many bytes are there.
    pub fn filled(&mut self, bytes: usize) {
        self.end = (self.end + bytes).min(self.buffer.len());
    }

    /// The next reply, if it is there as a whole. After an error there is none.
    pub fn reply(&mut self) -> Result<Option<Value>, Error> {
        while let Some((piece, length)) = self.piece()? {
            self.begin += length;
            let mut value = match piece {
                Piece::Open(kind, missing) => {
                    if self.open.len() >= DEEPEST {
                        return Err(Error::Protocol("nested too deep"));
                    }
                    // A length is only a promise.
                    self.open.push(Open { kind, missing, items: Vec::with_capacity(missing.min(1024)) });
                    None
                }
                Piece::Value(value) => Some(value),
            };
            loop {
                match (self.open.last_mut(), value.take()) {
                    (None, Some(value)) => return Ok(Some(value)),
                    (Some(open), Some(item)) => {
                        open.items.push(item);
                        open.missing -= 1;
                    }
                    _ => {}
                }
                if self.open.last().is_none_or(|open| open.missing > 0) {
                    break;
                }
                value = self.open.pop().and_then(closed);
            }
        }
        Ok(None)
    }

    /// What comes next and how long it is, if it is there.
    fn piece(&self) -> Result<Option<(Piece, usize)>, Error> {
        let unread = self.buffer.get(self.begin..self.end).unwrap_or_default();
        let Some(newline) = unread.iter().position(|byte| *byte == b'\n') else {
            let endless = unread.len() > LONGEST_LINE;
            return if endless { Err(Error::Protocol("a line without an end")) } else { Ok(None) };
        };
        let Some(([prefix, line @ ..], b'\r')) = unread.get(..newline).and_then(|line| {
            let (last, line) = line.split_last()?;
            Some((line, *last))
        }) else {
            return Err(Error::Protocol("a line that does not end as it should"));
        };
        let length = newline + 1;
        let value = match prefix {
            b'+' => Value::Status(text(line)),
            b'-' => Value::Error(text(line)),
            b':' => Value::Int(integer(line)?),
            b'_' => Value::Nil,
            b'#' => Value::Bool(line == b"t"),
            b'(' => Value::Big(text(line)),
            b',' => Value::Double(double(line)?),
            b'$' | b'=' | b'!' => {
                let size = match integer(line)? {
                    -1 => return Ok(Some((Piece::Value(Value::Nil), length))),
                    size @ 0..=LONGEST_STRING => size as usize,
                    _ => return Err(Error::Protocol("a string of an impossible length")),
                };
                let Some(bytes) = unread.get(length..length + size + 2) else { return Ok(None) };
                let Some(bytes) = bytes.strip_suffix(b"\r\n") else {
                    return Err(Error::Protocol("a string that does not end where it should"));
                };
                return Ok(Some((Piece::Value(string(*prefix, bytes)?), length + size + 2)));
            }
            b'*' | b'~' | b'>' | b'%' | b'|' => {
                let count = match integer(line)? {
                    -1 => return Ok(Some((Piece::Value(Value::Nil), length))),
                    count @ 0..=0x7fff_ffff => count as usize,
                    _ => return Err(Error::Protocol("a collection of an impossible length")),
                };
                let (kind, count) = match prefix {
                    b'~' => (Kind::Set, count),
                    b'>' => (Kind::Push, count),
                    b'%' => (Kind::Map, count * 2),
                    b'|' => (Kind::Attribute, count * 2),
                    _ => (Kind::Array, count),
                };
                return Ok(Some((Piece::Open(kind, count), length)));
            }
            _ => return Err(Error::Protocol("an unknown kind of reply")),
        };
        Ok(Some((Piece::Value(value), length)))
    }
}

/// The value of a collection that is complete; an attribute has none.
fn closed(open: Open) -> Option<Value> {
    Some(match open.kind {
        Kind::Array => Value::Array(open.items),
        Kind::Set => Value::Set(open.items),
        Kind::Push => Value::Push(open.items),
        Kind::Map => {
            let mut items = open.items.into_iter();
            let mut pairs = Vec::with_capacity(items.len() / 2);
            while let (Some(key), Some(value)) = (items.next(), items.next()) {
                pairs.push((key, value));
            }
            Value::Map(pairs)
        }
        Kind::Attribute => return None,
    })
}

fn string(prefix: u8, bytes: &[u8]) -> Result<Value, Error> {
    Ok(match prefix {
        b'!' => Value::Error(text(bytes)),
        b'=' => match bytes.split_first_chunk::<4>() {
            Some(([format @ .., b':'], bytes)) => Value::Verbatim(text(format), bytes.to_vec()),
            _ => return Err(Error::Protocol("a text without a format")),
        },
        _ => Value::Bytes(bytes.to_vec()),
    })
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn integer(line: &[u8]) -> Result<i64, Error> {
    // Most are short and positive.
    if !line.is_empty() && line.len() < 18 && line.iter().all(u8::is_ascii_digit) {
        return Ok(line.iter().fold(0, |number, digit| number * 10 + i64::from(digit - b'0')));
    }
    let parsed = std::str::from_utf8(line).ok().and_then(|line| line.parse().ok());
    parsed.ok_or(Error::Protocol("not a number"))
}

fn double(line: &[u8]) -> Result<f64, Error> {
    let parsed = std::str::from_utf8(line).ok().and_then(|line| line.parse().ok());
    parsed.ok_or(Error::Protocol("not a number"))
}
