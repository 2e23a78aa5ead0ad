//! `Small`: the call of a function with a few atoms and numbers, outside of any environment. Made on a scheduler, called on any
//! attached thread.
//!
//! The VM gives every environment that a term is copied into 200 words at least, and a message keeps them until the receiver's next
//! collection. Ten thousand tasks were 16 MB that way, mapped and unmapped again and again. What is small needs none of it: it travels
//! in the request itself.

use pyrt::{Attached, Owned, PyResult};
use rustler::sys::ErlNifTerm;
use rustler::{Env, Term, TermType};

use crate::bridge::Bridge;
use crate::request::Op;

/// So many arguments take no more room than the words of four terms.
const MOST: usize = 2;

/// What a word is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    None,
    Atom,
    Integer,
    Float,
}

/// A word, by its kind: that lies apart, where a request has room.
#[derive(Clone, Copy)]
pub(crate) union Word {
    pub(crate) term: ErlNifTerm,
    integer: i64,
    float: f64,
}

/// A function named by atoms, and its arguments.
#[derive(Clone, Copy)]
pub(crate) struct Small {
    /// The module and the function: atoms are the same word in all environments. Then the arguments.
    pub(crate) words: [Word; 2 + MOST],
    pub(crate) kinds: Kinds,
}

/// What the arguments are.
pub(crate) type Kinds = [Kind; MOST];

/// The objects of its arguments.
pub(crate) struct Arguments([Option<Owned>; MOST]);

impl Small {
    /// `None` for what needs an environment.
    pub(crate) fn of(op: Op, terms: [Term<'_>; 4]) -> Option<Self> {
        let [module, function, args, kwargs] = terms;
        if op != Op::Task || !module.is_atom() || !function.is_atom() || kwargs.map_size().ok()? > 0 {
            return None;
        }
        let name = |term: Term<'_>| Word { term: term.as_c_arg() };
        let mut words = [name(module), name(function), Word { integer: 0 }, Word { integer: 0 }];
        let mut kinds = [Kind::None; MOST];
        let mut rest = args;
        for (word, kind) in words.iter_mut().skip(2).zip(&mut kinds) {
            let Ok((head, tail)) = rest.list_get_cell() else { break };
            (*word, *kind) = match head.get_type() {
                TermType::Atom => (name(head), Kind::Atom),
                TermType::Integer => (Word { integer: head.decode().ok()? }, Kind::Integer),
                TermType::Float => (Word { float: head.decode().ok()? }, Kind::Float),
                _ => return None,
            };
            rest = tail;
        }
        rest.is_empty_list().then_some(Self { words, kinds })
    }

    /// The names of the module and of the function.
    pub(crate) fn names<'a>(&self, env: Env<'a>) -> [Term<'a>; 2] {
        let [module, function, ..] = self.words;
        // SAFETY: atoms, which are the same in all environments.
        [module, function].map(|word| unsafe { Term::new(env, word.term) })
    }

    /// The objects of its arguments. `env` is any.
    pub(crate) fn arguments(&self, py: Attached<'_>, bridge: &Bridge, env: Env<'_>) -> PyResult<Arguments> {
        let object = |word: Word, kind| match kind {
            Kind::None => Ok(None),
            // SAFETY: written as what its kind says; as to the atom, see above.
            Kind::Atom => bridge.atom(py, unsafe { Term::new(env, word.term) }).map(Some),
            // SAFETY: written as what its kind says.
            Kind::Integer => Owned::int(py, unsafe { word.integer }).map(Some),
            // SAFETY: written as what its kind says.
            Kind::Float => Owned::float(py, unsafe { word.float }).map(Some),
        };
        let ([_, _, first, second], [one, other]) = (self.words, self.kinds);
        Ok(Arguments([object(first, one)?, object(second, other)?]))
    }
}

impl Arguments {
    /// Calls a function with them.
    pub(crate) fn call(&self, py: Attached<'_>, function: &Owned) -> PyResult<Owned> {
        match &self.0 {
            [Some(first), Some(second)] => function.call(py, [first.borrow(), second.borrow()]),
            [Some(first), None] => function.call1(py, first),
            [None, _] => function.call0(py),
        }
    }
}
