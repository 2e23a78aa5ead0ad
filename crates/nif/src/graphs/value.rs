//! `Value`: what goes along the edges of a graph. A term in an environment of its own that is only read, so it is shared, not copied.

use std::fmt;
use std::sync::Arc;

use rustler::types::tuple::get_tuple;
use rustler::{Encoder, Env, Term};

use crate::atoms;
use crate::beam::Mail;
use crate::terms::Saved;

/// A term that several nodes may have.
pub(crate) type Value = Arc<Saved>;

/// Why a node has no value, as a term.
pub(crate) struct Failure(pub(crate) Saved);

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0.get())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl std::error::Error for Failure {}

/// What a node comes to.
pub(super) type Outcome = Result<Value, Failure>;

/// The value of `{ok, Value}`, or why there is none, from `{error, Reason}`.
pub(super) fn outcome(mail: Mail, word: rustler::sys::ErlNifTerm) -> Outcome {
    // SAFETY: made in this mail.
    let parts = get_tuple(unsafe { mail.term(word) }).unwrap_or_default();
    let (good, word) = match parts.as_slice() {
        [tag, value] => (atoms::ok() == *tag, value.as_c_arg()),
        _ => (false, word),
    };
    let saved = Saved::made(mail, word);
    if good { Ok(Arc::new(saved)) } else { Err(Failure(saved)) }
}

/// A failure that is told by a word or a tuple.
pub(super) fn failure(reason: impl Encoder) -> Failure {
    Failure(made(|env| reason.encode(env)))
}

/// A term that is made here.
pub(super) fn made(make: impl for<'a> FnOnce(Env<'a>) -> Term<'a>) -> Saved {
    loop {
        // The VM ends when it has no memory, so it never fails.
        if let Some(mail) = Mail::new() {
            let word = make(mail.env()).as_c_arg();
            return Saved::made(mail, word);
        }
    }
}

/// The list of these.
pub(super) fn list<'v>(values: impl DoubleEndedIterator<Item = &'v Value>) -> Saved {
    made(|env| list_in(env, values))
}

pub(super) fn list_in<'a, 'v>(env: Env<'a>, values: impl DoubleEndedIterator<Item = &'v Value>) -> Term<'a> {
    values.rev().fold(Term::list_new_empty(env), |list, value| list.list_prepend(value.term(env)))
}

/// What a map node goes through: the items of the list that its first input is, each with the other inputs behind it.
pub(super) fn items(inputs: &[&Value]) -> Result<Vec<Value>, Failure> {
    let Some((first, others)) = inputs.split_first() else { return Err(failure(atoms::no_input())) };
    let list: Vec<Term<'_>> = first.get().decode().map_err(|_| failure(atoms::not_a_list()))?;
    let item = |item: Term<'_>| {
        made(|env| {
            let others = others.iter().rev().map(|other| other.term(env));
            others
                .fold(Term::list_new_empty(env), |list, other| list.list_prepend(other))
                .list_prepend(item.in_env(env))
        })
    };
    Ok(list.into_iter().map(|term| Arc::new(item(term))).collect())
}
