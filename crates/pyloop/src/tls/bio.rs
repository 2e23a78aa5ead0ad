//! `fit`: a BIO of our own for an `SSL`, by which OpenSSL reads from and writes to a [`Line`]. The callbacks run on whatever thread
//! uses the SSL object, attached or not.
//!
//! OpenSSL's memory BIOs overwrite with zeros what they grow by, each time, and are one more copy in either direction.
//!
//! The BIO has a reference to its line, which its end gives back: a user may keep the SSL object longer than there is a connection.

use std::ffi::{c_char, c_int, c_long, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::{Arc, OnceLock};

use pyrt::Obj;

use super::line::Line;
use super::openssl::{Method, OpenSsl, RawBio, Ssl};

// openssl/bio.h
const SOURCE_AND_SINK: c_int = 0x0400;
const FLAGS_READ: c_int = 0x01;
const FLAGS_RWS: c_int = 0x07;
const FLAGS_SHOULD_RETRY: c_int = 0x08;
const CTRL_EOF: c_int = 2;
const CTRL_PENDING: c_int = 10;
const CTRL_FLUSH: c_int = 11;
const CTRL_WPENDING: c_int = 13;

/// Where `_ssl` notes which object of its has the `SSL` (`SSL_set_app_data`).
const APP_DATA: c_int = 0;

/// Puts a BIO of ours in place of those that an `SSL` has. Nothing if the `SSL` is not that of this object.
///
/// # Safety
/// The `SSL` is alive, and nobody uses it meanwhile.
pub(super) unsafe fn fit(openssl: &OpenSsl, ssl: Ssl, object: &Obj) -> Option<Arc<Line>> {
    // SAFETY: alive; a look at what it was given.
    if unsafe { (openssl.ssl_get_ex_data)(ssl.as_ptr(), APP_DATA) } != object.as_ptr().cast() {
        return None;
    }
    let method = method(openssl)?;
    // SAFETY: a method that is complete and never freed.
    let bio = NonNull::new(unsafe { (openssl.bio_new)(method) })?;
    let line = Arc::<Line>::default();
    // SAFETY: new and ours. The reference is given back by `destroy`. SSL_set_bio(3) takes one reference to a BIO that is given
    // for both directions, and lets go of those that were there.
    unsafe {
        (openssl.bio_set_data)(bio.as_ptr(), Arc::into_raw(line.clone()).cast_mut().cast());
        (openssl.bio_set_init)(bio.as_ptr(), 1);
        (openssl.ssl_set_bio)(ssl.as_ptr(), bio.as_ptr(), bio.as_ptr());
    }
    Some(line)
}

/// The kind of BIO that ours are of: made once.
fn method(openssl: &OpenSsl) -> Option<Method> {
    /// The address, as pointers may not be shared.
    static METHOD: OnceLock<usize> = OnceLock::new();
    let method = *METHOD.get_or_init(|| {
        // SAFETY: a name that lives as long as the process, and callbacks of the types that the header gives them.
        unsafe {
            let kind = (openssl.bio_new_index)();
            let method = if kind < 0 {
                std::ptr::null_mut()
            } else {
                (openssl.bio_meth_new)(kind | SOURCE_AND_SINK, c"erlang".as_ptr())
            };
            let complete = !method.is_null()
                && (openssl.bio_meth_set_read)(method, read) > 0
                && (openssl.bio_meth_set_write)(method, write) > 0
                && (openssl.bio_meth_set_ctrl)(method, ctrl) > 0
                && (openssl.bio_meth_set_destroy)(method, destroy) > 0;
            if complete { method as usize } else { 0 }
        }
    });
    (method != 0).then_some(method as Method)
}

/// The line of a BIO of ours.
///
/// # Safety
/// The BIO is one of ours, and outlives the result.
#[inline]
unsafe fn line<'a>(openssl: &OpenSsl, bio: RawBio) -> Option<&'a Line> {
    // SAFETY: what `fit` has put there, whose reference the BIO has.
    unsafe { (openssl.bio_get_data)(bio).cast::<Line>().as_ref() }
}

/// No panic gets into OpenSSL: an error instead.
#[inline]
fn contained<R>(failed: R, body: impl FnOnce() -> Option<R>) -> R {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Some(result)) => result,
        Ok(None) | Err(_) => failed,
    }
}

/// What came; if nothing did, a failure that may be tried again, as BIO_s_mem(3) does it.
unsafe extern "C" fn read(bio: RawBio, target: *mut c_char, room: usize, count: *mut usize) -> c_int {
    contained(-1, || {
        let openssl = OpenSsl::known()?;
        // SAFETY: OpenSSL gives the BIO it calls for, which is one of ours, and room for so many bytes.
        unsafe {
            let got = line(openssl, bio)?.read(target.cast(), room);
            *count = got;
            (openssl.bio_clear_flags)(bio, FLAGS_RWS | FLAGS_SHOULD_RETRY);
            if got == 0 {
                (openssl.bio_set_flags)(bio, FLAGS_READ | FLAGS_SHOULD_RETRY);
                return None;
            }
        }
        Some(1)
    })
}

/// Takes everything.
unsafe extern "C" fn write(bio: RawBio, data: *const c_char, size: usize, count: *mut usize) -> c_int {
    contained(-1, || {
        let openssl = OpenSsl::known()?;
        // SAFETY: OpenSSL gives the BIO it calls for, which is one of ours, and so many bytes.
        unsafe {
            (openssl.bio_clear_flags)(bio, FLAGS_RWS | FLAGS_SHOULD_RETRY);
            let data: &[u8] = if size == 0 { &[] } else { std::slice::from_raw_parts(data.cast(), size) };
            if !line(openssl, bio)?.write(data) {
                *count = 0;
                return None;
            }
            *count = size;
        }
        Some(1)
    })
}

/// Questions about a BIO. 0 is the answer to those that are not known (BIO_ctrl(3)), such as whether the kernel does TLS.
unsafe extern "C" fn ctrl(bio: RawBio, question: c_int, _number: c_long, _argument: *mut c_void) -> c_long {
    // SAFETY: OpenSSL gives the BIO it calls for, which is one of ours.
    let line = || unsafe { line(OpenSsl::known()?, bio) };
    contained(0, || match question {
        CTRL_FLUSH => Some(1),
        CTRL_EOF => Some(c_long::from(line()?.incoming() == 0)),
        CTRL_PENDING => c_long::try_from(line()?.incoming()).ok(),
        CTRL_WPENDING => c_long::try_from(line()?.outgoing()).ok(),
        _ => Some(0),
    })
}

/// The end of a BIO, once.
unsafe extern "C" fn destroy(bio: RawBio) -> c_int {
    contained(0, || {
        let openssl = OpenSsl::known()?;
        // SAFETY: one of ours; the reference that `fit` has put there, taken out so that nobody finds it again.
        unsafe {
            let data = (openssl.bio_get_data)(bio);
            (openssl.bio_set_data)(bio, std::ptr::null_mut());
            if !data.is_null() {
                drop(Arc::<Line>::from_raw(data.cast_const().cast()));
            }
        }
        Some(1)
    })
}
