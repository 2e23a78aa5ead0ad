//! The head of a request: what is read of its bytes, and what is refused. Knows no Python.
//!
//! Refused is whatever two parties could read differently (RFC 9112, 11.2): two lengths, a length beside chunks, chunks that are not the
//! last coding, a second `Host`.

use std::borrow::Cow;
use std::mem::MaybeUninit;

use httparse::{Header, Status};

use crate::body::Framing;

/// The most headers there is room for; a site may allow fewer.
pub(crate) const MOST_HEADERS: usize = 256;

/// Why a request is not served: the status, and whether the request was understood so far that this makes sense.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Refusal(pub(crate) u16);

pub(crate) const BAD: Refusal = Refusal(400);
pub(crate) const TOO_LARGE: Refusal = Refusal(413);
pub(crate) const HEAD_TOO_LARGE: Refusal = Refusal(431);
const NOT_IMPLEMENTED: Refusal = Refusal(501);
const UNKNOWN_VERSION: Refusal = Refusal(505);

/// What a site allows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) head: usize,
    pub(crate) headers: usize,
    pub(crate) body: u64,
}

/// What a head says about its request, beside the texts in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Facts {
    pub(crate) framing: Framing,
    /// HTTP/1.0.
    pub(crate) is_old: bool,
    pub(crate) is_head: bool,
    pub(crate) keep_alive: bool,
    /// The client waits for a word before it sends the body.
    pub(crate) expects: bool,
    pub(crate) upgrade: bool,
}

/// A head, as it stands in the buffer.
#[derive(Debug)]
pub(crate) struct Head<'a> {
    pub(crate) method: &'a str,
    pub(crate) target: &'a str,
    pub(crate) headers: &'a [Header<'a>],
    pub(crate) facts: Facts,
}

/// What reading a head came to.
pub(crate) enum Read<R> {
    /// What was made of it, and how long it is.
    Whole(R, usize),
    /// More is needed.
    Partial,
    Refused(Refusal),
}

/// Reads a head, and shows it.
pub(crate) fn read<R>(bytes: &[u8], limits: &Limits, show: impl FnOnce(&Head<'_>) -> R) -> Read<R> {
    let mut room = [const { MaybeUninit::<Header<'_>>::uninit() }; MOST_HEADERS];
    let most = limits.headers.min(MOST_HEADERS);
    let Some(room) = room.get_mut(..most) else { return Read::Refused(HEAD_TOO_LARGE) };
    let mut request = httparse::Request::new(&mut []);
    let length = match request.parse_with_uninit_headers(bytes, room) {
        Ok(Status::Complete(length)) if length > limits.head => return Read::Refused(HEAD_TOO_LARGE),
        Ok(Status::Complete(length)) => length,
        Ok(Status::Partial) if bytes.len() > limits.head => return Read::Refused(HEAD_TOO_LARGE),
        Ok(Status::Partial) => return Read::Partial,
        Err(httparse::Error::TooManyHeaders) => return Read::Refused(HEAD_TOO_LARGE),
        Err(httparse::Error::Version) => return Read::Refused(UNKNOWN_VERSION),
        Err(_) => return Read::Refused(BAD),
    };
    let (Some(method), Some(target), Some(version)) = (request.method, request.path, request.version) else {
        return Read::Refused(BAD);
    };
    match facts(method, version == 0, request.headers, limits) {
        Ok(facts) => Read::Whole(show(&Head { method, target, headers: request.headers, facts }), length),
        Err(refusal) => Read::Refused(refusal),
    }
}

fn facts(method: &str, is_old: bool, headers: &[Header<'_>], limits: &Limits) -> Result<Facts, Refusal> {
    let mut length = None;
    let mut chunked = false;
    let mut hosts = 0;
    let (mut close, mut keep, mut upgrade_listed, mut websocket, mut expects) =
        (false, false, false, false, false);
    for header in headers {
        let is = |name: &str| header.name.eq_ignore_ascii_case(name);
        if is("content-length") {
            let found = number(header.value).ok_or(BAD)?;
            if length.is_some_and(|length| length != found) {
                return Err(BAD);
            }
            length = Some(found);
        } else if is("transfer-encoding") {
            if chunked || is_old {
                return Err(BAD);
            }
            if !header.value.eq_ignore_ascii_case(b"chunked") {
                return Err(if ends_chunked(header.value) { NOT_IMPLEMENTED } else { BAD });
            }
            chunked = true;
        } else if is("host") {
            hosts += 1;
        } else if is("connection") {
            for token in tokens(header.value) {
                close |= token.eq_ignore_ascii_case(b"close");
                keep |= token.eq_ignore_ascii_case(b"keep-alive");
                upgrade_listed |= token.eq_ignore_ascii_case(b"upgrade");
            }
        } else if is("upgrade") {
            websocket |= tokens(header.value).any(|token| token.eq_ignore_ascii_case(b"websocket"));
        } else if is("expect") {
            expects |= header.value.eq_ignore_ascii_case(b"100-continue");
        }
    }
    if hosts > 1 || (hosts == 0 && !is_old) || (chunked && length.is_some()) {
        return Err(BAD);
    }
    let framing = match length {
        _ if chunked => Framing::Chunked,
        Some(length) if length > limits.body => return Err(TOO_LARGE),
        Some(length) => Framing::Length(length),
        None => Framing::Length(0),
    };
    Ok(Facts {
        framing,
        is_old,
        is_head: method == "HEAD",
        keep_alive: !close && (keep || !is_old),
        expects: expects && !is_old,
        upgrade: upgrade_listed && websocket && !is_old,
    })
}

/// Digits and nothing else: `+1` and ` 1 ` are numbers to some.
fn number(text: &[u8]) -> Option<u64> {
    if text.is_empty() || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}

fn ends_chunked(value: &[u8]) -> bool {
    tokens(value).last().is_some_and(|token| token.eq_ignore_ascii_case(b"chunked"))
}

/// The members of a list (RFC 9110, 5.6.1).
pub(crate) fn tokens(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii).filter(|token| !token.is_empty())
}

/// The path and the query of a target, as they were sent (RFC 9112, 3.2).
pub(crate) fn split_target(target: &str) -> (&str, &str) {
    let origin = match target.split_once("://") {
        // The absolute form; a path may well have such a thing inside.
        Some((scheme, rest)) if !scheme.contains('/') => {
            rest.find('/').and_then(|at| rest.get(at..)).unwrap_or("/")
        }
        _ => target,
    };
    let whole = origin.split_once('#').map_or(origin, |(before, _)| before);
    whole.split_once('?').unwrap_or((whole, ""))
}

/// A path with its percent signs decoded; what is no text is replaced.
pub(crate) fn decoded(path: &str) -> Cow<'_, str> {
    if !path.contains('%') {
        return Cow::Borrowed(path);
    }
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let [first, more @ ..] = rest {
        rest = more;
        if *first == b'%'
            && let [high, low, after @ ..] = more
            && let (Some(high), Some(low)) = (digit(*high), digit(*low))
        {
            bytes.push(high * 16 + low);
            rest = after;
        } else {
            bytes.push(*first);
        }
    }
    Cow::Owned(String::from_utf8_lossy(&bytes).into_owned())
}

fn digit(char: u8) -> Option<u8> {
    char::from(char).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { head: 1000, headers: 10, body: 100 };

    fn facts_of(bytes: &str) -> Result<Option<Facts>, u16> {
        match read(bytes.as_bytes(), &LIMITS, |head| head.facts) {
            Read::Whole(facts, length) => {
                assert_eq!(length, bytes.len());
                Ok(Some(facts))
            }
            Read::Partial => Ok(None),
            Read::Refused(Refusal(status)) => Err(status),
        }
    }

    fn with(headers: &str) -> Result<Option<Facts>, u16> {
        facts_of(&format!("POST / HTTP/1.1\r\nhost: a\r\n{headers}\r\n"))
    }

    #[test]
    fn every_part_of_a_head_is_waited_for() {
        let head = "GET /a HTTP/1.1\r\nHost: a\r\n\r\n";
        for end in 0..head.len() {
            assert_eq!(facts_of(&head[..end]), Ok(None), "{end}");
        }
        assert!(facts_of(head).unwrap().unwrap().keep_alive);
    }

    #[test]
    fn what_two_parties_could_read_differently_is_refused() {
        for headers in [
            "content-length: 1\r\ncontent-length: 2\r\n",
            "content-length: 1\r\ntransfer-encoding: chunked\r\n",
            "content-length: +1\r\n",
            "content-length: 1, 1\r\n",
            "content-length: \r\n",
            "content-length: 99999999999999999999\r\n",
            "transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n",
            "transfer-encoding: chunked, gzip\r\n",
            "host: b\r\n",
            "a b: c\r\n",
            " folded: x\r\n",
        ] {
            assert_eq!(with(headers), Err(400), "{headers}");
        }
        assert_eq!(with("transfer-encoding: gzip, chunked\r\n"), Err(501));
        assert_eq!(facts_of("GET / HTTP/1.1\r\n\r\n"), Err(400));
        assert_eq!(facts_of("POST / HTTP/1.0\r\ntransfer-encoding: chunked\r\n\r\n"), Err(400));
        assert_eq!(facts_of("nonsense\r\n\r\n"), Err(400));
        assert_eq!(
            with("content-length: 1\r\ncontent-length: 1\r\n").unwrap().unwrap().framing,
            Framing::Length(1)
        );
    }

    #[test]
    fn limits_hold() {
        assert_eq!(with("content-length: 101\r\n"), Err(413));
        assert_eq!(with(&"a: b\r\n".repeat(10)), Err(431));
        assert_eq!(with(&format!("a: {}\r\n", "x".repeat(1000))), Err(431));
        assert_eq!(facts_of(&"x".repeat(1001)), Err(431));
    }

    #[test]
    fn a_connection_is_kept_as_its_version_says() {
        assert!(with("").unwrap().unwrap().keep_alive);
        assert!(!with("connection: Close\r\n").unwrap().unwrap().keep_alive);
        assert!(!facts_of("GET / HTTP/1.0\r\n\r\n").unwrap().unwrap().keep_alive);
        assert!(facts_of("GET / HTTP/1.0\r\nconnection: keep-alive\r\n\r\n").unwrap().unwrap().keep_alive);
        assert!(with("connection: keep-alive, Upgrade\r\nupgrade: WebSocket\r\n").unwrap().unwrap().upgrade);
        assert!(with("expect: 100-Continue\r\n").unwrap().unwrap().expects);
    }

    #[test]
    fn a_target_is_a_path_and_a_query() {
        for (target, path, query) in [
            ("/a?b?c", "/a", "b?c"),
            ("/a#x", "/a", ""),
            ("*", "*", ""),
            ("http://host/a?b", "/a", "b"),
            ("http://host", "/", ""),
            ("/a://b", "/a://b", ""),
        ] {
            assert_eq!(split_target(target), (path, query), "{target}");
        }
    }

    #[test]
    fn a_path_is_decoded() {
        assert_eq!(decoded("/a%20b%2F%c3%A9"), "/a b/é");
        assert_eq!(decoded("/%zz%4%"), "/%zz%4%");
        assert_eq!(decoded("/%ff"), "/\u{fffd}");
    }
}
