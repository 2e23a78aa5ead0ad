//! `Leaf`: a small value that is no container, outside of any environment. Made attached, turned into a term on any thread.

use std::mem::MaybeUninit;

use pyo3_ffi as ffi;
use pyrt::{Attached, Obj};
use rustler::sys::{ErlNifTerm, enif_make_double, enif_make_int64, enif_make_new_binary};
use rustler::{Env, Term};

use super::to_term::special;
use crate::atoms;

/// Longer text is no leaf.
const SHORT: usize = 30;

/// A small value.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Leaf {
    /// An atom: the same word in all environments.
    Atom(ErlNifTerm),
    Integer(i64),
    Float(f64),
    Binary(u8, [u8; SHORT]),
}

impl Leaf {
    /// The value of an object that has one: as `to_term` has it.
    pub(crate) fn of(py: Attached<'_>, object: &Obj) -> Option<Self> {
        Self::plain(object).or_else(|| Self::short(py, object))
    }

    /// `None`, truth values and numbers.
    #[inline]
    pub(super) fn plain(object: &Obj) -> Option<Self> {
        let pointer = object.as_ptr();
        // SAFETY: the object is alive, so this thread is attached; these look at the type's flags and at the value.
        unsafe {
            if ffi::PyLong_Check(pointer) != 0 {
                if pointer == ffi::Py_True() {
                    return Some(Self::Atom(rustler::types::atom::true_().as_c_arg()));
                }
                if pointer == ffi::Py_False() {
                    return Some(Self::Atom(rustler::types::atom::false_().as_c_arg()));
                }
                let mut overflow = 0;
                // An int is always read, or overflows.
                let value = ffi::PyLong_AsLongLongAndOverflow(pointer, &mut overflow);
                return (overflow == 0).then_some(Self::Integer(value));
            }
            if ffi::PyFloat_Check(pointer) != 0 {
                let value = ffi::PyFloat_AS_DOUBLE(pointer);
                return Some(if value.is_finite() { Self::Float(value) } else { Self::Atom(special(value)) });
            }
            (pointer == ffi::Py_None()).then(|| Self::Atom(atoms::none().as_c_arg()))
        }
    }

    /// Short text and bytes.
    fn short(py: Attached<'_>, object: &Obj) -> Option<Self> {
        // SAFETY: alive; these look at the type's flags.
        let (is_text, is_bytes) =
            unsafe { (ffi::PyUnicode_Check(object.as_ptr()) != 0, ffi::PyBytes_Check(object.as_ptr()) != 0) };
        let data = if is_text {
            object.to_str(py).map(str::as_bytes)
        } else if is_bytes {
            object.to_bytes(py)
        } else {
            return None;
        };
        let data = data.map_err(|raised| raised.clear(py)).ok()?;
        let mut room = [0; SHORT];
        room.get_mut(..data.len())?.copy_from_slice(data);
        Some(Self::Binary(u8::try_from(data.len()).ok()?, room))
    }

    /// The term.
    #[inline]
    pub(crate) fn term(self, env: Env<'_>) -> Term<'_> {
        let raw = env.as_c_arg();
        // SAFETY: a live environment, and words made in it.
        unsafe {
            let word = match self {
                Self::Atom(word) => word,
                Self::Integer(value) => enif_make_int64(raw, value),
                Self::Float(value) => enif_make_double(raw, value),
                Self::Binary(size, data) => {
                    let mut word = MaybeUninit::<ErlNifTerm>::uninit();
                    let room = enif_make_new_binary(raw, usize::from(size), word.as_mut_ptr());
                    std::ptr::copy_nonoverlapping(data.as_ptr(), room, usize::from(size).min(SHORT));
                    word.assume_init()
                }
            };
            Term::new(env, word)
        }
    }
}
