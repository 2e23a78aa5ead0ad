//! The functions of `py_nif` behind `py_reply`. On schedulers, dirty ones if there is much to copy.

use std::ffi::CStr;
use std::time::Duration;

use rustler::{Atom, Encoder, Env, Error, LocalPid, NifResult, Term};

use crate::atoms;
use crate::replies::{self, REPLIES, State};
use crate::weight::{self, Copies};

/// Registers `pid` as the one who waits for `name`, for so many milliseconds.
#[rustler::nif]
fn reply_register<'a>(env: Env<'a>, name: Term<'a>, pid: LocalPid, timeout: Term<'a>) -> NifResult<Term<'a>> {
    let timeout =
        if atoms::infinity() == timeout { None } else { Some(Duration::from_millis(timeout.decode()?)) };
    Ok(match replies::register(env, name, pid, timeout) {
        Ok(Some(reply)) => (atoms::ok(), reply).encode(env),
        Ok(None) => (atoms::error(), atoms::noproc()).encode(env),
        Err(refused) => (atoms::error(), Atom::from_str(env, replies::refused_as(refused))?).encode(env),
    })
}

/// Ends whoever waits for a name, or a certain waiter, with a `success`, an `error` or `cancelled`. Whether it was this call that did.
#[rustler::nif]
fn reply_end<'a>(env: Env<'a>, name: Term<'a>, state: Term<'a>, value: Term<'a>) -> NifResult<Term<'a>> {
    weight::run::<ReplyEnd>(env, &[name, state, value])
}

struct ReplyEnd;

impl Copies for ReplyEnd {
    const NAME: &'static CStr = c"reply_end";

    fn run<'a>(env: Env<'a>, args: &[Term<'a>]) -> NifResult<Term<'a>> {
        let &[name, state, value] = args else { return Err(Error::BadArg) };
        let state = State::named(&state.atom_to_string()?).ok_or(Error::BadArg)?;
        Ok(replies::end(env, name, state, value).encode(env))
    }
}

/// What has happened so far, and how many wait.
#[rustler::nif]
fn reply_counters(env: Env<'_>) -> NifResult<Term<'_>> {
    let counts = replies::counts();
    let pairs = counts.iter().map(|(name, number)| Ok((Atom::from_str(env, name)?, *number)));
    let pairs = pairs.collect::<NifResult<Vec<_>>>()?;
    Term::map_from_pairs(env, &pairs)
}

/// How many may wait at a time.
#[rustler::nif]
fn reply_limit(limit: usize) -> Atom {
    REPLIES.set_limit(limit);
    atoms::ok()
}
