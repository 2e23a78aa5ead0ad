//! Terms become objects. `Python` is recursive and bounded by [`DEPTH`]; lists are walked, never recursed into.

use std::mem::MaybeUninit;

use pyo3_ffi as ffi;
use pyrt::{Attached, Owned};
use rustler::sys::{
    ErlNifBinary, ErlNifMapIterator, ErlNifMapIteratorEntry, ErlNifTerm, ErlNifTermType, enif_get_double,
    enif_get_int64, enif_get_list_cell, enif_get_map_size, enif_get_tuple, enif_inspect_binary,
    enif_map_iterator_create, enif_map_iterator_destroy, enif_map_iterator_get_pair, enif_map_iterator_next,
    enif_term_type,
};
use rustler::{ResourceArc, Term};

use super::{DEPTH, Refused, bignum};
use crate::atoms;
use crate::bridge::Bridge;
use crate::objects::Kept;

type Made<'a> = Result<Owned, Refused<'a>>;

/// The object of a term.
pub(crate) fn to_python<'a>(py: Attached<'_>, bridge: &Bridge, term: Term<'a>) -> Made<'a> {
    Walk { py, bridge, depth: 0 }.any(term)
}

struct Walk<'py, 'b> {
    py: Attached<'py>,
    bridge: &'b Bridge,
    depth: usize,
}

impl Walk<'_, '_> {
    fn any<'a>(&mut self, term: Term<'a>) -> Made<'a> {
        use ErlNifTermType as T;
        let env = term.get_env().as_c_arg();
        // SAFETY: a live environment and a term of it.
        match unsafe { enif_term_type(env, term.as_c_arg()) } {
            T::ERL_NIF_TERM_TYPE_ATOM => Ok(self.bridge.atom(self.py, term)?),
            T::ERL_NIF_TERM_TYPE_INTEGER => self.integer(term),
            T::ERL_NIF_TERM_TYPE_FLOAT => {
                let mut value = 0.0;
                // SAFETY: as above; a float is always read.
                unsafe { enif_get_double(env, term.as_c_arg(), &mut value) };
                Ok(Owned::float(self.py, value)?)
            }
            T::ERL_NIF_TERM_TYPE_BITSTRING => match slice(term) {
                Some(data) => match std::str::from_utf8(data) {
                    Ok(text) => Ok(Owned::str(self.py, text)?),
                    Err(_) => Ok(Owned::bytes(self.py, data)?),
                },
                None => Ok(self.bridge.opaque(self.py, term)?),
            },
            T::ERL_NIF_TERM_TYPE_LIST => self.deeper(|walk| walk.list(term)),
            T::ERL_NIF_TERM_TYPE_TUPLE => self.deeper(|walk| walk.tuple(term)),
            T::ERL_NIF_TERM_TYPE_MAP => self.deeper(|walk| walk.map(term)),
            T::ERL_NIF_TERM_TYPE_PID => Ok(self.bridge.pid(self.py, term)?),
            T::ERL_NIF_TERM_TYPE_REFERENCE => self.reference(term),
            _ => Ok(self.bridge.opaque(self.py, term)?),
        }
    }

    fn deeper<'a>(&mut self, f: impl FnOnce(&mut Self) -> Made<'a>) -> Made<'a> {
        if self.depth >= DEPTH {
            return Err(Refused::TooDeep);
        }
        self.depth += 1;
        let made = f(self);
        self.depth -= 1;
        made
    }

    fn integer<'a>(&mut self, term: Term<'a>) -> Made<'a> {
        let mut value = 0;
        // SAFETY: a live environment and a term of it; 0 says that it does not fit.
        if unsafe { enif_get_int64(term.get_env().as_c_arg(), term.as_c_arg(), &mut value) } != 0 {
            return Ok(Owned::int(self.py, value)?);
        }
        Ok(bignum::to_python(self.py, term)?)
    }

    /// A reference to an object of ours is that object.
    fn reference<'a>(&mut self, term: Term<'a>) -> Made<'a> {
        if let Ok(kept) = term.decode::<ResourceArc<Kept>>()
            && let Some(object) = kept.get(self.py)
        {
            return Ok(object);
        }
        Ok(self.bridge.reference(self.py, term)?)
    }

    fn list<'a>(&mut self, term: Term<'a>) -> Made<'a> {
        let env = term.get_env();
        let mut items: Vec<ErlNifTerm> = Vec::new();
        let (mut rest, mut head) = (term.as_c_arg(), term.as_c_arg());
        let mut tail = rest;
        // SAFETY: a live environment and terms of it; both words are written on success.
        while unsafe { enif_get_list_cell(env.as_c_arg(), rest, &mut head, &mut tail) } != 0 {
            items.push(head);
            rest = tail;
        }
        // SAFETY: as above.
        if unsafe { rustler::sys::enif_is_empty_list(env.as_c_arg(), rest) } == 0 {
            return Ok(self.bridge.opaque(self.py, term)?);
        }
        // SAFETY: attached; a new list of that many places.
        let list = unsafe { Owned::from_ptr(self.py, ffi::PyList_New(items.len() as isize))? };
        for (index, word) in items.into_iter().enumerate() {
            // SAFETY: a term of this environment.
            let item = self.any(unsafe { Term::new(env, word) })?;
            // SAFETY: a list nobody else has seen, each place filled once; unfilled ones are NULL, which its end allows for.
            unsafe { ffi::PyList_SET_ITEM(list.as_ptr(), index as isize, item.into_ptr()) };
        }
        Ok(list)
    }

    fn tuple<'a>(&mut self, term: Term<'a>) -> Made<'a> {
        let env = term.get_env();
        let (mut arity, mut items) = (0, std::ptr::null());
        // SAFETY: a live environment and a tuple of it; the array lives as long as the tuple.
        let items = unsafe {
            enif_get_tuple(env.as_c_arg(), term.as_c_arg(), &mut arity, &mut items);
            std::slice::from_raw_parts(if arity == 0 { std::ptr::dangling() } else { items }, arity as usize)
        };
        // `{bytes, Binary}` is a binary that stays one.
        if let [tag, data] = items
            && *tag == atoms::bytes().as_c_arg()
            // SAFETY: a term of this environment.
            && let Some(data) = slice(unsafe { Term::new(env, *data) })
        {
            return Ok(Owned::bytes(self.py, data)?);
        }
        // SAFETY: attached; a new tuple of that many places.
        let tuple = unsafe { Owned::from_ptr(self.py, ffi::PyTuple_New(items.len() as isize))? };
        for (index, &word) in items.iter().enumerate() {
            // SAFETY: a term of this environment.
            let item = self.any(unsafe { Term::new(env, word) })?;
            // SAFETY: a tuple nobody else has seen, each place filled once; its end allows for NULL.
            unsafe { ffi::PyTuple_SET_ITEM(tuple.as_ptr(), index as isize, item.into_ptr()) };
        }
        Ok(tuple)
    }

    fn map<'a>(&mut self, term: Term<'a>) -> Made<'a> {
        let env = term.get_env();
        let mut size = 0;
        // SAFETY: a live environment and a map of it.
        unsafe { enif_get_map_size(env.as_c_arg(), term.as_c_arg(), &mut size) };
        let dict = Owned::dict(self.py)?;
        let mut pairs = Pairs::new(term);
        while let Some((key, value)) = pairs.next() {
            let made = self.any(key)?;
            let value = self.any(value)?;
            // SAFETY: attached, a dict, live objects. A key that is there already stays as it is.
            let (before, status, after) = unsafe {
                let before = ffi::PyDict_Size(dict.as_ptr());
                let status = ffi::PyDict_SetItem(dict.as_ptr(), made.as_ptr(), value.as_ptr());
                (before, status, ffi::PyDict_Size(dict.as_ptr()))
            };
            if status < 0 {
                let raised = pyrt::Raised::set(self.py);
                if raised.matches(self.py, &pyrt::Kind::TypeError.class(self.py)) {
                    raised.clear(self.py);
                    return Err(Refused::Unhashable(key));
                }
                return Err(raised.into());
            }
            if before == after {
                return Err(Refused::Collision(key));
            }
        }
        Ok(dict)
    }
}

/// The pairs of a map.
struct Pairs<'a> {
    map: Term<'a>,
    iterator: Option<ErlNifMapIterator>,
}

impl<'a> Pairs<'a> {
    fn new(map: Term<'a>) -> Self {
        let mut iterator = MaybeUninit::uninit();
        let first = ErlNifMapIteratorEntry::ERL_NIF_MAP_ITERATOR_HEAD;
        // SAFETY: a live environment; written on success.
        let iterator = unsafe {
            (enif_map_iterator_create(map.get_env().as_c_arg(), map.as_c_arg(), iterator.as_mut_ptr(), first)
                != 0)
                .then(|| iterator.assume_init())
        };
        Self { map, iterator }
    }

    fn next(&mut self) -> Option<(Term<'a>, Term<'a>)> {
        let env = self.map.get_env();
        let iterator = self.iterator.as_mut()?;
        let (mut key, mut value) = (self.map.as_c_arg(), self.map.as_c_arg());
        // SAFETY: an iterator of a live map; both words are written on success.
        unsafe {
            if enif_map_iterator_get_pair(env.as_c_arg(), iterator, &mut key, &mut value) == 0 {
                return None;
            }
            enif_map_iterator_next(env.as_c_arg(), iterator);
            Some((Term::new(env, key), Term::new(env, value)))
        }
    }
}

impl Drop for Pairs<'_> {
    fn drop(&mut self) {
        if let Some(iterator) = self.iterator.as_mut() {
            // SAFETY: made by `new`, ended once.
            unsafe { enif_map_iterator_destroy(self.map.get_env().as_c_arg(), iterator) };
        }
    }
}

/// The bytes of a binary; `None` for a bitstring.
pub(crate) fn slice(term: Term<'_>) -> Option<&[u8]> {
    let mut binary = MaybeUninit::<ErlNifBinary>::uninit();
    // SAFETY: a live environment; filled on success. The bytes live as long as the term's environment.
    unsafe {
        if enif_inspect_binary(term.get_env().as_c_arg(), term.as_c_arg(), binary.as_mut_ptr()) == 0 {
            return None;
        }
        let binary = binary.assume_init();
        if binary.size == 0 {
            return Some(&[]);
        }
        Some(std::slice::from_raw_parts(binary.data, binary.size))
    }
}
