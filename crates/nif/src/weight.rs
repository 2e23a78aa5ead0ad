//! Terms that are too heavy to be copied on a normal scheduler: found by a walk that gives up early, and copied on a dirty one.
//!
//! Copying is not Python, and takes no longer than sending the term to another process; but that, too, is a hold of the scheduler
//! when the term has millions of parts.

use std::ffi::CStr;
use std::panic::{AssertUnwindSafe, catch_unwind};

use rustler::sys::{ErlNifEnv, ErlNifTerm, c_int, enif_get_tuple, enif_make_badarg, enif_schedule_nif};
use rustler::{Env, MapIterator, NifResult, SchedulerFlags, Term, TermType};

/// Up to so many cells, elements and pairs a copy takes some 50 µs.
const LIGHT: usize = 8192;
/// Deeper than this is looked at no further.
const DEPTH: usize = 64;

/// A function of `py_nif` that copies its arguments.
pub(crate) trait Copies {
    /// What process listings show while it runs on a dirty scheduler.
    const NAME: &'static CStr;

    /// The function itself.
    fn run<'a>(env: Env<'a>, args: &[Term<'a>]) -> NifResult<Term<'a>>;
}

/// Runs the function here, or on a dirty scheduler if its arguments are heavy.
pub(crate) fn run<'a, F: Copies>(env: Env<'a>, args: &[Term<'a>]) -> NifResult<Term<'a>> {
    let mut left = LIGHT;
    if args.iter().all(|arg| weigh(*arg, &mut left, 0)) {
        return F::run(env, args);
    }
    let words: Vec<ErlNifTerm> = args.iter().map(Term::as_c_arg).collect();
    // SAFETY: called in a NIF, whose result this is; the words are terms of its environment, and are copied.
    Ok(unsafe {
        let again = enif_schedule_nif(
            env.as_c_arg(),
            F::NAME.as_ptr(),
            SchedulerFlags::DirtyCpu as c_int,
            entry::<F>,
            words.len() as c_int,
            words.as_ptr(),
        );
        Term::new(env, again)
    })
}

/// Whether a term may be copied on a normal scheduler.
pub(crate) fn is_light(term: Term<'_>) -> bool {
    weigh(term, &mut { LIGHT }, 0)
}

/// # Safety
/// For the VM to call.
unsafe extern "C" fn entry<F: Copies>(
    env: *mut ErlNifEnv,
    argc: c_int,
    argv: *const ErlNifTerm,
) -> ErlNifTerm {
    let lifetime = ();
    // SAFETY: the VM gives an environment, and so many terms of it, for as long as this runs.
    let (scope, words) = unsafe {
        (Env::new(&lifetime, env), std::slice::from_raw_parts(argv, usize::try_from(argc).unwrap_or(0)))
    };
    // SAFETY: as above.
    let args: Vec<Term<'_>> = words.iter().map(|word| unsafe { Term::new(scope, *word) }).collect();
    match catch_unwind(AssertUnwindSafe(|| F::run(scope, &args))) {
        Ok(Ok(term)) => term.as_c_arg(),
        // SAFETY: the environment of this call.
        Ok(Err(_)) | Err(_) => unsafe { enif_make_badarg(env) },
    }
}

/// Takes the parts of a term off what is left. False when that is too little.
fn weigh(term: Term<'_>, left: &mut usize, depth: usize) -> bool {
    match term.get_type() {
        TermType::List => {
            let mut rest = term;
            while let Ok((head, tail)) = rest.list_get_cell() {
                if !take(left, 1, depth) || !weigh(head, left, depth + 1) {
                    return false;
                }
                rest = tail;
            }
            true
        }
        TermType::Tuple => {
            let parts = elements(&term);
            take(left, parts.len(), depth)
                && parts.iter().all(|word| {
                    // SAFETY: an element of a tuple of this environment.
                    weigh(unsafe { Term::new(term.get_env(), *word) }, left, depth + 1)
                })
        }
        TermType::Map => {
            let size = term.map_size().unwrap_or(0);
            size == 0
                || take(left, size.saturating_mul(2), depth)
                    && MapIterator::new(term).is_none_or(|mut pairs| {
                        pairs.all(|(key, value)| weigh(key, left, depth + 1) && weigh(value, left, depth + 1))
                    })
        }
        _ => true,
    }
}

fn take(left: &mut usize, parts: usize, depth: usize) -> bool {
    match left.checked_sub(parts) {
        Some(rest) if depth < DEPTH => {
            *left = rest;
            true
        }
        _ => false,
    }
}

fn elements<'t>(tuple: &'t Term<'_>) -> &'t [ErlNifTerm] {
    let (mut arity, mut first) = (0, std::ptr::null());
    // SAFETY: a term of its environment; the elements stay where they are for as long as that.
    unsafe {
        if enif_get_tuple(tuple.get_env().as_c_arg(), tuple.as_c_arg(), &mut arity, &mut first) == 0
            || arity <= 0
        {
            return &[];
        }
        std::slice::from_raw_parts(first, usize::try_from(arity).unwrap_or(0))
    }
}
