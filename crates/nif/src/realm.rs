//! `Realm`: one interpreter with what we need in it, the main one or one with a GIL of its own. Any thread may hold it.
//!
//! A sub-interpreter is made by the thread of its context, which is its main thread and ends it. Up to Python 3.13 none is ended:
//! tearing down a second one that has imported `datetime` crashes there. Those are left as they are until the VM halts, and counted.

use std::ffi::CStr;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pyrt::{
    Attached, Fault, Interpreter, Owned, PyResult, Remote, Source, compile, import, set_switch_interval,
};

use crate::bridge::{self, Bridge};
use crate::inbox::lock;
use crate::runner::Runner;
use crate::speaker::Speaker;
use crate::table::Id;
use crate::{output, python, table, watch};

/// With the default of 5 ms a thread waits that long behind Python code that computes.
const SWITCH_INTERVAL: f64 = 0.0005;
/// How long threads of an interpreter that ends have to leave.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long the code that ends them may take before it is interrupted.
const GRACE: Duration = Duration::from_secs(5);
/// How many interpreters may be left over that cannot be ended.
const LEFT_AT_MOST: usize = 64;

/// Interpreters that were not ended.
static LEFT: AtomicUsize = AtomicUsize::new(0);
/// How many bytes each of them may have, from when it is ready; none if there is no limit.
static LIMIT: AtomicUsize = AtomicUsize::new(usize::MAX);
/// Sub-interpreters there are.
static ALIVE: AtomicUsize = AtomicUsize::new(0);

/// One interpreter.
pub(crate) struct Realm {
    interpreter: Interpreter,
    /// The module `erlang._bridge`, until the interpreter ends.
    module: Mutex<Option<Remote>>,
    /// Its state, for as long as that module is kept.
    bridge: AtomicPtr<Bridge>,
    /// Whether a thread is on its way to interrupt something.
    interrupting: AtomicBool,
    /// Tells those who wait here for replies.
    speaker: Speaker,
}

impl Realm {
    /// Puts what every request needs into an interpreter. `path` is added to where modules are found.
    pub(crate) fn furnish(interpreter: Interpreter, path: &[String]) -> Result<Arc<Self>, String> {
        let furnished = interpreter.attach(|py| {
            let realm = prepare(py, path).and_then(|module| {
                let bridge: *const Bridge = bridge::MODULE.state_of_module(py, &module)?;
                let module = Remote::new(py, module, &interpreter)
                    .map_err(|_| Fault::system("another interpreter").raise(py))?;
                let realm = Arc::new(Self {
                    interpreter: interpreter.clone(),
                    module: Mutex::new(Some(module)),
                    bridge: AtomicPtr::new(bridge.cast_mut()),
                    interrupting: AtomicBool::new(false),
                    speaker: Speaker::new(interpreter.id() == 0),
                });
                Ok(realm)
            });
            realm.map_err(|raised| raised.take(py).describe(py))
        });
        let realm = furnished.map_err(|gone| gone.to_string())??;
        realm.attach(|_, bridge| bridge.settle(&realm));
        Ok(realm)
    }

    /// A new sub-interpreter, whose main thread is this one.
    pub(crate) fn create() -> Result<Arc<Self>, String> {
        let main = python::main().ok_or_else(|| String::from("Python was not started"))?;
        if LEFT.load(Ordering::Relaxed) >= LEFT_AT_MOST {
            return Err(format!(
                "{LEFT_AT_MOST} interpreters are left that could not be ended: start the VM anew"
            ));
        }
        let made = main.interpreter.attach(|py| {
            let path = module_path(py).map_err(|raised| raised.take(py).describe(py))?;
            Ok::<_, String>((Interpreter::create(py)?, path))
        });
        let (interpreter, path) = made.map_err(|gone| gone.to_string())??;
        ALIVE.fetch_add(1, Ordering::Relaxed);
        let realm = Self::furnish(interpreter.clone(), &path).and_then(|realm| match limit(&interpreter) {
            true => Ok(realm),
            false => Err(String::from("this Python cannot limit the memory of one interpreter")),
        });
        if realm.is_err() {
            finish(&interpreter, |_| ());
        }
        realm
    }

    pub(crate) fn interpreter(&self) -> &Interpreter {
        &self.interpreter
    }

    pub(crate) fn speaker(&self) -> &Speaker {
        &self.speaker
    }

    /// Whether it is the one that all share.
    pub(crate) fn is_main(&self) -> bool {
        self.interpreter.id() == 0
    }

    /// Runs `f` attached; `None` if the interpreter has ended.
    pub(crate) fn attach<R: Send>(&self, f: impl FnOnce(Attached<'_>, &Bridge) -> R) -> Option<R> {
        let attached = self.interpreter.attach(|py| {
            // SAFETY: the state lives in the module, which is given up by `end` only, when nobody else can attach.
            let bridge = unsafe { self.bridge.load(Ordering::Acquire).as_ref() }?;
            Some(f(py, bridge))
        });
        attached.ok().flatten()
    }

    /// Has a request interrupted that runs here. Code in C may keep the GIL of a sub-interpreter for as long as it likes, and the
    /// watchdog is everybody's: so a thread of its own waits for that, one at a time.
    pub(crate) fn interrupt(self: &Arc<Self>, id: Id) {
        if self.is_main() {
            self.attach(|py, bridge| watch::strike(py, bridge, id));
            return;
        }
        if self.interrupting.swap(true, Ordering::AcqRel) {
            return;
        }
        let realm = self.clone();
        let started = std::thread::Builder::new().name(String::from("py_interrupt")).spawn(move || {
            realm.attach(|py, bridge| watch::strike(py, bridge, id));
            realm.interrupting.store(false, Ordering::Release);
        });
        if started.is_err() {
            self.interrupting.store(false, Ordering::Release);
        }
    }

    /// Ends a sub-interpreter, on the thread that made it. What its threads are at is interrupted.
    pub(crate) fn end(&self) {
        self.attach(|py, bridge| {
            let runner = Runner::current(bridge);
            let id = table::open();
            runner.enter_unwatched(id);
            if let Some(id) = id {
                watch::interrupt_after(id, GRACE);
            }
            let ended = bridge.end_threads.get(py).and_then(|end| end.call0(py));
            if let Err(raised) = ended {
                raised.write_unraisable(py, None);
            }
            runner.forget_namespace();
            runner.leave(py);
            if let Some(id) = id {
                table::close(id);
            }
        });
        self.speaker.end(PATIENCE);
        finish(&self.interpreter, |_py| {
            self.bridge.store(ptr::null_mut(), Ordering::Release);
            // Taken out first: a destructor may want the lock.
            let module = lock(&self.module).take();
            drop(module);
        });
    }
}

/// Ends the interpreter itself, or counts it among those that are left.
fn finish(interpreter: &Interpreter, last: impl FnOnce(Attached<'_>)) {
    if !cfg!(Py_3_14) {
        LEFT.fetch_add(1, Ordering::SeqCst);
    } else if !interpreter.end(PATIENCE, last) {
        LEFT.fetch_add(1, Ordering::SeqCst);
        output::report("py: a sub-interpreter was left behind, as threads of it do not end");
    }
    ALIVE.fetch_sub(1, Ordering::SeqCst);
}

/// What interpreters may have that are made from now on; none for no limit.
pub(crate) fn set_limit(bytes: Option<usize>) {
    LIMIT.store(bytes.unwrap_or(usize::MAX), Ordering::Relaxed);
}

/// Gives an interpreter its limit, if there is to be one. Whether that could be done.
fn limit(interpreter: &Interpreter) -> bool {
    let limit = LIMIT.load(Ordering::Relaxed);
    limit == usize::MAX || interpreter.limit_memory(limit)
}

/// How many sub-interpreters there are, and how many are left that could not be ended.
pub(crate) fn counts() -> (usize, usize) {
    (ALIVE.load(Ordering::SeqCst), LEFT.load(Ordering::SeqCst))
}

/// `sys.path` as text: venvs that were activated, and our own packages, are on it.
fn module_path(py: Attached<'_>) -> PyResult<Vec<String>> {
    let path = import(py, c"sys")?.getattr_str(py, c"path")?;
    let mut texts = Vec::new();
    let iterator = path.getattr_str(py, c"__iter__")?.call0(py)?;
    while let Some(entry) = iterator.next(py)? {
        if entry.is_str() {
            texts.push(entry.to_string_lossy(py)?);
        }
    }
    Ok(texts)
}

/// Finds the modules that are part of this library: Python's own finder of built-in modules looks for top-level ones only, in some
/// releases (Debian's 3.11.2 is one).
///
/// And refuses to sub-interpreters of 3.12 what is not made for them, before it is loaded: that Python runs the first function of a
/// module before it refuses it, and `_decimal` for one corrupts memory when that is run a second time. Most have a stand-in in Python.
const FINDER: &CStr = c"
import importlib.machinery as machinery
import sys

refused = set()
if apart and sys.version_info < (3, 13):
    refused = {'_ctypes', '_curses', '_datetime', '_decimal', '_tkinter', 'ossaudiodev', 'readline'}

class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name in refused:
            raise ImportError(f'module {name} does not support loading in subinterpreters', name=name)
        if name.startswith('erlang.') and name in sys.builtin_module_names:
            return machinery.ModuleSpec(name, machinery.BuiltinImporter, origin='built-in')

sys.meta_path.insert(0, Finder)
";

/// Puts the packages on the path and imports what every request needs. The module `erlang._bridge`.
fn prepare(py: Attached<'_>, extra: &[String]) -> PyResult<Owned> {
    set_switch_interval(py, SWITCH_INTERVAL)?;
    let path = import(py, c"sys")?.getattr_str(py, c"path")?;
    if py.interpreter_id() != 0 {
        // All of the main one's, in its order.
        path.getattr_str(py, c"clear")?.call0(py)?;
    }
    for entry in extra {
        path.append(py, &Owned::fs_str(py, entry.as_bytes())?)?;
    }
    let scope = Owned::dict(py)?;
    let apart = Owned::bool(py, py.interpreter_id() != 0);
    scope.dict_set(py, &Owned::str(py, "apart")?, &apart)?;
    compile(py, FINDER, c"<erlang_python>", Source::Statements)?.run_code(py, &scope, &scope)?;
    import(py, c"erlang._beam")?;
    import(py, c"erlang._bridge")
}
