//! The bytes of a response: its head, its chunks, and how its end is marked. Knows no Python.

use std::io::Write as _;

/// How the client finds the end of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// After so many more bytes.
    Length(u64),
    Chunked,
    /// With the connection.
    Close,
    /// There is no body, whatever the app sends: to `HEAD`, 204 and 304.
    Bodiless,
}

/// A head in the making.
#[derive(Debug)]
pub(crate) struct Start {
    bytes: Vec<u8>,
    length: Option<u64>,
    chunked: bool,
    has_date: bool,
    has_server: bool,
    /// The app wants the connection closed.
    pub(crate) closes: bool,
    bodiless: bool,
    upgrades: bool,
}

/// Why a header is not one.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NoHeader;

impl Start {
    pub(crate) fn new(status: u16, to_head: bool) -> Self {
        let mut bytes = Vec::with_capacity(256);
        if status == 200 {
            bytes.extend_from_slice(b"HTTP/1.1 200 OK\r\n");
        } else {
            let _written = write!(bytes, "HTTP/1.1 {status} {}\r\n", phrase(status));
        }
        Self {
            bytes,
            length: None,
            chunked: false,
            has_date: false,
            has_server: false,
            closes: false,
            upgrades: false,
            bodiless: to_head || matches!(status, 204 | 304) || status < 200,
        }
    }

    pub(crate) fn header(&mut self, name: &[u8], value: &[u8]) -> Result<(), NoHeader> {
        if name.is_empty()
            || !name.iter().all(|&byte| is_token(byte))
            || value.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0))
        {
            return Err(NoHeader);
        }
        let is = |known: &[u8]| name.eq_ignore_ascii_case(known);
        match name.len() {
            4 if is(b"date") => self.has_date = true,
            6 if is(b"server") => self.has_server = true,
            10 if is(b"connection") => {
                let mut tokens = crate::head::tokens(value);
                self.closes |= tokens.any(|token| token.eq_ignore_ascii_case(b"close"));
                // What it says is said by the server.
                return Ok(());
            }
            14 if is(b"content-length") => {
                let length =
                    std::str::from_utf8(value).ok().and_then(|text| text.parse().ok()).ok_or(NoHeader)?;
                if self.length.is_some_and(|before| before != length) {
                    return Err(NoHeader);
                }
                self.length = Some(length);
            }
            17 if is(b"transfer-encoding") => {
                // How it is sent is the server's affair.
                self.chunked = true;
                return Ok(());
            }
            _ => {}
        }
        self.line(name, value);
        Ok(())
    }

    /// The connection becomes a WebSocket.
    pub(crate) fn upgrades(&mut self) {
        self.upgrades = true;
    }

    fn line(&mut self, name: &[u8], value: &[u8]) {
        for part in [name, b": ", value, b"\r\n"] {
            self.bytes.extend_from_slice(part);
        }
    }

    /// The head, followed by the first piece; with the length of a response that is all there.
    pub(crate) fn finish(
        mut self,
        whole: Option<usize>,
        is_old: bool,
        keep_alive: bool,
        date: &[u8],
    ) -> (Vec<u8>, Ending) {
        let ending = match (self.length, whole) {
            _ if self.bodiless => Ending::Bodiless,
            (Some(length), _) if !self.chunked => Ending::Length(length),
            (_, Some(length)) => {
                let mut text = Vec::with_capacity(20);
                let _written = write!(text, "{length}");
                self.line(b"content-length", &text);
                Ending::Length(length as u64)
            }
            (_, None) if is_old => Ending::Close,
            (_, None) => {
                self.line(b"transfer-encoding", b"chunked");
                Ending::Chunked
            }
        };
        if !self.has_date {
            self.line(b"date", date);
        }
        if !self.has_server {
            self.line(b"server", b"erlang_python");
        }
        if self.upgrades {
            self.line(b"connection", b"upgrade");
        } else if !keep_alive || self.closes || ending == Ending::Close {
            self.line(b"connection", b"close");
        } else if is_old {
            self.line(b"connection", b"keep-alive");
        }
        self.bytes.extend_from_slice(b"\r\n");
        (self.bytes, ending)
    }
}

/// Characters of names (RFC 9110, 5.6.2).
fn is_token(byte: u8) -> bool {
    matches!(byte, b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'!' | b'#'..=b'\'' | b'*' | b'+' | b'-' | b'.' | b'^'..=b'`' | b'|' | b'~')
}

/// A piece as a chunk.
pub(crate) fn chunk(into: &mut Vec<u8>, piece: &[u8]) {
    if piece.is_empty() {
        return;
    }
    let _written = write!(into, "{:x}\r\n", piece.len());
    into.extend_from_slice(piece);
    into.extend_from_slice(b"\r\n");
}

pub(crate) const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// A response of the server's own, after which the connection is closed.
pub(crate) fn plain(status: u16, to_head: bool, more: &[(&str, &str)], date: &[u8]) -> Vec<u8> {
    let text = phrase(status);
    let mut start = Start::new(status, to_head);
    start.line(b"content-type", b"text/plain; charset=utf-8");
    for (name, value) in more {
        start.line(name.as_bytes(), value.as_bytes());
    }
    let (mut bytes, _) = start.finish(Some(text.len()), false, false, date);
    if !to_head {
        bytes.extend_from_slice(text.as_bytes());
    }
    bytes
}

/// The days of civil time, after Howard Hinnant's `civil_from_days`.
pub(crate) fn date(seconds: u64) -> Vec<u8> {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let (days, rest) = (seconds / 86400, seconds % 86400);
    let era_days = days + 719_468;
    let era = era_days / 146_097;
    let day_of_era = era_days % 146_097;
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let weekday = DAYS.get((days % 7) as usize).copied().unwrap_or_default();
    let name = MONTHS.get(month as usize - 1).copied().unwrap_or_default();
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    format!("{weekday}, {day:02} {name} {year} {hour:02}:{minute:02}:{second:02} GMT").into_bytes()
}

/// The words for a status (RFC 9110, 15).
pub(crate) fn phrase(status: u16) -> &'static str {
    match status {
        100 => "Continue",
        101 => "Switching Protocols",
        200 => "OK",
        201 => "Created",
        202 => "Accepted",
        203 => "Non-Authoritative Information",
        204 => "No Content",
        205 => "Reset Content",
        206 => "Partial Content",
        300 => "Multiple Choices",
        301 => "Moved Permanently",
        302 => "Found",
        303 => "See Other",
        304 => "Not Modified",
        307 => "Temporary Redirect",
        308 => "Permanent Redirect",
        400 => "Bad Request",
        401 => "Unauthorized",
        402 => "Payment Required",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        406 => "Not Acceptable",
        407 => "Proxy Authentication Required",
        408 => "Request Timeout",
        409 => "Conflict",
        410 => "Gone",
        411 => "Length Required",
        412 => "Precondition Failed",
        413 => "Content Too Large",
        414 => "URI Too Long",
        415 => "Unsupported Media Type",
        416 => "Range Not Satisfiable",
        417 => "Expectation Failed",
        421 => "Misdirected Request",
        422 => "Unprocessable Content",
        426 => "Upgrade Required",
        428 => "Precondition Required",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        451 => "Unavailable For Legal Reasons",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        505 => "HTTP Version Not Supported",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_date_is_written_as_http_has_it() {
        assert_eq!(date(784_111_777), b"Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(date(951_826_215), b"Tue, 29 Feb 2000 12:10:15 GMT");
        assert_eq!(date(0), b"Thu, 01 Jan 1970 00:00:00 GMT");
    }

    #[test]
    fn the_end_of_a_response_is_marked() {
        let ending = |headers: &[(&str, &str)], status, to_head, whole, is_old| {
            let mut start = Start::new(status, to_head);
            for (name, value) in headers {
                start.header(name.as_bytes(), value.as_bytes()).unwrap();
            }
            let (bytes, ending) = start.finish(whole, is_old, true, b"now");
            (String::from_utf8(bytes).unwrap(), ending)
        };
        let (head, end) = ending(&[], 200, false, Some(3), false);
        assert_eq!(end, Ending::Length(3));
        assert_eq!(
            head,
            "HTTP/1.1 200 OK\r\ncontent-length: 3\r\ndate: now\r\nserver: erlang_python\r\n\r\n"
        );
        assert_eq!(ending(&[], 200, false, None, false).1, Ending::Chunked);
        assert_eq!(ending(&[], 200, false, None, true).1, Ending::Close);
        assert_eq!(ending(&[("content-length", "7")], 200, false, None, false).1, Ending::Length(7));
        assert_eq!(ending(&[], 304, false, Some(0), false).1, Ending::Bodiless);
        assert_eq!(ending(&[("content-length", "7")], 200, true, Some(0), false).1, Ending::Bodiless);
        assert!(
            ending(&[("connection", "Close")], 200, false, Some(0), false).0.contains("connection: close")
        );
    }

    #[test]
    fn the_characters_of_names_are_those_of_the_standard() {
        let found: Vec<u8> = (0..=255).filter(|&byte| is_token(byte)).collect();
        let mut expected = b"!#$%&'*+-.^_`|~".to_vec();
        expected.extend((b'0'..=b'9').chain(b'a'..=b'z').chain(b'A'..=b'Z'));
        expected.sort_unstable();
        assert_eq!(found, expected);
    }

    #[test]
    fn what_is_no_header_is_refused() {
        for (name, value) in
            [("", "a"), ("a b", "c"), ("a:", "c"), ("a", "b\r\nc: d"), ("content-length", "x")]
        {
            assert_eq!(Start::new(200, false).header(name.as_bytes(), value.as_bytes()), Err(NoHeader));
        }
    }
}
