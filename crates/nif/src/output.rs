//! What Python prints and logs, on its way to Erlang. Any attached thread; nothing here waits, except for [`end`] and a writer
//! that is far ahead of its readers.
//!
//! Text is kept per thread until its line is whole, so that lines of several threads never mix. It goes to `py_output`, which
//! knows the caller's group leader; logged events go to `py_logger`. What they have not dealt with yet is counted: a writer waits
//! beyond [`AHEAD`], and events are dropped beyond [`EVENTS`], since a logger must never hold up the code that logs.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicUsize, Ordering};

use pyrt::{Args, Attached, Fault, Owned, PyResult};
use rustler::sys::enif_whereis_pid;
use rustler::{Atom, Encoder, LocalPid};

use crate::atoms;
use crate::beam::Mail;
use crate::bridge::Bridge;
use crate::callback;
use crate::convert::to_term;
use crate::runner::Runner;
use crate::stats::STATS;

/// A line that is longer is sent in parts.
const LONGEST: usize = 64 << 10;
/// How many bytes may be on their way before a writer waits.
const AHEAD: usize = 1 << 20;
/// How many events may be.
const EVENTS: usize = 10_000;

/// What was sent and not dealt with yet: bytes of output, events.
pub(crate) static BYTES_AHEAD: AtomicUsize = AtomicUsize::new(0);
pub(crate) static EVENTS_AHEAD: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// The beginnings of lines of `stdout` and `stderr`.
    static BEGUN: RefCell<[String; 2]> = const { RefCell::new([String::new(), String::new()]) };
    /// Whether anything was sent since the last request ended.
    static SENT: Cell<bool> = const { Cell::new(false) };
}

fn named(name: Atom) -> Option<LocalPid> {
    let mut pid = core::mem::MaybeUninit::uninit();
    // SAFETY: a thread of ours passes no environment; written on success.
    unsafe {
        (enif_whereis_pid(core::ptr::null_mut(), name.as_c_arg(), pid.as_mut_ptr()) != 0)
            .then(|| LocalPid::from_c_arg(pid.assume_init()))
    }
}

fn send(stream: usize, text: &str) {
    let caller = Runner::caller_here();
    let to = named(atoms::py_output());
    let sent = to.zip(Mail::new()).is_some_and(|(to, mail)| {
        let env = mail.env();
        let caller = caller.map_or_else(|| atoms::undefined().encode(env), |pid| pid.encode(env));
        let word = (atoms::py_output(), caller, text).encode(env).as_c_arg();
        BYTES_AHEAD.fetch_add(text.len(), Ordering::Relaxed);
        SENT.set(true);
        mail.send(to, word)
    });
    // The application is not running: the VM's own.
    if !sent {
        if stream == 0 { print!("{text}") } else { eprint!("{text}") }
    }
}

/// `write(stream, text)`: 0 is `stdout`, 1 `stderr`.
pub(crate) fn write(py: Attached<'_>, bridge: &Bridge, args: Args<'_>) -> PyResult<()> {
    let &[stream, text] = args.positional() else {
        return Err(Fault::type_error("write() takes a stream and a text").raise(py));
    };
    let (stream, text) = (stream.to_usize(py)?, text.to_str(py)?);
    let whole = BEGUN.with_borrow_mut(|begun| {
        let begun = begun.get_mut(stream)?;
        match text.rfind('\n') {
            Some(end) => {
                let (lines, rest) = text.split_at(end + 1);
                begun.push_str(lines);
                Some(std::mem::replace(begun, rest.to_owned()))
            }
            None => {
                begun.push_str(text);
                (begun.len() > LONGEST).then(|| std::mem::take(begun))
            }
        }
    });
    if let Some(whole) = whole {
        send(stream, &whole);
        if BYTES_AHEAD.load(Ordering::Relaxed) > AHEAD {
            let name = Owned::str(py, "py.output.catch_up")?;
            callback::call(py, bridge, name.borrow(), &[])?;
        }
    }
    Ok(())
}

/// Sends the beginnings of lines too.
pub(crate) fn flush() {
    for stream in 0..2 {
        let begun = BEGUN.with_borrow_mut(|begun| begun.get_mut(stream).map(std::mem::take));
        if let Some(begun) = begun.filter(|begun| !begun.is_empty()) {
            send(stream, &begun);
        }
    }
}

/// `flush()`.
pub(crate) fn flush_all(_py: Attached<'_>, _bridge: &Bridge, _args: Args<'_>) -> PyResult<()> {
    flush();
    Ok(())
}

/// A request ends: what it printed is with the group leader before its caller has the answer.
pub(crate) fn end(py: Attached<'_>, bridge: &Bridge, waited_for: bool) {
    flush();
    if !SENT.replace(false) || !waited_for {
        return;
    }
    let told = Owned::str(py, "py.output.told")
        .and_then(|name| callback::call(py, bridge, name.borrow(), &[]).map(drop));
    if let Err(raised) = told {
        // The caller has given up, or the application ends.
        raised.clear(py);
    }
}

/// `log(level, text, metadata)`: false if it was dropped.
pub(crate) fn log(py: Attached<'_>, bridge: &Bridge, args: Args<'_>) -> PyResult<bool> {
    let &[level, text, metadata] = args.positional() else {
        return Err(Fault::type_error("log() takes a level, a text and metadata").raise(py));
    };
    let mail = Mail::new().ok_or_else(|| Fault::Memory.raise(py))?;
    let level = level.to_i64(py)?;
    let text = text.to_string_lossy(py)?;
    let word = {
        let env = mail.env();
        let metadata = to_term(py, bridge, env, &metadata).map_err(|refused| refused.raise(py))?;
        (atoms::py_log(), level, text, metadata).encode(env).as_c_arg()
    };
    let Some(to) = named(atoms::py_logger()) else { return Ok(false) };
    if EVENTS_AHEAD.load(Ordering::Relaxed) >= EVENTS {
        STATS.dropped_events.fetch_add(1, Ordering::Relaxed);
        return Ok(false);
    }
    EVENTS_AHEAD.fetch_add(1, Ordering::Relaxed);
    Ok(mail.send(to, word))
}

/// What nobody waits for, and somebody should see.
pub(crate) fn report(text: &str) {
    const ERROR: i64 = 40;
    let Some((to, mail)) = named(atoms::py_logger()).zip(Mail::new()) else {
        eprintln!("{text}");
        return;
    };
    let nothing = rustler::types::map::map_new(mail.env());
    let word = (atoms::py_log(), ERROR, text, nothing).encode(mail.env()).as_c_arg();
    EVENTS_AHEAD.fetch_add(1, Ordering::Relaxed);
    mail.send(to, word);
}

/// So much was dealt with.
pub(crate) fn caught_up(counter: &AtomicUsize, amount: usize) {
    let less = |ahead: usize| Some(ahead.saturating_sub(amount));
    // Never fails: the function always has a value.
    let _before = counter.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
}
