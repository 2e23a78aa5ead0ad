//! Atoms as text. NIF 2.16 knows Latin-1 only, so the others go by way of the external format (ATOM_UTF8_EXT of erl_ext_dist).

use std::mem::MaybeUninit;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustler::sys::{
    ERL_NIF_BIN2TERM_SAFE, ErlNifBinary, ErlNifCharEncoding, ErlNifTerm, enif_binary_to_term, enif_get_atom,
    enif_make_atom_len, enif_make_existing_atom_len, enif_release_binary, enif_term_to_binary,
};
use rustler::{Env, Term};

use crate::inbox::lock;

const VERSION: u8 = 131;
const ATOM_UTF8: u8 = 118;
const SMALL_ATOM_UTF8: u8 = 119;
/// An atom has at most this many characters.
const LONGEST: usize = 255;

/// The text of an atom.
pub(crate) fn text_of(atom: Term<'_>) -> Option<String> {
    let env = atom.get_env().as_c_arg();
    let mut buffer = [0u8; LONGEST + 1];
    let latin1 = ErlNifCharEncoding::ERL_NIF_LATIN1;
    // SAFETY: a live environment, and room for the longest atom with its NUL. 0 says that it is no Latin-1 atom.
    let size = unsafe {
        enif_get_atom(env, atom.as_c_arg(), buffer.as_mut_ptr().cast(), buffer.len() as u32, latin1)
    };
    if size > 0 {
        let text = buffer.get(..size as usize - 1)?;
        return Some(text.iter().map(|&byte| char::from(byte)).collect());
    }
    let mut binary = MaybeUninit::<ErlNifBinary>::uninit();
    // SAFETY: the binary is filled on success, read, and released here.
    unsafe {
        if enif_term_to_binary(env, atom.as_c_arg(), binary.as_mut_ptr()) == 0 {
            return None;
        }
        let mut binary = binary.assume_init();
        let text = match std::slice::from_raw_parts(binary.data, binary.size) {
            [VERSION, SMALL_ATOM_UTF8, _, text @ ..] | [VERSION, ATOM_UTF8, _, _, text @ ..] => {
                std::str::from_utf8(text).ok().map(str::to_owned)
            }
            _ => None,
        };
        enif_release_binary(&mut binary);
        text
    }
}

fn latin1(text: &str) -> Option<Vec<u8>> {
    text.chars().map(|letter| u8::try_from(u32::from(letter)).ok()).collect()
}

/// The external format of an atom.
fn external(text: &str) -> Option<Vec<u8>> {
    let size = u16::try_from(text.len()).ok()?;
    let mut data = vec![VERSION, ATOM_UTF8];
    data.extend(size.to_be_bytes());
    data.extend(text.as_bytes());
    Some(data)
}

fn from_external<'a>(env: Env<'a>, text: &str, options: u32) -> Option<Term<'a>> {
    let data = external(text)?;
    let mut word = MaybeUninit::<ErlNifTerm>::uninit();
    // SAFETY: a live environment and slice; the word is written when all of it was read.
    unsafe {
        (enif_binary_to_term(env.as_c_arg(), data.as_ptr(), data.len(), word.as_mut_ptr(), options) != 0)
            .then(|| Term::new(env, word.assume_init()))
    }
}

/// The atom with this text, if there is one already.
pub(crate) fn existing_atom<'a>(env: Env<'a>, text: &str) -> Option<Term<'a>> {
    if text.chars().count() > LONGEST {
        return None;
    }
    let Some(data) = latin1(text) else { return from_external(env, text, ERL_NIF_BIN2TERM_SAFE) };
    let mut word = MaybeUninit::<ErlNifTerm>::uninit();
    let latin1 = ErlNifCharEncoding::ERL_NIF_LATIN1;
    // SAFETY: a live environment and slice; the word is written on success.
    unsafe {
        (enif_make_existing_atom_len(
            env.as_c_arg(),
            data.as_ptr().cast(),
            data.len(),
            word.as_mut_ptr(),
            latin1,
        ) != 0)
            .then(|| Term::new(env, word.assume_init()))
    }
}

/// The atom with this text, made if need be. Atoms are never freed: count whom you make them for.
pub(crate) fn make_atom<'a>(env: Env<'a>, text: &str) -> Option<Term<'a>> {
    if text.chars().count() > LONGEST {
        return None;
    }
    match latin1(text) {
        // SAFETY: a live environment and slice of at most 255 bytes.
        Some(data) => Some(unsafe {
            Term::new(env, enif_make_atom_len(env.as_c_arg(), data.as_ptr().cast(), data.len()))
        }),
        None => from_external(env, text, 0),
    }
}

/// How many atoms Python may make in the life of the VM, beyond those there are.
pub(crate) static ATOM_LIMIT: AtomicUsize = AtomicUsize::new(10_000);
static ATOMS_MADE: Mutex<usize> = Mutex::new(0);

/// Counts one more atom, or says how many were made if that is the limit.
pub(crate) fn too_many_atoms() -> Option<usize> {
    let mut made = lock(&ATOMS_MADE);
    if *made >= ATOM_LIMIT.load(Ordering::Relaxed) {
        return Some(*made);
    }
    *made += 1;
    None
}
