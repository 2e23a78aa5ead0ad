//! The NIF of `py_loader`: opens the chosen libpython for all that is loaded after it. Called once, by the process that starts Python.
//!
//! The BEAM loads NIFs with RTLD_LOCAL, where neither the main NIF nor an extension module such as numpy would find Python's
//! symbols. What is opened here stays open until the VM ends: Python cannot be unloaded.

use std::ffi::{CStr, CString};

use rustler::types::atom::{self, Atom};

/// Opens a shared library with RTLD_GLOBAL; the text of dlerror(3) if that fails.
#[rustler::nif(schedule = "DirtyIo")]
fn open(path: String) -> Result<Atom, String> {
    let Ok(path) = CString::new(path) else { return Err(String::from("a NUL in the path")) };
    // SAFETY: a NUL-terminated path; the initialisers of libpython touch nothing of ours.
    let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL) };
    if handle.is_null() {
        // SAFETY: NULL or a NUL-terminated text that lives until the next call of the family on this thread.
        let text = unsafe { libc::dlerror().as_ref().map(|text| CStr::from_ptr(text)) };
        return Err(text.map_or_else(|| String::from("?"), |text| text.to_string_lossy().into_owned()));
    }
    Ok(atom::ok())
}

rustler::init!("py_loader");
