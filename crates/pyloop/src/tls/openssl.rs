//! `OpenSsl`: the few functions of the OpenSSL that Python's own `ssl` uses, found at run time. Any thread.
//!
//! Nothing is linked: a second OpenSSL in the process would know nothing of the first one's objects. The file of the module
//! `_ssl` is loaded already, and dlsym(3) on its handle looks through the libraries it depends on, so what is found is what
//! `_ssl` itself calls. All of it is public API. Where something is missing (`_ssl` is built in, OpenSSL is older than 3.0, or
//! is none) there is no `OpenSsl`, and memory BIOs do.

use std::ffi::{CStr, CString, c_char, c_int, c_long, c_uint, c_void};
use std::ptr::NonNull;
use std::sync::OnceLock;

use pyrt::{Attached, PyResult, import_from};

/// `SSL` and `BIO`: known by address only.
pub(super) type Ssl = NonNull<c_void>;
pub(super) type RawBio = *mut c_void;
pub(super) type Method = *mut c_void;

pub(super) type Read = unsafe extern "C" fn(RawBio, *mut c_char, usize, *mut usize) -> c_int;
pub(super) type Write = unsafe extern "C" fn(RawBio, *const c_char, usize, *mut usize) -> c_int;
pub(super) type Ctrl = unsafe extern "C" fn(RawBio, c_int, c_long, *mut c_void) -> c_long;
pub(super) type Destroy = unsafe extern "C" fn(RawBio) -> c_int;
/// `CRYPTO_EX_new` and `CRYPTO_EX_free`, which are alike.
pub(super) type Ex = unsafe extern "C" fn(*mut c_void, *mut c_void, *mut c_void, c_int, c_long, *mut c_void);

/// Declares the table, and how it is filled.
macro_rules! functions {
    ($($name:ident = $symbol:literal : $kind:ty;)*) => {
        /// Functions of OpenSSL, by what they are called there.
        pub(super) struct OpenSsl {
            $(pub(super) $name: $kind,)*
        }

        impl OpenSsl {
            /// # Safety
            /// What the handle leads to is OpenSSL 3.0 or later, or something that has none of these names.
            unsafe fn find(handle: NonNull<c_void>) -> Option<Self> {
                Some(Self {
                    $($name: {
                        // SAFETY: a handle of dlopen(3), and a name with its end.
                        let found = unsafe { libc::dlsym(handle.as_ptr(), $symbol.as_ptr()) };
                        let found = NonNull::new(found)?;
                        // SAFETY: a function of that name has this type in every OpenSSL from 3.0 on.
                        unsafe { std::mem::transmute::<*mut c_void, $kind>(found.as_ptr()) }
                    },)*
                })
            }
        }
    };
}

functions! {
    version_major = c"OPENSSL_version_major": unsafe extern "C" fn() -> c_uint;
    new_ex_index = c"CRYPTO_get_ex_new_index":
        unsafe extern "C" fn(c_int, c_long, *mut c_void, Option<Ex>, *mut c_void, Option<Ex>) -> c_int;
    ssl_get_ex_data = c"SSL_get_ex_data": unsafe extern "C" fn(*const c_void, c_int) -> *mut c_void;
    ssl_set_bio = c"SSL_set_bio": unsafe extern "C" fn(*mut c_void, RawBio, RawBio);
    ssl_read = c"SSL_read_ex": unsafe extern "C" fn(*mut c_void, *mut c_void, usize, *mut usize) -> c_int;
    ssl_write = c"SSL_write_ex": unsafe extern "C" fn(*mut c_void, *const c_void, usize, *mut usize) -> c_int;
    bio_new_index = c"BIO_get_new_index": unsafe extern "C" fn() -> c_int;
    bio_meth_new = c"BIO_meth_new": unsafe extern "C" fn(c_int, *const c_char) -> Method;
    bio_meth_set_read = c"BIO_meth_set_read_ex": unsafe extern "C" fn(Method, Read) -> c_int;
    bio_meth_set_write = c"BIO_meth_set_write_ex": unsafe extern "C" fn(Method, Write) -> c_int;
    bio_meth_set_ctrl = c"BIO_meth_set_ctrl": unsafe extern "C" fn(Method, Ctrl) -> c_int;
    bio_meth_set_destroy = c"BIO_meth_set_destroy": unsafe extern "C" fn(Method, Destroy) -> c_int;
    bio_new = c"BIO_new": unsafe extern "C" fn(Method) -> RawBio;
    bio_set_data = c"BIO_set_data": unsafe extern "C" fn(RawBio, *mut c_void);
    bio_get_data = c"BIO_get_data": unsafe extern "C" fn(RawBio) -> *mut c_void;
    bio_set_init = c"BIO_set_init": unsafe extern "C" fn(RawBio, c_int);
    bio_set_flags = c"BIO_set_flags": unsafe extern "C" fn(RawBio, c_int);
    bio_clear_flags = c"BIO_clear_flags": unsafe extern "C" fn(RawBio, c_int);
}

/// One per process, like the library itself.
static FOUND: OnceLock<Option<OpenSsl>> = OnceLock::new();

impl OpenSsl {
    /// What was found, if anything was: looked for when a first connection asks.
    pub(super) fn get(py: Attached<'_>) -> Option<&'static Self> {
        if let Some(found) = FOUND.get() {
            return found.as_ref();
        }
        let path = match path(py) {
            Ok(path) => path,
            Err(raised) => {
                raised.clear(py);
                None
            }
        };
        // No Python code runs in here: another thread that waits for this one may be attached.
        FOUND.get_or_init(|| open(&path?)).as_ref()
    }

    /// What was found, for those whom it has called itself.
    #[inline]
    pub(super) fn known() -> Option<&'static Self> {
        FOUND.get().and_then(Option::as_ref)
    }
}

/// The file of the module `_ssl`. Raises if that has none.
fn path(py: Attached<'_>) -> PyResult<Option<CString>> {
    let file = import_from(py, c"_ssl", c"__file__")?;
    Ok(CString::new(file.to_string_lossy(py)?).ok())
}

fn open(path: &CStr) -> Option<OpenSsl> {
    // SAFETY: a name with its end. Nothing is loaded that is not there yet, so no code runs; the handle is never closed.
    let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
    // SAFETY: the module `_ssl` depends on the OpenSSL it was built with; the first name asked for came with 3.0.
    let found = unsafe { OpenSsl::find(NonNull::new(handle)?)? };
    // SAFETY: takes nothing, and only tells a number.
    (unsafe { (found.version_major)() } >= 3).then_some(found)
}
