//! Terms and objects, both ways: the table of the contract, with limits. Attached threads only.
//!
//! Nothing is lost silently: what has no counterpart is refused by name, and what Python cannot hold (an improper list, a
//! fun, a port, a bitstring) crosses as an opaque object that turns into the same term again.

mod atom;
mod bignum;
mod leaf;
mod map;
mod room;
mod to_python;
mod to_term;

use pyrt::{Attached, Kind, Raised};
use rustler::{Encoder, Env, Term};

pub(crate) use atom::{ATOM_LIMIT, existing_atom, make_atom, text_of, too_many_atoms};
pub(crate) use leaf::Leaf;
pub(crate) use room::TERM_LIMIT;
pub(crate) use to_python::{slice, to_python};
pub(crate) use to_term::{to_term, to_terms};

use crate::atoms;

/// How deep containers may be nested, in both directions: recursion is native, and stacks are small.
pub(crate) const DEPTH: usize = 1000;

/// Why a value did not cross.
pub(crate) enum Refused<'a> {
    /// Python raised; the exception is set.
    Raised(Raised),
    /// An object without a counterpart, by the name of its type.
    Unconvertible(String),
    /// Nested deeper than [`DEPTH`].
    TooDeep,
    /// It would take more bytes than this.
    TooLarge(usize),
    /// It contains itself.
    Cyclic,
    /// Two keys become one: this.
    Collision(Term<'a>),
    /// A key that Python cannot hash.
    Unhashable(Term<'a>),
}

impl From<Raised> for Refused<'_> {
    fn from(raised: Raised) -> Self {
        Self::Raised(raised)
    }
}

impl Refused<'_> {
    /// The reason as Erlang sees it; `Err` if Python raised, which has a reason of its own.
    pub(crate) fn reason<'b>(self, env: Env<'b>) -> Result<Term<'b>, Raised> {
        Ok(match self {
            Self::Raised(raised) => return Err(raised),
            Self::Unconvertible(class) => (atoms::unconvertible(), class).encode(env),
            Self::TooDeep => (atoms::too_deep(), DEPTH).encode(env),
            Self::TooLarge(limit) => (atoms::too_large(), limit).encode(env),
            Self::Cyclic => atoms::cyclic().encode(env),
            Self::Collision(key) => (atoms::key_collision(), key.in_env(env)).encode(env),
            Self::Unhashable(key) => (atoms::unhashable_key(), key.in_env(env)).encode(env),
        })
    }

    /// The same in another environment, that its own may end.
    fn in_env(self, env: Env<'_>) -> Refused<'_> {
        match self {
            Self::Raised(raised) => Refused::Raised(raised),
            Self::Unconvertible(class) => Refused::Unconvertible(class),
            Self::TooDeep => Refused::TooDeep,
            Self::TooLarge(limit) => Refused::TooLarge(limit),
            Self::Cyclic => Refused::Cyclic,
            Self::Collision(key) => Refused::Collision(key.in_env(env)),
            Self::Unhashable(key) => Refused::Unhashable(key.in_env(env)),
        }
    }

    /// The exception as Python sees it.
    pub(crate) fn raise(self, py: Attached<'_>) -> Raised {
        let (kind, text) = match self {
            Self::Raised(raised) => return raised,
            Self::Unconvertible(class) => {
                (Kind::TypeError, format!("{class} objects have no counterpart in Erlang"))
            }
            Self::TooDeep => (Kind::ValueError, format!("nested more than {DEPTH} deep")),
            Self::TooLarge(limit) => {
                (Kind::ValueError, format!("more than {limit} bytes as an Erlang term (term_limit)"))
            }
            Self::Cyclic => (Kind::ValueError, String::from("a container that contains itself")),
            Self::Collision(key) => (Kind::ValueError, format!("two keys become one: {key:?}")),
            Self::Unhashable(key) => (Kind::TypeError, format!("unhashable key: {key:?}")),
        };
        kind.raise(py, &text)
    }
}
