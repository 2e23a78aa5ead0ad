//! Exceptions on their way to Erlang: class, text and traceback. The tracebacks of the latest are kept for `py:format_error/1`.

use std::collections::VecDeque;
use std::sync::Mutex;

use pyrt::{Attached, Exception, Obj, PyResult, Raised};
use rustler::{Encoder, Env, Term};

use crate::atoms;
use crate::bridge::Bridge;
use crate::convert::{existing_atom, make_atom};
use crate::inbox::lock;

/// How many tracebacks are kept.
const KEPT: usize = 512;

/// What CPython says when a sub-interpreter refuses an extension module, or a daemon thread.
const REFUSALS: [&str; 2] = ["does not support loading in subinterpreters", "(sub)interpreter"];
/// What is said besides.
const ELSEWHERE: &str =
    " (this is a sub-interpreter; the main interpreter allows it: py:call, not py:parallel)";

struct Traceback {
    class: String,
    text: String,
    traceback: String,
}

static TRACEBACKS: Mutex<VecDeque<Traceback>> = Mutex::new(VecDeque::new());

/// The traceback of the latest exception of this class with this text.
pub(crate) fn traceback(class: &str, text: &str) -> Option<String> {
    let kept = lock(&TRACEBACKS);
    kept.iter().rev().find(|one| one.class == class && one.text == text).map(|one| one.traceback.clone())
}

/// An exception as text, outside of Python.
pub(crate) struct Thrown {
    class: String,
    text: String,
    builtin: bool,
    /// It was us who stopped it.
    interrupted: bool,
    traceback: String,
}

impl Thrown {
    /// Takes the exception out of the error indicator.
    pub(crate) fn new(py: Attached<'_>, bridge: &Bridge, raised: Raised) -> Self {
        let exception = raised.take(py);
        let value = exception.value();
        let class = value.class_name(py);
        let mut text = text_of(py, &exception);
        if bridge.home.id() != 0 && REFUSALS.iter().any(|refusal| text.contains(refusal)) {
            text.push_str(ELSEWHERE);
        }
        if text.is_empty()
            && class == "MemoryError"
            && let Some(limit) = bridge.home.memory_limit()
        {
            text = format!("this interpreter may have {limit} bytes (subinterp_memory_limit)");
        }
        let traceback = traceback_of(py, bridge, &value).unwrap_or_else(|raised| {
            raised.clear(py);
            format!("{class}: {text}")
        });
        let builtin = is_builtin(py, &class, &value.class(py)).unwrap_or_else(|raised| {
            raised.clear(py);
            false
        });
        let interrupted = bridge.interrupted.get(py).map(|class| exception.matches(py, &class));
        let interrupted = interrupted.unwrap_or_else(|raised| {
            raised.clear(py);
            false
        });
        let mut kept = lock(&TRACEBACKS);
        if kept.len() >= KEPT {
            kept.pop_front();
        }
        kept.push_back(Traceback { class: class.clone(), text: text.clone(), traceback: traceback.clone() });
        drop(kept);
        Self { class, text, builtin, interrupted, traceback }
    }

    /// `{Class, Text}`; the class is an atom if it is built in, or if that atom exists.
    ///
    /// Code that was stopped from Erlang has `interrupted` as its reason.
    pub(crate) fn reason<'a>(&self, env: Env<'a>) -> Term<'a> {
        if self.interrupted {
            return atoms::interrupted().encode(env);
        }
        let class = if self.builtin { make_atom(env, &self.class) } else { existing_atom(env, &self.class) };
        let class = class.unwrap_or_else(|| self.class.encode(env));
        (class, &self.text).encode(env)
    }

    /// With its traceback, as Python would print it.
    pub(crate) fn into_traceback(self) -> String {
        self.traceback
    }

    /// For those that nobody waits for.
    pub(crate) fn report(&self, _py: Attached<'_>) {
        crate::output::report(&format!("py: an exception in a cast\n{}", self.traceback));
    }
}

fn text_of(py: Attached<'_>, exception: &Exception) -> String {
    let text: PyResult<String> = exception.value().str(py).and_then(|text| text.to_string_lossy(py));
    text.unwrap_or_else(|raised| {
        raised.clear(py);
        String::from("<no text>")
    })
}

fn traceback_of(py: Attached<'_>, bridge: &Bridge, value: &Obj) -> PyResult<String> {
    bridge.describe.get(py)?.call1(py, value)?.to_string_lossy(py)
}

fn is_builtin(py: Attached<'_>, name: &str, class: &Obj) -> PyResult<bool> {
    let builtins = pyrt::import(py, c"builtins")?;
    let found = builtins.getattr_opt(py, &pyrt::Owned::str(py, name)?)?;
    Ok(found.is_some_and(|found| found.is(class)))
}
