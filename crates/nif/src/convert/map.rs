//! Maps of any size, made on threads that are not the VM's.
//!
//! `enif_make_map_from_arrays` sorts more than 128 keys with the help of the scheduler it runs on, and ends the VM where there is
//! none (erlang/otp#8208); and of more than 32 it may take two that are equal (erlang/otp#10975). So a large map grows key by key, in
//! an environment of its own, for what each key leaves behind is a multiple of what it needs.

use std::mem::MaybeUninit;

use rustler::sys::{
    ErlNifTerm, enif_get_map_size, enif_make_map_from_arrays, enif_make_map_put, enif_make_new_map,
};
use rustler::{Env, Term};

use crate::beam::Mail;

/// So many keys are made into a map at once.
pub(super) const AT_ONCE: usize = 128;
/// After so many more keys, at least, what is left behind is given up.
const TIDY: usize = 2048;

/// A map of at most [`AT_ONCE`] keys. `None` if two are equal.
///
/// # Safety
/// As many keys as values, all of this environment.
pub(super) unsafe fn at_once(env: Env<'_>, keys: &[ErlNifTerm], values: &[ErlNifTerm]) -> Option<ErlNifTerm> {
    let mut map = MaybeUninit::<ErlNifTerm>::uninit();
    // SAFETY: by contract; written on success.
    unsafe {
        let (first, second, count) = (keys.as_ptr(), values.as_ptr(), keys.len().min(values.len()));
        if enif_make_map_from_arrays(env.as_c_arg(), first, second, count, map.as_mut_ptr()) == 0 {
            return None;
        }
        let map = map.assume_init();
        (size(env, map) == count).then_some(map)
    }
}

/// # Safety
/// A map of this environment.
unsafe fn size(env: Env<'_>, map: ErlNifTerm) -> usize {
    let mut size = 0;
    // SAFETY: by contract.
    unsafe { enif_get_map_size(env.as_c_arg(), map, &mut size) };
    size
}

/// A map that grows.
pub(super) struct Growing {
    mail: Mail,
    map: ErlNifTerm,
    size: usize,
    /// When to give up what is left behind.
    tidy: usize,
}

impl Growing {
    pub(super) fn new() -> Option<Self> {
        let mail = Mail::new()?;
        // SAFETY: a live environment.
        let map = unsafe { enif_make_new_map(mail.env().as_c_arg()) };
        Some(Self { mail, map, size: 0, tidy: TIDY })
    }

    /// Where its keys and values are made, until the next is put.
    pub(super) fn env(&self) -> Env<'_> {
        self.mail.env()
    }

    /// Puts a pair. False if the key is there.
    ///
    /// # Safety
    /// Both are of the environment that [`env`](Self::env) gave last.
    pub(super) unsafe fn put(&mut self, key: ErlNifTerm, value: ErlNifTerm) -> bool {
        let env = self.mail.env();
        let mut map = MaybeUninit::<ErlNifTerm>::uninit();
        // SAFETY: by contract; written on success, and it is one as `self.map` is a map.
        let map = unsafe {
            if enif_make_map_put(env.as_c_arg(), self.map, key, value, map.as_mut_ptr()) == 0 {
                return false;
            }
            map.assume_init()
        };
        // SAFETY: made just now.
        let size = unsafe { size(env, map) };
        if size != self.size + 1 {
            return false;
        }
        (self.map, self.size) = (map, size);
        if size >= self.tidy
            && let Some(mail) = Mail::new()
        {
            // SAFETY: a term of the old environment, which is given up after it was copied.
            self.map = mail.keep(unsafe { Term::new(env, map) });
            self.mail = mail;
            self.tidy = size + TIDY.max(size / 4);
        }
        true
    }

    /// The map, in another environment.
    pub(super) fn finish(self, env: Env<'_>) -> ErlNifTerm {
        // SAFETY: a term of this mail.
        unsafe { self.mail.term(self.map) }.in_env(env).as_c_arg()
    }
}
