//! Whether the current context has variables, found out without making a copy of it. Attached threads only.
//!
//! CPython lends the current context to nobody: its API makes a copy, which costs more than all the rest of `call_soon` does with
//! contexts. The thread state has it, though, in a field that the headers name (`cpython/pystate.h`), at a place that differs by version. The
//! place is looked for once, by entering contexts and seeing where they appear; where that is not clear, copies do as before.

use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering::Relaxed};

use crate::context::is_empty;
use crate::{Attached, Borrowed, Context, PyResult, ffi, run_in};

/// How far it is looked for, in words. Every version so far has it before this (3.11 at 28, later ones at 26), and goes on long after.
const WORDS: usize = 32;

/// The place was not looked for yet; none was found. Else the place in words, plus one.
const UNKNOWN: usize = 0;
const NOWHERE: usize = usize::MAX;

/// One for the process, as there is one libpython in it.
static PLACE: AtomicUsize = AtomicUsize::new(UNKNOWN);

impl Context {
    /// Whether the current one has no variables. `None` if only a copy of it can tell.
    #[inline(always)]
    pub fn current_is_empty(py: Attached<'_>) -> Option<bool> {
        match PLACE.load(Relaxed) {
            UNKNOWN => look_for_it(py),
            NOWHERE => None,
            // SAFETY: that word has the context which this thread runs in and keeps alive by it, or nothing as long as it has needed none.
            place => match unsafe { Borrowed::from_ptr(py, word(py, place - 1)) } {
                Some(context) => Some(is_empty(&context)),
                None => Some(true),
            },
        }
    }
}

/// A word of this thread's state.
#[inline(always)]
fn word(_py: Attached<'_>, index: usize) -> *mut ffi::PyObject {
    // SAFETY: attached, so there is a state, which is larger than `WORDS`. Other threads may write to parts of it, so it is read as an atomic.
    unsafe {
        let state = ffi::compat::PyThreadState_GetUnchecked().cast::<*mut ffi::PyObject>();
        AtomicPtr::from_ptr(state.add(index)).load(Relaxed)
    }
}

#[cold]
fn look_for_it(py: Attached<'_>) -> Option<bool> {
    let found = find(py).unwrap_or_else(|raised| {
        raised.clear(py);
        None
    });
    PLACE.store(found.map_or(NOWHERE, |place| place + 1), Relaxed);
    found.and_then(|_| Context::current_is_empty(py))
}

/// The only word that has two contexts in turn while they are entered.
fn find(py: Attached<'_>) -> PyResult<Option<usize>> {
    let has = |context: &Context, index: usize| word(py, index) == context.object().as_ptr();
    let (one, other) = (Context::empty(py)?, Context::empty(py)?);
    let mut places = Vec::new();
    run_in(py, one.object(), || {
        places.extend((0..WORDS).filter(|&index| has(&one, index)));
        run_in(py, other.object(), || {
            places.retain(|&index| has(&other, index));
            Ok(())
        })?;
        places.retain(|&index| has(&one, index));
        Ok(())
    })?;
    places.retain(|&index| !has(&one, index));
    Ok(match places[..] {
        [place] => Some(place),
        _ => None,
    })
}
