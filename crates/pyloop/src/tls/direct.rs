//! `Direct`: the `SSL` of an SSL object, called without that object in between. Attached threads only.
//!
//! A call of the object's own method takes a tuple, the parsing of it and the GIL given up and taken again: as long as it takes
//! to decrypt a kilobyte. What the method adds is what others may see of it, so it is left out only where they cannot:
//!
//! - Nobody else has the object. The GIL is kept meanwhile, and a thread that is in a method of the object without it holds a
//!   reference, which is counted. Without a GIL counts tell nothing, and nothing is done here.
//! - OpenSSL calls no Python meanwhile, as far as the context says.
//! - The call succeeds. One that does not is left to the method, which asks OpenSSL again: that gives the same answer until
//!   something has come, or after a fatal error ever after, with its reason still in the queue of the thread (SSL_get_error(3)).

use std::mem::MaybeUninit;

use pyrt::{Attached, Fixed, HAS_GIL, Obj, Traverse, Visit, Visited};

use super::openssl::{OpenSsl, Ssl};

/// The most that is encrypted while others wait for the GIL.
const MOST: usize = 128 * 1024;

/// Who has the SSL object: the engine, and what the transport tells of the connection.
const HOLDERS: isize = 2;
/// Who has the native object in it: that object, the engine's four methods of it, and `Direct`.
const INNER_HOLDERS: isize = 6;

/// Kept by the engine, beside the SSL object.
pub(super) struct Direct {
    openssl: &'static OpenSsl,
    ssl: Ssl,
    /// Keeps the `SSL`.
    inner: Fixed,
}

// SAFETY: a reference, and an address that is used by attached threads only.
unsafe impl pyrt::Confined for Direct {}
// SAFETY: used only where there is a GIL, by the thread that has it.
unsafe impl Sync for Direct {}

impl Traverse for Direct {
    fn traverse(&self, visit: &mut Visit<'_>) -> Visited {
        self.inner.traverse(visit)
    }
}

impl Direct {
    /// # Safety
    /// The `SSL` is that of `inner`, which keeps it as long as it lives itself.
    pub(super) unsafe fn new(openssl: &'static OpenSsl, ssl: Ssl, inner: Fixed) -> Self {
        Self { openssl, ssl, inner }
    }

    /// Nobody but the engine, whose `object` it is, can be using the `SSL`.
    #[inline]
    pub(super) fn is_unseen(&self, py: Attached<'_>, object: &Obj) -> bool {
        HAS_GIL && object.refcount(py) <= HOLDERS && self.inner.refcount(py) <= INNER_HOLDERS
    }

    /// Decrypts, some of a record at most. Nothing if the object is to be asked.
    #[inline]
    pub(super) fn read(&self, py: Attached<'_>, object: &Obj, room: &mut [MaybeUninit<u8>]) -> Option<usize> {
        if room.is_empty() || !self.is_unseen(py, object) {
            return None;
        }
        let mut count = 0;
        // SAFETY: alive, as `inner` is, and used by nobody else; room for so many bytes, of which `count` are written.
        let read = unsafe {
            (self.openssl.ssl_read)(self.ssl.as_ptr(), room.as_mut_ptr().cast(), room.len(), &mut count)
        };
        (read == 1).then_some(count)
    }

    /// Encrypts all of it. Nothing if the object is to be asked.
    #[inline]
    pub(super) fn write(&self, py: Attached<'_>, object: &Obj, data: &[u8]) -> Option<usize> {
        if data.is_empty() || data.len() > MOST || !self.is_unseen(py, object) {
            return None;
        }
        let mut count = 0;
        // SAFETY: as in `read`; the bytes are those of a slice. Should it not take them, the object is given the same ones.
        let written = unsafe {
            (self.openssl.ssl_write)(self.ssl.as_ptr(), data.as_ptr().cast(), data.len(), &mut count)
        };
        (written == 1).then_some(count)
    }
}
