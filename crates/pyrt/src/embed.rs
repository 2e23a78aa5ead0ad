//! Python inside another program: starting it once, code run from text, and exceptions raised in other threads.
//!
//! [`start`] is called once per process, by the thread that becomes Python's main one; everything else attached.

use core::ffi::{CStr, c_char, c_int, c_long, c_ulong, c_void};
use core::mem::MaybeUninit;
use core::ptr;
use std::ffi::CString;

use crate::{AsObj, Attached, Borrowed, Fault, Interpreter, Obj, Owned, PyResult, Raised, RawObject, ffi};

/// A module that is part of the program: its full name and its `PyInit_…`.
pub type Builtin = (&'static CStr, extern "C" fn() -> RawObject);

/// What Python is told before it starts.
pub struct Start {
    /// `PYTHONHOME`: where the standard library is, if it cannot be found from the program.
    pub home: Option<CString>,
    /// The interpreter this stands for, that of a virtual environment perhaps: `sys.executable`.
    pub program: Option<CString>,
    /// The modules that are part of the program.
    pub builtins: &'static [Builtin],
}

/// Starts Python without its signal handlers, and leaves this thread detached. The error is the runtime's own text.
///
/// # Safety
/// Once per process. The thread becomes Python's main thread and should live as long as the process; Python is never ended.
pub unsafe fn start(start: &Start) -> Result<Interpreter, String> {
    // SAFETY: nothing else has touched Python yet, by contract; the configuration is filled before it is used, and the
    // strings are copied into it.
    unsafe {
        for (name, init) in start.builtins {
            let init: extern "C" fn() -> *mut ffi::PyObject = *init;
            if ffi::PyImport_AppendInittab(name.as_ptr(), Some(init)) != 0 {
                return Err(String::from("out of memory"));
            }
        }
        crate::memory::install();
        let mut config = MaybeUninit::<ffi::PyConfig>::zeroed();
        ffi::PyConfig_InitPythonConfig(config.as_mut_ptr());
        let mut config = config.assume_init();
        config.install_signal_handlers = 0;
        config.parse_argv = 0;
        for (place, text) in
            [(&raw mut config.home, &start.home), (&raw mut config.program_name, &start.program)]
        {
            if let Some(text) = text {
                check(ffi::PyConfig_SetBytesString(&mut config, place, text.as_ptr()))?;
            }
        }
        let status = ffi::Py_InitializeFromConfig(&config);
        ffi::PyConfig_Clear(&mut config);
        check(status)?;
        let py = Attached::assume();
        let main = Interpreter::current(py).map_err(|raised| raised.take(py).describe(py));
        ffi::PyEval_SaveThread();
        main
    }
}

pub(crate) fn check(status: ffi::PyStatus) -> Result<(), String> {
    // SAFETY: a status made by the runtime; its text is static.
    unsafe {
        if ffi::PyStatus_Exception(status) == 0 {
            return Ok(());
        }
        if status.err_msg.is_null() {
            return Err(format!("Python wants to exit with {}", status.exitcode));
        }
        Err(CStr::from_ptr(status.err_msg).to_string_lossy().into_owned())
    }
}

/// Events of auditing (PEP 578) and why they are refused.
pub type Refusals = &'static [(&'static CStr, &'static CStr)];

static REFUSED: std::sync::OnceLock<Refusals> = std::sync::OnceLock::new();

/// Has events refused with a `PermissionError`, in all interpreters and for good. The first table counts.
pub fn refuse(events: Refusals) -> Result<(), String> {
    if REFUSED.set(events).is_err() {
        return Ok(());
    }
    // SAFETY: may be called before Python is started; the hook is a function of this program and needs no data.
    if unsafe { PySys_AddAuditHook(audit_hook, ptr::null_mut()) } != 0 {
        return Err(String::from("no audit hook can be had"));
    }
    Ok(())
}

extern "C" fn audit_hook(event: *const c_char, _args: *mut ffi::PyObject, _data: *mut c_void) -> c_int {
    // SAFETY: the name of an event, NUL-terminated, for the time of this call.
    let event = unsafe { CStr::from_ptr(event) };
    // Every import, file and compilation comes by: those names differ in their first letters.
    if !matches!(event.to_bytes().first(), Some(b'o' | b'p' | b's')) {
        return 0;
    }
    let refused = REFUSED.get().and_then(|events| events.iter().find(|(name, _)| *name == event));
    let Some((_, why)) = refused else { return 0 };
    // SAFETY: hooks are called attached; the text is static.
    unsafe { ffi::PyErr_SetString(ffi::PyExc_PermissionError, why.as_ptr()) };
    -1
}

/// `sys.modules[name]`, waiting for another thread that is importing it; `None` in Rust if it is not there.
#[inline]
pub fn imported(py: Attached<'_>, name: &impl AsObj) -> PyResult<Option<Owned>> {
    // SAFETY: attached, alive; a new reference, or NULL with or without an exception.
    let found = unsafe { Owned::from_ptr_or_none(py, ffi::PyImport_GetModule(name.as_obj().as_ptr())) };
    if found.is_none() {
        Raised::check_occurred(py)?;
    }
    Ok(found)
}

/// `importlib.import_module(name)` for an absolute name.
pub fn import_name(py: Attached<'_>, name: &impl AsObj) -> PyResult<Owned> {
    // SAFETY: attached, alive; a new reference or NULL with an exception.
    unsafe { Owned::from_ptr(py, ffi::PyImport_Import(name.as_obj().as_ptr()))? };
    // The call above gives the package of a dotted name.
    match imported(py, name)? {
        Some(module) => Ok(module),
        None => Err(Fault::runtime("the module is not in sys.modules after its import").raise(py)),
    }
}

/// What a piece of code is compiled as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// An expression, whose value is wanted.
    Expression,
    /// Statements.
    Statements,
}

/// `compile(code, filename, mode)`.
pub fn compile(py: Attached<'_>, code: &CStr, filename: &CStr, source: Source) -> PyResult<Owned> {
    let start = match source {
        Source::Expression => ffi::Py_eval_input,
        Source::Statements => ffi::Py_file_input,
    };
    // SAFETY: attached; NUL-terminated texts. A new reference or NULL with an exception.
    unsafe { Owned::from_ptr(py, ffi::Py_CompileString(code.as_ptr(), filename.as_ptr(), start)) }
}

impl Obj {
    /// Runs a code object with these globals and locals, both dicts.
    pub fn run_code(&self, py: Attached<'_>, globals: &impl AsObj, locals: &impl AsObj) -> PyResult<Owned> {
        let (globals, locals) = (globals.as_obj(), locals.as_obj());
        if !globals.is_dict() || !locals.is_dict() {
            return Err(Fault::type_error("globals and locals are dicts").raise(py));
        }
        // SAFETY: attached, all alive; the runtime refuses what is no code object.
        unsafe {
            if ffi::PyCode_Check(self.as_ptr()) == 0 {
                return Err(Fault::type_error("not a code object").raise(py));
            }
            Owned::from_ptr(py, ffi::PyEval_EvalCode(self.as_ptr(), globals.as_ptr(), locals.as_ptr()))
        }
    }
}

/// The globals of the Python code that called; `None` if none did.
pub fn frame_globals(py: Attached<'_>) -> Option<Owned> {
    // SAFETY: attached; a borrowed reference or NULL without an exception.
    unsafe { Borrowed::from_ptr(py, ffi::PyEval_GetGlobals()) }.map(|globals| globals.clone_ref(py))
}

/// Its locals.
pub fn frame_locals(py: Attached<'_>) -> Option<Owned> {
    // SAFETY: attached; a borrowed reference, or NULL, then perhaps with an exception.
    let locals =
        unsafe { Borrowed::from_ptr(py, ffi::PyEval_GetLocals()) }.map(|locals| locals.clone_ref(py));
    if locals.is_none()
        && let Err(raised) = Raised::check_occurred(py)
    {
        raised.clear(py);
    }
    locals
}

/// How Python names this thread: what `threading.get_ident()` says.
pub fn thread_ident() -> u64 {
    // SAFETY: may be called by any thread.
    unsafe { PyThread_get_thread_ident() as u64 }
}

/// Has `class` raised in another thread of this interpreter, as soon as that runs bytecode; `None` takes it back.
/// Whether there is such a thread.
pub fn raise_in_thread(_py: Attached<'_>, ident: u64, class: Option<&Obj>) -> bool {
    let class = class.map_or(ptr::null_mut(), Obj::as_ptr);
    // SAFETY: attached; the runtime looks the thread up and takes a reference of its own.
    unsafe { PyThreadState_SetAsyncExc(ident as c_ulong, class) > 0 }
}

/// `sys._getframe` and kin aside, the one setting of the runtime that its host decides: `sys.setswitchinterval`.
pub fn set_switch_interval(py: Attached<'_>, seconds: f64) -> PyResult<()> {
    let set = crate::import_from(py, c"sys", c"setswitchinterval")?;
    set.call1(py, &Owned::float(py, seconds)?)?;
    Ok(())
}

type AuditHook = extern "C" fn(*const c_char, *mut ffi::PyObject, *mut c_void) -> c_int;

unsafe extern "C" {
    fn PySys_AddAuditHook(hook: AuditHook, data: *mut c_void) -> c_int;
    fn PyThread_get_thread_ident() -> c_ulong;
    fn PyThreadState_SetAsyncExc(ident: c_ulong, class: *mut ffi::PyObject) -> c_int;
}

const _: () = assert!(size_of::<c_long>() == size_of::<u64>());
