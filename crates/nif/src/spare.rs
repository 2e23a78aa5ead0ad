//! Environments that were sent and may be used again. Any thread.
//!
//! One is a kilobyte, taken on a scheduler and given back on a thread that is not the VM's: the allocator would hand every single one
//! back to the scheduler, which it wakes for that. So they go back in batches: a thread keeps some for itself, and what is more
//! lies where all threads look when they have none.

use std::cell::{Cell, RefCell};
use std::sync::Mutex;

use crate::beam::Mail;
use crate::inbox::lock;

/// How many go from thread to thread at once.
const BATCH: usize = 32;
/// How many batches are kept for all: what is beyond that is freed.
const BATCHES: usize = 32;

/// So many small terms fit into what the VM gives an environment at first.
const LOANS: u32 = 12;

thread_local! {
    static MINE: RefCell<Vec<Mail>> = const { RefCell::new(Vec::new()) };
    /// One for small terms that are needed for a moment, and how often it was lent since it was emptied.
    static LENT: Cell<Option<(Mail, u32)>> = const { Cell::new(None) };
}

static OTHERS: Mutex<Vec<Vec<Mail>>> = Mutex::new(Vec::new());

/// One that is empty, if there is.
pub(crate) fn take() -> Option<Mail> {
    // A thread that ends has none.
    let mine = MINE.try_with(|mine| {
        let mut mine = mine.try_borrow_mut().ok()?;
        if mine.is_empty() {
            *mine = lock(&OTHERS).pop()?;
        }
        mine.pop()
    });
    mine.ok().flatten()
}

/// Empties one that was sent, and keeps it.
pub(crate) fn put(mut mail: Mail) {
    mail.clear();
    let kept = MINE.try_with(|mine| {
        let Ok(mut mine) = mine.try_borrow_mut() else { return Some(mail) };
        mine.push(mail);
        if mine.len() < 2 * BATCH {
            return None;
        }
        let batch = mine.split_off(BATCH);
        let mut others = lock(&OTHERS);
        if others.len() < BATCHES {
            others.push(batch);
            return None;
        }
        drop(others);
        drop(batch);
        None
    });
    // Freed outside of the borrow.
    drop(kept);
}

/// Lends an environment for a few small terms, whose words are not to be kept. It is emptied every now and then only.
pub(crate) fn lend<R>(f: impl FnOnce(&Mail) -> R) -> Option<R> {
    let (mut mail, loans) = match LENT.try_with(Cell::take).ok().flatten() {
        Some(lent) => lent,
        None => (Mail::new()?, 0),
    };
    let result = f(&mail);
    let loans = if loans + 1 < LOANS {
        loans + 1
    } else {
        mail.clear();
        0
    };
    // Somebody further in may have put one back: that is freed.
    let _other = LENT.try_with(|lent| lent.replace(Some((mail, loans))));
    Some(result)
}
