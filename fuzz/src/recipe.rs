//! Bytes as a recipe for a term: a machine with a stack, for which every input is a program, and small changes are small.

use rustler::sys::enif_make_ref;
use rustler::types::tuple::make_tuple;
use rustler::{Encoder, Env, NewBinary, Term};

use crate::atoms;
use crate::convert::existing_atom;

/// How often what was made is used again. Each time may double the term, for nothing is shared on the other side.
const AGAIN: u8 = 8;

/// What is left of an input, and how often something may still be used again.
struct Rest<'d>(&'d [u8], u8);

impl<'d> Rest<'d> {
    fn byte(&mut self) -> u8 {
        self.take(1).first().copied().unwrap_or(0)
    }

    /// So many bytes, or as many as there are.
    fn take(&mut self, size: usize) -> &'d [u8] {
        let (taken, rest) = self.0.split_at(size.min(self.0.len()));
        self.0 = rest;
        taken
    }

    /// Bytes behind a byte that says how many.
    fn some(&mut self) -> &'d [u8] {
        let size = usize::from(self.byte());
        self.take(size)
    }

    fn word(&mut self) -> u16 {
        u16::from_be_bytes([self.byte(), self.byte()])
    }

    fn wide(&mut self) -> u64 {
        let mut bytes = [0; 8];
        for (place, &byte) in bytes.iter_mut().zip(self.take(8)) {
            *place = byte;
        }
        u64::from_be_bytes(bytes)
    }
}

/// Text of atoms there are in every VM, and of one that is beyond Latin-1 (examples/ and tests know it, so it may be missing).
const NAMES: [&str; 12] =
    ["true", "false", "none", "nil", "undefined", "nan", "bytes", "ok", "", "infinity", "Ω", "utf8"];

/// A term made as the input says: the one that is left, or the list of those.
pub(super) fn term<'a>(env: Env<'a>, data: &[u8]) -> Term<'a> {
    let mut rest = Rest(data, AGAIN);
    let mut stack: Vec<Term<'a>> = Vec::new();
    while !rest.0.is_empty() {
        step(env, &mut rest, &mut stack);
    }
    match stack.as_slice() {
        [only] => *only,
        many => many.encode(env),
    }
}

fn step<'a>(env: Env<'a>, rest: &mut Rest<'_>, stack: &mut Vec<Term<'a>>) {
    let made = match rest.byte() % 16 {
        0 => i64::from(rest.byte().cast_signed()).encode(env),
        1 => rest.wide().cast_signed().encode(env),
        2 => big(env, rest),
        3 => {
            let value = f64::from_bits(rest.wide());
            if value.is_finite() { value.encode(env) } else { 0.5.encode(env) }
        }
        4 => {
            let name = NAMES.get(usize::from(rest.byte()) % NAMES.len()).copied().unwrap_or_default();
            existing_atom(env, name).unwrap_or_else(|| atoms::none().encode(env))
        }
        5 => binary(env, rest.some()),
        // Around the size from which binaries are handed over in other ways.
        6 => {
            let size = (64 << 10) - 2 + usize::from(rest.byte() % 4);
            binary(env, &[rest.byte()].repeat(size))
        }
        7 => taken(stack, rest.byte()).encode(env),
        8 => make_tuple(env, &taken(stack, rest.byte())),
        9 => {
            let items = taken(stack, rest.byte().saturating_mul(2));
            let (keys, values) = items.split_at(items.len() / 2);
            let keys = keys.get(..values.len().min(keys.len())).unwrap_or_default();
            let values = values.get(..keys.len()).unwrap_or_default();
            Term::map_from_term_arrays(env, keys, values).unwrap_or_else(|_| items.encode(env))
        }
        10 => {
            let (kind, times) = (rest.byte(), rest.word() % 1200);
            let inner = stack.pop().unwrap_or_else(|| 0.encode(env));
            (0..times).fold(inner, |inner, _| wrap(env, kind, inner))
        }
        11 => {
            let tail = stack.pop().unwrap_or_else(|| 0.encode(env));
            tail.list_prepend(stack.pop().unwrap_or_else(|| 1.encode(env)))
        }
        12 => {
            let inner = stack.pop().unwrap_or_else(|| binary(env, rest.some()));
            (atoms::bytes(), inner).encode(env)
        }
        // SAFETY: a live environment.
        13 => unsafe { Term::new(env, enif_make_ref(env.as_c_arg())) },
        // Whatever the external format can say, funs and the processes of other nodes too; not what is compressed.
        14 => match rest.some() {
            [80, ..] => return,
            body => match env.binary_to_term(&[&[131], body].concat()) {
                Some((term, _)) => term,
                None => return,
            },
        },
        _ => match (stack.last(), rest.1.checked_sub(1)) {
            (Some(&last), Some(left)) => {
                rest.1 = left;
                last
            }
            _ => return,
        },
    };
    stack.push(made);
}

/// The last few of the stack.
fn taken<'a>(stack: &mut Vec<Term<'a>>, count: u8) -> Vec<Term<'a>> {
    stack.split_off(stack.len().saturating_sub(usize::from(count)))
}

fn wrap<'a>(env: Env<'a>, kind: u8, inner: Term<'a>) -> Term<'a> {
    match kind % 4 {
        0 => [inner].encode(env),
        1 => (inner,).encode(env),
        2 => Term::map_from_term_arrays(env, &[0.encode(env)], &[inner]).unwrap_or(inner),
        _ => Term::map_from_term_arrays(env, &[inner], &[0.encode(env)]).unwrap_or(inner),
    }
}

fn binary<'a>(env: Env<'a>, data: &[u8]) -> Term<'a> {
    let mut made = NewBinary::new(env, data.len());
    made.as_mut_slice().copy_from_slice(data);
    made.into()
}

/// An integer of up to 255 bytes, repeated up to 15 times: beyond the short form of the external format.
fn big<'a>(env: Env<'a>, rest: &mut Rest<'_>) -> Term<'a> {
    let (sign, times) = (rest.byte(), 1 + usize::from(rest.byte() % 15));
    let digits = rest.some().repeat(times);
    let size = (digits.len() as u32).to_be_bytes();
    let data = [&[131, 111], size.as_slice(), &[sign % 2], &digits].concat();
    env.binary_to_term(&data).map_or_else(|| 0.encode(env), |(term, _)| term)
}
