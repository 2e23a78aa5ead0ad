//! Calls that a thread makes in passing, where it looks for interrupts; and whether it may be interrupted there. Python 3.14 and later.
//!
//! An exception set for another thread (`PyThreadState_SetAsyncExc`) strikes wherever that looks next: after calls, when a function begins
//! and at the end of a loop's body. Up to 3.13 a `with` block begins with an instruction of its own, without a look. From 3.14 on the
//! `__enter__` is called like anything else, and what strikes there leaves locked what has just been locked: the block that would unlock
//! it has not begun. So from 3.14 on a thread is interrupted by a call that it makes itself at such a place, and that looks where it is.

use core::ffi::{CStr, c_int, c_void};
use std::sync::{Arc, OnceLock};

use crate::{Attached, Obj, Owned, PyResult, ffi, guard, import};

/// What is called in passing.
pub trait InPassing: Send + Sync + 'static {
    /// By a thread of the interpreter it was asked of. What it raises is raised in the code that runs there.
    fn pass(self: Arc<Self>, py: Attached<'_>) -> PyResult<()>;
}

/// Has the first thread of this interpreter make a call that comes to a place where it looks for interrupts. False if too many wait.
pub fn in_passing<T: InPassing>(_py: Attached<'_>, what: Arc<T>) -> bool {
    let argument = Arc::into_raw(what).cast_mut().cast::<c_void>();
    // SAFETY: attached; the function takes the reference over, and is called once, if at all.
    unsafe {
        let taken = ffi::_PyEval_AddPendingCall(ffi::PyInterpreterState_Get(), pass::<T>, argument, 0) == 0;
        if !taken {
            drop(Arc::from_raw(argument.cast::<T>().cast_const()));
        }
        taken
    }
}

unsafe extern "C" fn pass<T: InPassing>(argument: *mut c_void) -> c_int {
    // SAFETY: called by the runtime, attached; the argument is a reference that `in_passing` gave away.
    unsafe {
        let what = Arc::from_raw(argument.cast::<T>().cast_const());
        guard(|py| what.pass(py).map(|()| 0))
    }
}

/// Whether code is at either end of a `with` block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// It is not.
    Elsewhere,
    /// It has called `__enter__`, and the block has not begun.
    Between,
    /// It runs an `__enter__` or `__exit__` that is written in Python, such as those of `threading.Condition`.
    Within,
}

/// Where the code stands that this thread runs.
pub fn place(py: Attached<'_>) -> PyResult<Place> {
    // SAFETY: attached; a new reference, or NULL without an exception.
    let frame =
        unsafe { Owned::from_ptr_or_none(py, ffi::PyThreadState_GetFrame(ffi::PyThreadState_Get()).cast()) };
    let Some(frame) = frame else { return Ok(Place::Elsewhere) };
    let opcodes = Opcodes::known(py)?;
    if opcodes.call_enter(py, &frame)? {
        return Ok(Place::Between);
    }
    let name = frame.getattr_str(py, c"f_code")?.getattr_str(py, c"co_name")?;
    let within = matches!(name.to_str(py)?, "__enter__" | "__exit__");
    Ok(if within { Place::Within } else { Place::Elsewhere })
}

/// The numbers of instructions, which differ from version to version.
struct Opcodes {
    /// Finds a special method; that of number 0 is `__enter__`, for a call that follows.
    load_special: u8,
    call: u8,
}

impl Opcodes {
    /// Those of this Python, numbers that all its interpreters share.
    fn known(py: Attached<'_>) -> PyResult<&'static Self> {
        static KNOWN: OnceLock<Opcodes> = OnceLock::new();
        if let Some(known) = KNOWN.get() {
            return Ok(known);
        }
        let map = import(py, c"opcode")?.getattr_str(py, c"opmap")?;
        let number = |name: &CStr| -> PyResult<u8> {
            let name = Owned::str(py, &name.to_string_lossy())?;
            let number = map.dict_get(py, &name)?.map_or(Ok(0), |number| number.to_i64(py))?;
            Ok(u8::try_from(number).unwrap_or(0))
        };
        let known = Self { load_special: number(c"LOAD_SPECIAL")?, call: number(c"CALL")? };
        Ok(KNOWN.get_or_init(|| known))
    }

    /// Whether a frame is at the call of `__enter__` for a `with` block.
    fn call_enter(&self, py: Attached<'_>, frame: &Obj) -> PyResult<bool> {
        let place = frame.getattr_str(py, c"f_lasti")?.to_i64(py)?;
        // As it was compiled: what the interpreter has made of it since is not shown.
        let code = frame.getattr_str(py, c"f_code")?.getattr_str(py, c"co_code")?;
        let code = code.to_bytes(py)?;
        let Ok(place) = usize::try_from(place) else { return Ok(false) };
        let (here, before) =
            (code.get(place), place.checked_sub(2).and_then(|before| code.get(before..place)));
        Ok(here == Some(&self.call) && before == Some(&[self.load_special, 0]))
    }
}
