//! What is sent: windows into one block of pseudo-random bytes, so that consecutive messages differ without being
//! made or copied, and what comes back can be compared in place.

const STEPS: usize = 251;

pub(crate) struct Messages {
    block: Vec<u8>,
    size: usize,
}

impl Messages {
    pub(crate) fn new(size: usize) -> Messages {
        let mut state = 0x9E37_79B9_7F4A_7C15_u64;
        let block = (0..size + STEPS)
            .map(|_| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                state.to_le_bytes()[0]
            })
            .collect();
        Messages { block, size }
    }

    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// Message number `index` from byte `from` on; empty when all of it is behind.
    pub(crate) fn rest(&self, index: u64, from: usize) -> &[u8] {
        let start = usize::try_from(index % STEPS as u64).unwrap_or(0);
        self.block.get(start + from..start + self.size).unwrap_or_default()
    }

    /// Whether `got` are the bytes of message `index` that follow its first `from`.
    pub(crate) fn matches(&self, index: u64, from: usize, got: &[u8]) -> bool {
        self.rest(index, from).get(..got.len()) == Some(got)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_matches_itself_in_any_pieces() {
        let messages = Messages::new(1000);
        let all = messages.rest(7, 0).to_vec();
        assert_eq!(all.len(), 1000);
        assert!(messages.matches(7, 0, &all[..300]));
        assert!(messages.matches(7, 300, &all[300..]));
        assert!(messages.rest(7, 1000).is_empty());
    }

    #[test]
    fn the_next_message_and_surplus_bytes_do_not_match() {
        let messages = Messages::new(100);
        let mut all = messages.rest(1, 0).to_vec();
        assert!(!messages.matches(2, 0, &all));
        all.push(0);
        assert!(!messages.matches(1, 0, &all));
    }
}
