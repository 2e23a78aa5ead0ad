//! One Python per test binary, started on the first use; every test attaches to it from its own thread.
#![allow(dead_code, reason = "each test binary uses a part")]

use std::ffi::CString;
use std::sync::OnceLock;

use pyo3_ffi as ffi;
use pyrt::*;

/// The main interpreter.
pub(crate) fn python() -> &'static Interpreter {
    static MAIN: OnceLock<Interpreter> = OnceLock::new();
    MAIN.get_or_init(|| {
        // SAFETY: once per process, before anything else touches Python; the thread detaches before anybody else attaches.
        unsafe {
            let mut config = std::mem::MaybeUninit::<ffi::PyConfig>::uninit();
            ffi::PyConfig_InitPythonConfig(config.as_mut_ptr());
            let mut config = config.assume_init();
            config.install_signal_handlers = 0;
            if let Some(home) = option_env!("PYRT_TEST_HOME") {
                let home = CString::new(home).unwrap();
                ffi::PyConfig_SetBytesString(&mut config, &raw mut config.home, home.as_ptr());
            }
            let status = ffi::Py_InitializeFromConfig(&config);
            assert_eq!(ffi::PyStatus_Exception(status), 0, "Python does not start");
            let main = Interpreter::current(Attached::assume()).unwrap();
            ffi::PyEval_SaveThread();
            main
        }
    })
}

/// Runs a test attached to the main interpreter.
pub(crate) fn attached<R: Send>(f: impl FnOnce(Attached<'_>) -> R) -> R {
    python().attach(f).unwrap()
}

/// Runs statements in a dict of their own and gives the value of `result`.
pub(crate) fn run(py: Attached<'_>, code: &str) -> PyResult<Owned> {
    let scope = Owned::dict(py)?;
    let builtins = import(py, c"builtins")?;
    let exec = builtins.getattr_str(py, c"exec")?;
    exec.call(py, [Owned::str(py, code)?.borrow(), scope.borrow()])?;
    Ok(scope.dict_get(py, &Owned::str(py, "result")?)?.unwrap_or_else(|| Owned::none(py)))
}

/// The value of an expression.
pub(crate) fn eval(py: Attached<'_>, expression: &str) -> Owned {
    run(py, &format!("result = {expression}")).map_err(|raised| raised.take(py).describe(py)).unwrap()
}

/// `Type: text` of the exception a call raised.
pub(crate) fn raised<T>(py: Attached<'_>, result: PyResult<T>) -> String {
    match result {
        Ok(_) => String::from("nothing was raised"),
        Err(raised) => raised.take(py).describe(py),
    }
}
