//! Python itself: started once per VM, on a parked thread of its own that is Python's main thread. Never ended.

use std::ffi::{CStr, CString};
use std::sync::{Mutex, OnceLock, mpsc};

use pyrt::{
    Attached, Interpreter, Owned, PyResult, Remote, Source, Start, compile, import, set_switch_interval,
};

use crate::bridge::{self, Bridge};
use crate::inbox::lock;
use crate::{sandbox, watch};

struct Runtime {
    interpreter: Interpreter,
    bridge: Remote,
}

static RUNTIME: OnceLock<Runtime> = OnceLock::new();
static STARTING: Mutex<()> = Mutex::new(());

/// With the default of 5 ms a thread waits that long behind Python code that computes.
const SWITCH_INTERVAL: f64 = 0.0005;

/// What Erlang found out about the chosen interpreter.
pub(crate) struct Choice {
    pub(crate) home: String,
    pub(crate) program: String,
    /// The directory of the package `erlang`.
    pub(crate) packages: String,
}

static BUILTINS: [pyrt::Builtin; 3] =
    [(c"erlang._bridge", bridge::init), (c"erlang._native", native), (c"erlang._web", web)];

extern "C" fn web() -> pyrt::RawObject {
    web::init()
}

extern "C" fn native() -> pyrt::RawObject {
    pyloop::init()
}

/// Starts Python, unless it is there.
pub(crate) fn start(choice: Choice) -> Result<(), String> {
    let _one_at_a_time = lock(&STARTING);
    if RUNTIME.get().is_some() {
        return Ok(());
    }
    let (tell, told) = mpsc::channel();
    std::thread::Builder::new()
        .name(String::from("py_main"))
        .spawn(move || {
            // Nobody listens if the starter was killed.
            let _gone = tell.send(initialise(&choice));
            loop {
                std::thread::park();
            }
        })
        .map_err(|error| error.to_string())?;
    told.recv().map_err(|_| String::from("the thread that starts Python has died"))??;
    watch::start().map_err(|error| error.to_string())
}

fn text(value: &str) -> Result<Option<CString>, String> {
    if value.is_empty() {
        return Ok(None);
    }
    CString::new(value).map(Some).map_err(|_| String::from("a NUL in a path"))
}

fn initialise(choice: &Choice) -> Result<(), String> {
    let start = Start { home: text(&choice.home)?, program: text(&choice.program)?, builtins: &BUILTINS };
    pyrt::refuse(sandbox::REFUSED)?;
    // SAFETY: once per process, by the lock of `start`; this thread lives as long as the VM.
    let interpreter = unsafe { pyrt::start(&start)? };
    let runtime = interpreter
        .attach(|py| {
            prepare(py, choice)
                .and_then(|module| {
                    Remote::new(py, module, &interpreter)
                        .map_err(|_| pyrt::Fault::system("another interpreter").raise(py))
                })
                .map_err(|raised| raised.take(py).describe(py))
        })
        .map_err(|gone| gone.to_string())??;
    // Set once: `start` holds a lock and has looked.
    let _first = RUNTIME.set(Runtime { interpreter, bridge: runtime });
    Ok(())
}

/// Finds the modules that are part of this library: Python's own finder of built-in modules looks for top-level ones only, in some
/// releases (Debian's 3.11.2 is one).
const FINDER: &CStr = c"
import importlib.machinery as machinery
import sys

class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name.startswith('erlang.') and name in sys.builtin_module_names:
            return machinery.ModuleSpec(name, machinery.BuiltinImporter, origin='built-in')

sys.meta_path.insert(0, Finder)
";

/// Puts the packages on the path and imports what every request needs. The module `erlang._bridge`.
fn prepare(py: Attached<'_>, choice: &Choice) -> PyResult<Owned> {
    set_switch_interval(py, SWITCH_INTERVAL)?;
    let path = import(py, c"sys")?.getattr_str(py, c"path")?;
    path.append(py, &Owned::fs_str(py, choice.packages.as_bytes())?)?;
    let scope = Owned::dict(py)?;
    compile(py, FINDER, c"<erlang_python>", Source::Statements)?.run_code(py, &scope, &scope)?;
    import(py, c"erlang._beam")?;
    import(py, c"erlang._bridge")
}

/// The interpreter, once it is started.
pub(crate) fn interpreter() -> Option<&'static Interpreter> {
    RUNTIME.get().map(|runtime| &runtime.interpreter)
}

/// Runs `f` attached; `None` if Python was not started.
pub(crate) fn attach<R: Send>(f: impl FnOnce(Attached<'_>, &Bridge) -> R) -> Option<R> {
    let runtime = RUNTIME.get()?;
    let result = runtime.interpreter.attach(|py| {
        let module = runtime.bridge.get(py)?;
        match bridge::MODULE.state_of_module(py, &module) {
            Ok(bridge) => Some(f(py, bridge)),
            Err(raised) => {
                raised.clear(py);
                None
            }
        }
    });
    result.ok().flatten()
}
