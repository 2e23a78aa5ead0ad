//! Objects become terms. Recursive and bounded by [`DEPTH`]; dicts and lists that change meanwhile are read item by item, each
//! held while it is looked at.

use std::mem::MaybeUninit;

use pyo3_ffi as ffi;
use pyrt::{Attached, Borrowed, Buffer, Fault, Obj, Owned};
use rustler::sys::{
    ErlNifTerm, enif_make_list_cell, enif_make_list_from_array, enif_make_new_binary,
    enif_make_tuple_from_array,
};
use rustler::{Env, Term};

use super::map::{self, Growing};
use super::room::Room;
use super::{DEPTH, Leaf, Refused, bignum};
use crate::atoms;
use crate::bridge::Bridge;
use crate::objects::{LARGE, Lent};

/// The term of an object, made in `env`.
pub(crate) fn to_term<'a>(
    py: Attached<'_>,
    bridge: &Bridge,
    env: Env<'a>,
    object: &Obj,
) -> Result<Term<'a>, Refused<'a>> {
    let word = Walk { py, bridge, env, above: Vec::new(), room: Room::new() }.any(object)?;
    // SAFETY: made in this environment.
    Ok(unsafe { Term::new(env, word) })
}

/// The list of the terms of several objects.
pub(crate) fn to_terms<'a>(
    py: Attached<'_>,
    bridge: &Bridge,
    env: Env<'a>,
    objects: &[Borrowed<'_>],
) -> Result<Term<'a>, Refused<'a>> {
    let mut walk = Walk { py, bridge, env, above: Vec::new(), room: Room::new() };
    let words = objects.iter().map(|object| walk.any(object)).collect::<Result<Vec<_>, _>>()?;
    // SAFETY: a live environment and words made in it.
    Ok(unsafe {
        Term::new(env, enif_make_list_from_array(env.as_c_arg(), words.as_ptr(), words.len() as u32))
    })
}

struct Walk<'py, 'b, 'a> {
    py: Attached<'py>,
    bridge: &'b Bridge,
    env: Env<'a>,
    /// The containers we are in, to tell a cycle from depth.
    above: Vec<*mut ffi::PyObject>,
    room: Room,
}

type Word<'a> = Result<ErlNifTerm, Refused<'a>>;

impl<'a> Walk<'_, '_, 'a> {
    fn any(&mut self, object: &Obj) -> Word<'a> {
        if let Some(leaf) = Leaf::plain(object) {
            return Ok(leaf.term(self.env).as_c_arg());
        }
        let pointer = object.as_ptr();
        // SAFETY: attached and alive; these look at the type's flags.
        unsafe {
            if ffi::PyUnicode_Check(pointer) != 0 {
                return self.text(object);
            }
            if ffi::PyLong_Check(pointer) != 0 {
                return self.integer(object);
            }
            if ffi::PyList_Check(pointer) != 0 {
                return self.deeper(object, Self::list);
            }
            if ffi::PyTuple_Check(pointer) != 0 {
                return self.deeper(object, Self::tuple);
            }
            if ffi::PyDict_Check(pointer) != 0 {
                return self.deeper(object, Self::dict);
            }
            if ffi::PyBytes_Check(pointer) != 0 {
                // SAFETY: `bytes` never change.
                return self.lend(object, object.to_bytes(self.py)?);
            }
            if ffi::PyByteArray_Check(pointer) != 0 || ffi::PyMemoryView_Check(pointer) != 0 {
                return self.buffer(object);
            }
            if ffi::PyAnySet_Check(pointer) != 0 {
                return self.deeper(object, Self::set);
            }
        }
        self.rare(object)
    }

    fn rare(&mut self, object: &Obj) -> Word<'a> {
        if let Some(term) = self.bridge.term_of(self.env, object.borrow()) {
            return Ok(term.as_c_arg());
        }
        if self.bridge.is_moment(self.py, object)? {
            let text = object.getattr_str(self.py, c"isoformat")?.call0(self.py)?;
            return self.text(&text);
        }
        Err(Refused::Unconvertible(object.class_name(self.py)))
    }

    fn deeper(&mut self, object: &Obj, f: impl FnOnce(&mut Self, &Obj) -> Word<'a>) -> Word<'a> {
        let pointer = object.as_ptr();
        if self.above.len() >= DEPTH {
            let cyclic = self.above.contains(&pointer);
            return Err(if cyclic { Refused::Cyclic } else { Refused::TooDeep });
        }
        self.above.push(pointer);
        let word = f(self, object);
        self.above.pop();
        word
    }

    /// Of more than 64 bits.
    fn integer(&mut self, object: &Obj) -> Word<'a> {
        match bignum::to_term(self.py, self.env, object, &mut self.room)? {
            Some(term) => Ok(term.as_c_arg()),
            None => Err(Refused::Unconvertible(String::from("int beyond the limit of the VM"))),
        }
    }

    fn text(&mut self, object: &Obj) -> Word<'a> {
        match object.to_str(self.py) {
            // SAFETY: a `str` keeps its UTF-8 once it is made, and never changes.
            Ok(text) => unsafe { self.lend(object, text.as_bytes()) },
            Err(raised) => {
                raised.clear(self.py);
                // What `isoformat` gave may be anything.
                let text = object.is_str().then(|| String::from("str with lone surrogates"));
                Err(Refused::Unconvertible(text.unwrap_or_else(|| object.class_name(self.py))))
            }
        }
    }

    /// A binary of data that lies in an object, without a copy if it is large.
    ///
    /// # Safety
    /// As for [`Lent::binary`].
    unsafe fn lend(&mut self, object: &Obj, data: &[u8]) -> Word<'a> {
        if data.len() >= LARGE {
            // SAFETY: by contract.
            let lent = unsafe { Lent::binary(self.py, self.env, object.clone_ref(self.py), data) };
            if let Some(lent) = lent {
                return Ok(lent.as_c_arg());
            }
        }
        self.binary(data)
    }

    fn binary(&mut self, data: &[u8]) -> Word<'a> {
        self.room.bytes(data.len())?;
        let mut word = MaybeUninit::<ErlNifTerm>::uninit();
        // SAFETY: a live environment; room for that many bytes is given, and filled.
        unsafe {
            let place = enif_make_new_binary(self.env.as_c_arg(), data.len(), word.as_mut_ptr());
            std::ptr::copy_nonoverlapping(data.as_ptr(), place, data.len());
            Ok(word.assume_init())
        }
    }

    fn buffer(&mut self, object: &Obj) -> Word<'a> {
        match Buffer::read(self.py, object) {
            Ok(buffer) => self.binary(buffer.as_slice()),
            Err(raised) => {
                raised.clear(self.py);
                // A view with gaps: its own copy has none.
                let copy = object.getattr_str(self.py, c"tobytes")?.call0(self.py)?;
                self.binary(copy.to_bytes(self.py)?)
            }
        }
    }

    fn list(&mut self, object: &Obj) -> Word<'a> {
        // SAFETY: attached, a list.
        let mut index = unsafe { ffi::PyList_Size(object.as_ptr()) };
        self.room.places(index.unsigned_abs())?;
        // SAFETY: a live environment.
        let mut list = unsafe { enif_make_list_from_array(self.env.as_c_arg(), std::ptr::null(), 0) };
        // From behind, a cell at a time: an array of binaries would take a heap fragment each.
        while index > 0 {
            index -= 1;
            // SAFETY: attached, a list; a new reference, or NULL if the list has shrunk.
            let item = unsafe {
                let item = ffi::compat::PyList_GetItemRef(object.as_ptr(), index);
                Owned::from_ptr(self.py, item)?
            };
            let word = self.any(&item)?;
            // SAFETY: a live environment and words made in it.
            list = unsafe { enif_make_list_cell(self.env.as_c_arg(), word, list) };
        }
        Ok(list)
    }

    fn tuple(&mut self, object: &Obj) -> Word<'a> {
        let items = object.as_tuple(self.py)?;
        self.room.places(items.len() + 1)?;
        let mut words = Vec::with_capacity(items.len());
        for item in items {
            words.push(self.any(item)?);
        }
        // SAFETY: a live environment and words made in it.
        Ok(unsafe { enif_make_tuple_from_array(self.env.as_c_arg(), words.as_ptr(), words.len() as u32) })
    }

    fn dict(&mut self, object: &Obj) -> Word<'a> {
        // The items are held by a list of their own, so a conversion that runs Python code may change the dict.
        // SAFETY: attached, a dict (or a subclass, whose own storage is meant); a new reference or NULL.
        let items = unsafe { Owned::from_ptr(self.py, ffi::PyDict_Items(object.as_ptr()))? };
        // SAFETY: attached, a list that nobody else has.
        let size = unsafe { ffi::PyList_Size(items.as_ptr()) };
        self.room.places(size.unsigned_abs().saturating_mul(2) + 1)?;
        if size as usize > map::AT_ONCE {
            return self.large_dict(&items, size);
        }
        let (mut keys, mut values) = (Vec::with_capacity(size as usize), Vec::with_capacity(size as usize));
        for index in 0..size {
            // SAFETY: within the list, which keeps the pair alive.
            let pair =
                unsafe { Borrowed::from_ptr_unchecked(self.py, ffi::PyList_GET_ITEM(items.as_ptr(), index)) };
            if let [key, value] = pair.as_tuple(self.py)? {
                keys.push(self.any(key)?);
                values.push(self.any(value)?);
            }
        }
        // SAFETY: as many keys as values, made in this environment.
        unsafe { map::at_once(self.env, &keys, &values) }.ok_or_else(|| self.collision(&keys))
    }

    /// A dict of more items than are made into a map at once.
    fn large_dict(&mut self, items: &Owned, size: isize) -> Word<'a> {
        let mut map = Growing::new().ok_or_else(|| Fault::Memory.raise(self.py))?;
        for index in 0..size {
            // SAFETY: within the list, which keeps the pair alive.
            let pair =
                unsafe { Borrowed::from_ptr_unchecked(self.py, ffi::PyList_GET_ITEM(items.as_ptr(), index)) };
            let [key, value] = pair.as_tuple(self.py)? else { continue };
            let above = std::mem::take(&mut self.above);
            let mut walk = Walk { py: self.py, bridge: self.bridge, env: map.env(), above, room: self.room };
            let made = walk.any(key).and_then(|key| Ok((key, walk.any(value)?)));
            (self.above, self.room) = (walk.above, walk.room);
            let (key, value) = made.map_err(|refused| refused.in_env(self.env))?;
            // SAFETY: of the map's own environment, which is the same if the pair is refused.
            unsafe {
                if !map.put(key, value) {
                    let twin = Term::new(map.env(), key).in_env(self.env);
                    return Err(Refused::Collision(twin));
                }
            }
        }
        Ok(map.finish(self.env))
    }

    /// The key that is there twice.
    fn collision(&self, keys: &[ErlNifTerm]) -> Refused<'a> {
        let is = |one, other| {
            // SAFETY: words made in this environment.
            unsafe { rustler::sys::enif_is_identical(one, other) != 0 }
        };
        let twin = keys
            .iter()
            .enumerate()
            .find(|&(index, &key)| keys.iter().take(index).any(|&other| is(key, other)));
        let twin = twin.map_or_else(|| atoms::undefined().as_c_arg(), |(_, &key)| key);
        // SAFETY: as above; the VM has found two, so there is one.
        Refused::Collision(unsafe { Term::new(self.env, twin) })
    }

    fn set(&mut self, object: &Obj) -> Word<'a> {
        // SAFETY: attached, iterable; a new list or NULL with an exception.
        let list = unsafe { Owned::from_ptr(self.py, ffi::PySequence_List(object.as_ptr()))? };
        self.list(&list)
    }
}

pub(super) fn special(value: f64) -> ErlNifTerm {
    if value.is_nan() {
        atoms::nan().as_c_arg()
    } else if value > 0.0 {
        atoms::infinity().as_c_arg()
    } else {
        atoms::neg_infinity().as_c_arg()
    }
}
