//! `Framing`: where TLS records end in the bytes that came over the wire. Plain data, no Python.
//!
//! A record is five bytes of header (type, version, length) and its body, in every version from SSL 3.0 to TLS 1.3 (RFC 8446,
//! section 5.1). An SSL object that is asked to read with less than a whole record at hand says so with an exception; who
//! knows the ends of records need not ask.

use pyrt::confined;

const HEADER: usize = 5;
/// The largest body a peer may send: RFC 8446 allows 2^14 + 256, older versions 2^14 + 2048.
const LARGEST: usize = (1 << 14) + 2048;

/// Follows the records of one direction of a connection.
#[derive(Debug, Default)]
pub(crate) struct Framing {
    header: [u8; HEADER],
    /// How much of the header of the current record is there.
    seen: usize,
    /// How large its body is, and how much of that is missing.
    body: usize,
    left: usize,
    /// How much of an incomplete record has come so far.
    tail: usize,
    /// How many complete records nobody has read yet, at most: some are read along with others.
    unread: usize,
    /// The bodies of these, and of those that were read since there was none.
    bodies: usize,
    /// What came is no TLS, or nobody shall rely on the ends of records.
    lost: bool,
}

confined!(Framing { header, seen, body, left, tail, unread, bodies, lost });

impl Framing {
    /// One that claims to know nothing.
    pub(crate) fn lost() -> Self {
        Self { lost: true, ..Self::default() }
    }

    /// Follows what has come. Whether at least one record is complete now that was not before.
    pub(crate) fn feed(&mut self, mut data: &[u8]) -> bool {
        let mut completed = self.lost;
        while !self.lost && !data.is_empty() {
            if self.left == 0 {
                let (taken, rest) = data.split_at(data.len().min(HEADER - self.seen));
                for (place, byte) in self.header.iter_mut().skip(self.seen).zip(taken) {
                    *place = *byte;
                }
                self.seen += taken.len();
                self.tail += taken.len();
                data = rest;
                if self.seen < HEADER {
                    break;
                }
                let [kind, major, _, high, low] = self.header;
                self.left = usize::from(u16::from_be_bytes([high, low]));
                if !(20..=24).contains(&kind) || major != 3 || self.left > LARGEST {
                    self.lost = true;
                    return true;
                }
                self.body = self.left;
            } else {
                let taken = self.left.min(data.len());
                self.left -= taken;
                self.tail += taken;
                data = data.get(taken..).unwrap_or_default();
            }
            if self.left == 0 {
                completed = true;
                if self.unread == 0 {
                    self.bodies = 0;
                }
                self.unread += 1;
                self.bodies += self.body;
                self.seen = 0;
                self.tail = 0;
            }
        }
        completed
    }

    /// One record was read to its end. Whether there may be another complete one.
    #[inline]
    pub(crate) fn read_one(&mut self) -> bool {
        self.unread = self.unread.saturating_sub(1);
        self.lost || self.unread > 0
    }

    /// How many bytes the complete records decrypt to at most, if there are any.
    #[inline]
    pub(crate) fn expected(&self) -> Option<usize> {
        (self.unread > 0 && !self.lost && self.bodies > 0).then_some(self.bodies)
    }

    /// Whether some of `pending` bytes that nobody has read yet belong to a record that is complete.
    pub(crate) fn is_complete(&mut self, pending: usize) -> bool {
        if self.lost {
            return true;
        }
        if pending <= self.tail {
            self.unread = 0;
        }
        pending > self.tail
    }
}

#[cfg(test)]
mod tests {
    use super::Framing;

    fn record(kind: u8, size: u16) -> Vec<u8> {
        let [high, low] = size.to_be_bytes();
        let mut bytes = vec![kind, 3, 3, high, low];
        bytes.resize(5 + usize::from(size), 0);
        bytes
    }

    #[test]
    fn a_whole_record_is_complete_and_leaves_no_tail() {
        let mut framing = Framing::default();
        assert!(framing.feed(&record(23, 100)));
        assert!(framing.is_complete(105));
        assert!(!framing.is_complete(0));
    }

    #[test]
    fn any_split_gives_the_same_answer_as_one_piece() {
        let bytes = [record(22, 0), record(23, 1), record(23, 16384)].concat();
        for split in 0..bytes.len() {
            let (before, after) = bytes.split_at(split);
            let mut framing = Framing::default();
            let first = framing.feed(before);
            assert_eq!(first, split >= 5, "split at {split}");
            let tail = split - [0, 5, 11].into_iter().rev().find(|end| *end <= split).unwrap_or(0);
            assert!(!framing.is_complete(tail), "split at {split}");
            assert!(framing.is_complete(tail + 1), "split at {split}");
            assert!(framing.feed(after));
            assert!(!framing.is_complete(0));
        }
    }

    #[test]
    fn records_are_read_one_by_one_or_several_at_once() {
        let mut framing = Framing::default();
        assert!(framing.feed(&[record(23, 9), record(22, 9), record(23, 9)].concat()));
        assert!(framing.read_one());
        // The second read takes two of them, so that nothing is left.
        assert!(framing.read_one());
        assert!(!framing.is_complete(0));
        assert!(framing.feed(&record(23, 9)));
        assert!(!framing.read_one());
    }

    #[test]
    fn what_records_decrypt_to_is_never_more_than_expected() {
        let mut framing = Framing::default();
        assert_eq!(framing.expected(), None);
        framing.feed(&record(23, 9));
        assert_eq!(framing.expected(), Some(9));
        // The beginning of another one does not count, its end does.
        let second = record(23, 70);
        let (start, end) = second.split_at(30);
        framing.feed(start);
        assert_eq!(framing.expected(), Some(9));
        framing.feed(end);
        assert_eq!(framing.expected(), Some(79));
        // Which of them was read is not known.
        framing.read_one();
        assert_eq!(framing.expected(), Some(79));
        framing.read_one();
        assert_eq!(framing.expected(), None);
        framing.feed(&record(23, 0));
        assert_eq!(framing.expected(), None);
    }

    #[test]
    fn byte_by_byte_only_the_last_one_completes() {
        let mut framing = Framing::default();
        let bytes = record(23, 7);
        for (index, byte) in bytes.iter().enumerate() {
            assert_eq!(framing.feed(&[*byte]), index + 1 == bytes.len());
        }
    }

    #[test]
    fn what_is_no_tls_is_always_worth_a_read() {
        for bytes in [&b"GET / HTTP/1.1"[..], &[23, 2, 0, 0, 1], &[23, 3, 3, 0xff, 0xff]] {
            let mut framing = Framing::default();
            assert!(framing.feed(bytes));
            assert!(framing.is_complete(0));
            assert!(framing.feed(b"x"));
            assert_eq!(framing.expected(), None);
        }
        assert!(Framing::lost().is_complete(0));
    }
}
