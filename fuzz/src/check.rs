//! What must hold for any input: nothing crashes, what is refused says why, and what has crossed once crosses again unchanged.

use pyrt::{Attached, Obj, Owned, Raised, import_from};
use rustler::sys::enif_is_identical;
use rustler::{Env, Term};

use super::recipe;
use crate::beam::Mail;
use crate::bridge::Bridge;
use crate::convert::{Leaf, Refused, to_python, to_term};
use crate::python;

/// Looks at one input. Its first byte says which way it goes.
pub(super) fn input(py: Attached<'_>, bridge: &Bridge, data: &[u8]) {
    if let Some(main) = python::main() {
        main.interpreter().drain(py);
    }
    match data.split_first() {
        Some((way, data)) if way % 2 == 0 => from_term(py, bridge, data),
        Some((_, data)) => from_object(py, bridge, data),
        None => {}
    }
    if Raised::check_occurred(py).is_err() {
        panic!("an exception was left behind: {}", Raised::set(py).take(py).describe(py));
    }
}

fn from_term(py: Attached<'_>, bridge: &Bridge, data: &[u8]) {
    let mail = Mail::new().expect("an environment");
    match to_python(py, bridge, recipe::term(mail.env(), data)) {
        Ok(object) => settle(py, bridge, &object),
        Err(refused) => {
            assert!(!matches!(refused, Refused::Cyclic | Refused::Unconvertible(_)), "no term is that");
            explain(py, refused, false);
        }
    }
}

fn from_object(py: Attached<'_>, bridge: &Bridge, data: &[u8]) {
    let object = make(py, data).unwrap_or_else(|raised| panic!("not made: {}", raised.take(py).describe(py)));
    let mail = Mail::new().expect("an environment");
    let made = to_term(py, bridge, mail.env(), &object);
    small(py, &object, made.as_ref().ok().copied());
    match made {
        // A key that was hashed may be a list now, and two keys one; nothing else may go wrong on the way back.
        Ok(term) => match to_python(py, bridge, term) {
            Ok(object) => settle(py, bridge, &object),
            Err(refused) => {
                assert!(matches!(refused, Refused::Collision(..) | Refused::Unhashable(_)));
                explain(py, refused, false);
            }
        },
        Err(refused) => explain(py, refused, true),
    }
}

/// The object that `fuzz_objects.build` makes of an input.
fn make(py: Attached<'_>, data: &[u8]) -> pyrt::PyResult<Owned> {
    import_from(py, c"fuzz_objects", c"build")?.call1(py, &Owned::bytes(py, data)?)
}

/// An object that came from a term becomes one, and that one stays as it is: the first way may lose (an atom is text, `{bytes, B}` is
/// `B`), all others may not.
fn settle(py: Attached<'_>, bridge: &Bridge, object: &Obj) {
    let mail = Mail::new().expect("an environment");
    let first = match to_term(py, bridge, mail.env(), object) {
        Ok(term) => term,
        // Text and bytes are two keys in Python, and one in Erlang.
        Err(refused) => {
            assert!(matches!(refused, Refused::Collision(..)), "what came from a term becomes one");
            return explain(py, refused, false);
        }
    };
    small(py, object, Some(first));
    let again = to_python(py, bridge, first).unwrap_or_else(|refused| lost(py, refused));
    let second = to_term(py, bridge, mail.env(), &again).unwrap_or_else(|refused| lost(py, refused));
    assert!(same(first, second), "{first:?} has become {second:?}");
}

/// What is small enough to be left in a slot is the same term there.
fn small(py: Attached<'_>, object: &Obj, term: Option<Term<'_>>) {
    let Some(leaf) = Leaf::of(py, object) else { return };
    let mail = Mail::new().expect("an environment");
    let small = leaf.term(mail.env());
    assert!(term.is_some_and(|term| same(term, small)), "left as {small:?}, made as {term:?}");
}

fn same(one: Term<'_>, other: Term<'_>) -> bool {
    // SAFETY: two live terms.
    unsafe { enif_is_identical(one.as_c_arg(), other.as_c_arg()) != 0 }
}

fn lost<T>(py: Attached<'_>, refused: Refused<'_>) -> T {
    panic!("what has crossed does not cross again: {}", refused.raise(py).take(py).describe(py))
}

/// A refusal has a reason for Erlang and an exception for Python. Python code may have raised only where there was any.
fn explain(py: Attached<'_>, refused: Refused<'_>, foreign: bool) {
    let raised = match refused {
        Refused::Raised(raised) => {
            assert!(foreign, "Python raised: {}", raised.take(py).describe(py));
            raised
        }
        refused => {
            reason_of(&refused);
            refused.raise(py)
        }
    };
    assert!(!raised.take(py).describe(py).is_empty());
}

fn reason_of(refused: &Refused<'_>) {
    let mail = Mail::new().expect("an environment");
    let env: Env<'_> = mail.env();
    let twin = match refused {
        Refused::Unconvertible(class) => Refused::Unconvertible(class.clone()),
        Refused::Collision(key) => Refused::Collision(*key),
        Refused::Unhashable(key) => Refused::Unhashable(*key),
        Refused::Cyclic => Refused::Cyclic,
        Refused::TooLarge(limit) => Refused::TooLarge(*limit),
        Refused::TooDeep | Refused::Raised(_) => Refused::TooDeep,
    };
    assert!(twin.reason(env).is_ok());
}
