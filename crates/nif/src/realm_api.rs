//! The functions of `py_nif` about sub-interpreters. On schedulers, never attached.

use std::collections::HashMap;

use rustler::{Atom, Encoder, Env, Error, NifResult, ResourceArc, Term};

use crate::beam::Mail;
use crate::callback::Ticket;
use crate::context::Context;
use crate::pool::APART;
use crate::terms::Saved;
use crate::{atoms, python, realm};

/// A new context with an interpreter of its own, which ends with the calling process. That is sent `{py_context, Tag, ready}` when the
/// interpreter is there, or `{py_context, Tag, {error, Text}}`.
#[rustler::nif]
fn subinterp_start<'a>(env: Env<'a>, tag: Term<'a>) -> NifResult<Term<'a>> {
    if python::main().is_none() {
        return Ok((atoms::error(), atoms::not_started()).encode(env));
    }
    let owner = env.pid();
    let tag = Saved::new(tag).ok_or(Error::BadArg)?;
    let told = move |made: Result<(), String>| {
        let Some(mail) = Mail::new() else { return };
        let tag = tag.term(mail.env());
        let word = match made {
            Ok(()) => (atoms::py_context(), tag, atoms::ready()).encode(mail.env()),
            Err(text) => (atoms::py_context(), tag, (atoms::error(), text)).encode(mail.env()),
        };
        let word = word.as_c_arg();
        mail.send(owner, word);
    };
    let context = match Context::start_apart(told) {
        Ok(context) => ResourceArc::new(context),
        Err(error) => return Ok((atoms::error(), error.to_string()).encode(env)),
    };
    env.monitor(&context, &owner).ok_or(Error::BadArg)?;
    Ok((atoms::ok(), context).encode(env))
}

/// Whether the thread that waits for a callback has an interpreter of its own.
#[rustler::nif]
fn subinterp_waits(ticket: ResourceArc<Ticket>) -> bool {
    ticket.is_apart()
}

/// How many bytes each interpreter may have that is made from now on, besides what it begins with.
#[rustler::nif]
fn subinterp_memory(limit: Term<'_>) -> NifResult<Atom> {
    let bytes = if atoms::infinity() == limit { None } else { Some(limit.decode()?) };
    realm::set_limit(bytes);
    Ok(atoms::ok())
}

/// Whether there is a context with an interpreter of its own. Asked before every call, so it makes no map.
#[rustler::nif]
fn subinterp_ready() -> bool {
    APART.has_members()
}

/// How many contexts there are with an interpreter of their own, and what they are at; how many interpreters; and how many of
/// those could not be ended.
#[rustler::nif]
fn subinterp_stats() -> HashMap<Atom, u64> {
    let counts = APART.counts();
    let (alive, left) = realm::counts();
    HashMap::from([
        (atoms::contexts(), counts.contexts as u64),
        (atoms::idle(), counts.idle as u64),
        (atoms::awake(), counts.awake as u64),
        (atoms::bound(), counts.bound as u64),
        (atoms::queued(), counts.queued as u64),
        (atoms::interpreters(), alive as u64),
        (atoms::left(), left as u64),
    ])
}
