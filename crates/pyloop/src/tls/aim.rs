//! `Aim`: a buffer that is somewhere else, each time it is used. By it an SSL object decrypts straight into the `bytes` that an
//! application gets.

use std::ffi::CStr;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering::Relaxed};

use pyrt::{Attached, Borrowed, Class, Instance, Room, Traverse, TypeSlot, confined};

/// Points to memory of somebody else. No program ever gets hold of one: it is handed to the native SSL object alone, which has
/// given the buffer back when it returns.
pub(crate) struct Aim {
    start: AtomicPtr<u8>,
    size: AtomicUsize,
}

confined!(Aim { start, size });

impl Default for Aim {
    fn default() -> Self {
        Self { start: AtomicPtr::new(null_mut()), size: AtomicUsize::new(0) }
    }
}

impl Traverse for Aim {}

impl Aim {
    /// Calls `f` with this as the buffer of what is left of some room, beginning at `filled`.
    #[inline]
    pub(super) fn at<R>(
        this: Instance<'_, Self>,
        room: &mut Room,
        filled: usize,
        f: impl FnOnce(Borrowed<'_>) -> R,
    ) -> R {
        let rest = room.space().get_mut(filled..).unwrap_or_default();
        this.start.store(rest.as_mut_ptr().cast(), Relaxed);
        this.size.store(rest.len(), Relaxed);
        let _end = End(this.payload());
        f(this.object())
    }
}

/// It points to nothing afterwards, whatever happens.
struct End<'a>(&'a Aim);

impl Drop for End<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.size.store(0, Relaxed);
    }
}

impl Class for Aim {
    const NAME: &'static CStr = c"erlang._native.Aim";
    const DOC: &'static CStr = c"A buffer that is somewhere else each time.";
    const GC: bool = false;
    const CHAINS: bool = false;
    const SLOTS: &'static [TypeSlot<Self>] = &[
        // SAFETY: in place until `at` returns, by when the only one who ever asks for the buffer has given it back; Rust has no
        // reference to the memory meanwhile.
        unsafe {
            TypeSlot::<Self>::buffer_mut(|_py: Attached<'_>, this| {
                Ok((this.start.load(Relaxed), this.size.load(Relaxed)))
            })
        },
    ];
}
