//! `Scratch`: the buffer that the transports of a loop share. The loop's thread only.

use std::mem::MaybeUninit;

use super::LARGEST;

/// Buffers that the kernel copies to begin with a page.
///
/// It copies with `rep movsb`, from pages that messages as a rule begin at the start of. If the destination lies up to 31 bytes
/// further into its page than the source, AMD's cores from Zen 3 on take five times as long for it: 100 KiB in 44 instead of 9 µs.
/// And 16 bytes into a page is just where malloc(3) puts large blocks.
pub(crate) const PAGE: usize = 4096;

/// The buffer that the transports of a loop share.
#[derive(Default)]
pub(crate) struct Scratch {
    block: Vec<u8>,
    /// How much the last `sock_recv` brought: what the next one may bring.
    pub(crate) received: usize,
}

pyrt::confined!(Scratch { block, received });

impl Scratch {
    /// Room for the largest read. What is in it is left over from others.
    #[inline]
    pub(crate) fn room(&mut self) -> &mut [MaybeUninit<u8>] {
        self.block.reserve_exact(LARGEST + PAGE);
        let spare = self.block.spare_capacity_mut();
        let start = spare.as_ptr().align_offset(PAGE);
        spare.get_mut(start..).and_then(|aligned| aligned.get_mut(..LARGEST)).unwrap_or_default()
    }
}
