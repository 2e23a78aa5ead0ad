//! libFuzzer as a library: its loop runs on a thread of its own, in a real VM, and attaches for each input.

use core::ffi::{c_char, c_int};
use std::ffi::CString;
use std::ptr;

use pyrt::{Args, Attached, PyResult};

use crate::bridge::Bridge;
use crate::python;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _looked_at = python::attach(|py, bridge| super::check::input(py, bridge, data));
});

type Target = unsafe extern "C" fn(*const u8, usize) -> c_int;

unsafe extern "C" {
    fn LLVMFuzzerRunDriver(argc: *mut c_int, argv: *mut *mut *mut c_char, target: Target) -> c_int;
    fn LLVMFuzzerTestOneInput(data: *const u8, size: usize) -> c_int;
}

/// As large as that of a context.
const STACK: usize = 16 << 20;

/// Its end without the destructors of a VM that is still running. libFuzzer calls exit(3) only when it has found nothing.
extern "C" fn leave() {
    // SAFETY: ends the process.
    unsafe { libc::_exit(0) }
}

/// Hands the arguments over to libFuzzer; the first is the program that it starts to do a part of its work. Returns only if it was to
/// look at single files.
pub(crate) fn run(py: Attached<'_>, _bridge: &Bridge, args: Args<'_>) -> PyResult<()> {
    let mut words = Vec::new();
    for word in args.positional() {
        words.push(CString::new(word.to_str(py)?).expect("a NUL in an argument"));
    }
    // Not attached when it ends: the destructor of its thread state would wait for itself.
    let thread = std::thread::Builder::new().stack_size(STACK);
    let status = py.detach(|| thread.spawn(|| drive(words)).expect("a thread").join());
    assert!(matches!(status, Ok(0)), "libFuzzer says {status:?}");
    Ok(())
}

fn drive(words: Vec<CString>) -> c_int {
    let mut argv: Vec<*mut c_char> = words.into_iter().map(CString::into_raw).collect();
    let mut argc = argv.len() as c_int;
    argv.push(ptr::null_mut());
    // Kept for ever: libFuzzer holds on to its arguments.
    let mut argv = argv.leak().as_mut_ptr();
    // SAFETY: a function without arguments; NUL-terminated strings with a NULL behind them; a function of that type.
    unsafe {
        libc::atexit(leave);
        LLVMFuzzerRunDriver(&mut argc, &mut argv, LLVMFuzzerTestOneInput)
    }
}
