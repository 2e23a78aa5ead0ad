//! Integers beyond 64 bits, both ways, through the external format (SMALL_BIG_EXT and LARGE_BIG_EXT of erl_ext_dist).

use std::mem::MaybeUninit;

use pyrt::{Attached, Borrowed, Fault, Obj, Owned, PyResult};
use rustler::sys::{ErlNifBinary, ErlNifTerm, enif_binary_to_term, enif_release_binary, enif_term_to_binary};
use rustler::{Env, Term};

use super::Refused;
use super::room::Room;

const VERSION: u8 = 131;
const SMALL_BIG: u8 = 110;
const LARGE_BIG: u8 = 111;

/// An `int` of a big integer.
pub(crate) fn to_python(py: Attached<'_>, term: Term<'_>) -> PyResult<Owned> {
    let mut binary = MaybeUninit::<ErlNifBinary>::uninit();
    // SAFETY: filled on success, read, and released below.
    let mut binary = unsafe {
        if enif_term_to_binary(term.get_env().as_c_arg(), term.as_c_arg(), binary.as_mut_ptr()) == 0 {
            return Err(Fault::Memory.raise(py));
        }
        binary.assume_init()
    };
    // SAFETY: as above.
    let data = unsafe { std::slice::from_raw_parts(binary.data, binary.size) };
    let made = match data {
        [VERSION, SMALL_BIG, _, sign, digits @ ..] | [VERSION, LARGE_BIG, _, _, _, _, sign, digits @ ..] => {
            from_digits(py, *sign != 0, digits)
        }
        _ => Err(Fault::system("an integer that is none").raise(py)),
    };
    // SAFETY: ours, and not used any more.
    unsafe { enif_release_binary(&mut binary) };
    made
}

fn from_digits(py: Attached<'_>, negative: bool, digits: &[u8]) -> PyResult<Owned> {
    let int = Owned::int(py, 0)?.class(py).clone_ref(py);
    let from_bytes = int.getattr_str(py, c"from_bytes")?;
    let number =
        from_bytes.call(py, [Owned::bytes(py, digits)?.borrow(), Owned::str(py, "little")?.borrow()])?;
    if negative { number.getattr_str(py, c"__neg__")?.call0(py) } else { Ok(number) }
}

/// The term of an `int`.
pub(super) fn to_term<'a>(
    py: Attached<'_>,
    env: Env<'a>,
    number: &Obj,
    room: &mut Room,
) -> Result<Option<Term<'a>>, Refused<'a>> {
    // A subclass may have methods of its own: `int`'s are asked.
    let int = Owned::int(py, 0)?.class(py).clone_ref(py);
    let magnitude = int.getattr_str(py, c"__abs__")?.call1(py, number)?;
    let bits = int.getattr_str(py, c"bit_length")?.call1(py, &magnitude)?.to_usize(py)?;
    room.bytes(bits.div_ceil(8))?;
    let size = Owned::uint(py, bits.div_ceil(8) as u64)?;
    let little = Owned::str(py, "little")?;
    let args: [Borrowed<'_>; 3] = [magnitude.borrow(), size.borrow(), little.borrow()];
    let digits = int.getattr_str(py, c"to_bytes")?.call(py, args)?;
    let negative =
        int.getattr_str(py, c"__lt__")?.call(py, [number.borrow(), Owned::int(py, 0)?.borrow()])?;
    let digits = digits.to_bytes(py)?;
    let sign = u8::from(negative.is_true(py)?);
    let mut data = vec![VERSION];
    match u8::try_from(digits.len()) {
        Ok(size) => data.extend([SMALL_BIG, size, sign]),
        Err(_) => {
            let Ok(size) = u32::try_from(digits.len()) else { return Ok(None) };
            data.push(LARGE_BIG);
            data.extend(size.to_be_bytes());
            data.push(sign);
        }
    }
    data.extend(digits);
    let mut word = MaybeUninit::<ErlNifTerm>::uninit();
    // SAFETY: a live environment and slice; the word is written when all of it was read. Too big for the BEAM is 0.
    Ok(unsafe {
        (enif_binary_to_term(env.as_c_arg(), data.as_ptr(), data.len(), word.as_mut_ptr(), 0) != 0)
            .then(|| Term::new(env, word.assume_init()))
    })
}
