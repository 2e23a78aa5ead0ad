//! The answers that callers come for: whether that pays off, and the environments that come back with them. Scheduler threads.
//!
//! To put a process to sleep, to send it a message from a thread that is not the VM's and to wake it again costs several times
//! what a short call of Python takes. So a caller yields first and looks for its answer when it is its turn again, for some microseconds;
//! other processes make their calls meanwhile. Only then it waits for a message. It is done where it has paid off lately.

use std::cell::{Cell, RefCell};

use rustler::{Env, LocalPid, Term};

use crate::beam::Mail;
use crate::table::{self, Found, Held, Id};

/// In nanoseconds: a thread that sleeps, and is woken for the request, has answered by then. Who finds its answer asks again at once, and
/// finds the thread awake; who waits for a message is late enough for both to fall asleep each time.
const PATIENCE: u64 = 30_000;
/// A caller has so many looks, however long its turns are apart: others call Python in between.
const LOOKS: u32 = 4;
/// After failures so many requests are not looked for, at most.
const MOST: u32 = 8;
/// So many slots and environments are kept for the next requests.
const SPARE: usize = 32;

/// What a scheduler thread keeps.
struct Desk {
    spare: RefCell<Vec<(Mail, Held)>>,
    /// How many requests to let go by, and how many after the next failure.
    skip: Cell<u32>,
    penalty: Cell<u32>,
}

thread_local! {
    static DESK: Desk = const {
        Desk { spare: RefCell::new(Vec::new()), skip: Cell::new(0), penalty: Cell::new(1) }
    };
}

/// Whether the caller of the next request is to look for its answer.
pub(crate) fn is_promising() -> bool {
    DESK.with(|desk| {
        let skip = desk.skip.get();
        desk.skip.set(skip.saturating_sub(1));
        skip == 0
    })
}

/// An environment and an id for a request whose caller will look for the answer.
pub(crate) fn open(caller: LocalPid) -> Option<(Mail, Id)> {
    let spare = DESK.with(|desk| desk.spare.borrow_mut().pop());
    match spare {
        Some((mail, held)) => Some((mail, table::open_watched(caller, Some(held))?)),
        None => Some((Mail::new()?, table::open_watched(caller, None)?)),
    }
}

/// What a caller finds at one of its looks: its value, or whether to look again.
pub(crate) fn look<'a>(env: Env<'a>, id: Id, turn: u32) -> Result<Term<'a>, bool> {
    let patience = if turn < LOOKS { u64::MAX } else { PATIENCE };
    DESK.with(|desk| match table::look(id, patience) {
        Found::Answer(answer, held) => {
            desk.penalty.set(1);
            let mut spare = desk.spare.borrow_mut();
            if spare.len() < SPARE {
                let mut mail = answer.mail;
                mail.clear();
                spare.push((mail, held));
            }
            Ok(answer.leaf.term(env))
        }
        Found::Again => Err(true),
        Found::Sent => {
            desk.skip.set(desk.penalty.get());
            desk.penalty.set((desk.penalty.get() * 2).min(MOST));
            Err(false)
        }
    })
}
