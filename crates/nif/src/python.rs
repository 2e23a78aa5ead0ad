//! Python itself: started once per VM, on a parked thread of its own that is Python's main thread. Never ended. `realm` has what
//! there is per interpreter.

use std::ffi::CString;
use std::sync::{Arc, Mutex, OnceLock, mpsc};

use pyrt::{Attached, Start};

use crate::bridge::{self, Bridge};
use crate::inbox::lock;
use crate::realm::Realm;
use crate::{sandbox, watch};

static MAIN: OnceLock<Arc<Realm>> = OnceLock::new();
static STARTING: Mutex<()> = Mutex::new(());

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
    if MAIN.get().is_some() {
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
    let realm = Realm::furnish(interpreter, std::slice::from_ref(&choice.packages))?;
    // Set once: `start` holds a lock and has looked.
    let _first = MAIN.set(realm);
    Ok(())
}

/// The main interpreter, once it is started.
pub(crate) fn main() -> Option<&'static Arc<Realm>> {
    MAIN.get()
}

/// Runs `f` attached to the main interpreter; `None` if Python was not started.
pub(crate) fn attach<R: Send>(f: impl FnOnce(Attached<'_>, &Bridge) -> R) -> Option<R> {
    main()?.attach(f)
}
