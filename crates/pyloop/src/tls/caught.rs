//! `Catch`: which `SSL` a call of `wrap_bio` has made.
//!
//! Python does not tell the address, and where its object keeps it differs from version to version. But OpenSSL tells whoever has
//! registered for extra data of all the `SSL` that are made and freed, on the thread that does it (CRYPTO_get_ex_new_index(3)).

use std::cell::Cell;
use std::ffi::{c_int, c_long, c_void};
use std::ptr::NonNull;
use std::sync::OnceLock;

use super::openssl::{OpenSsl, Ssl};

/// `CRYPTO_EX_INDEX_SSL`.
const SSL: c_int = 0;

/// What was made on a thread while it listened.
#[derive(Clone, Copy)]
enum Seen {
    Idle,
    Nothing,
    One(*mut c_void),
    /// More than one, or one that is gone again.
    Unclear,
}

thread_local! {
    static SEEN: Cell<Seen> = const { Cell::new(Seen::Idle) };
}

/// Listens on this thread as long as it lives.
pub(super) struct Catch {
    before: Seen,
}

impl Catch {
    /// Begins to listen, if OpenSSL can be made to tell.
    pub(super) fn begin(openssl: &OpenSsl) -> Option<Self> {
        /// Whether we are registered; for good, as there may be an `SSL` anywhere with our place in it.
        static REGISTERED: OnceLock<bool> = OnceLock::new();
        let registered = *REGISTERED.get_or_init(|| {
            let none = std::ptr::null_mut();
            // SAFETY: the callbacks have the types that the header gives them, live as long as the process, and need no argument.
            unsafe { (openssl.new_ex_index)(SSL, 0, none, Some(made), none, Some(freed)) > 0 }
        });
        registered.then(|| Self { before: SEEN.replace(Seen::Nothing) })
    }

    /// The `SSL` that was made meanwhile, if it was just one.
    pub(super) fn end(self) -> Option<Ssl> {
        match SEEN.get() {
            Seen::One(ssl) => NonNull::new(ssl),
            _ => None,
        }
    }
}

impl Drop for Catch {
    fn drop(&mut self) {
        SEEN.set(self.before);
    }
}

/// `SSL_new` on this thread. Any code may call it, so it does nothing but look.
unsafe extern "C" fn made(
    ssl: *mut c_void,
    _data: *mut c_void,
    _all: *mut c_void,
    _index: c_int,
    _number: c_long,
    _argument: *mut c_void,
) {
    SEEN.set(match SEEN.get() {
        Seen::Idle => Seen::Idle,
        Seen::Nothing => Seen::One(ssl),
        Seen::One(_) | Seen::Unclear => Seen::Unclear,
    });
}

/// `SSL_free` on this thread.
unsafe extern "C" fn freed(
    ssl: *mut c_void,
    _data: *mut c_void,
    _all: *mut c_void,
    _index: c_int,
    _number: c_long,
    _argument: *mut c_void,
) {
    if matches!(SEEN.get(), Seen::One(seen) if seen == ssl) {
        SEEN.set(Seen::Unclear);
    }
}
