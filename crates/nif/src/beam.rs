//! What rustler lacks: an environment of our own that is sent from any thread, and processes asked after from any thread.
//!
//! A [`Mail`] belongs to whoever holds it. Scheduler threads may not send without the environment of the calling process,
//! so what ends there (a destructor, a cancelled request) is handed to a thread of ours.

use std::ptr::{self, NonNull};
use std::sync::OnceLock;

use rustler::sys::{
    ErlNifEnv, ErlNifPid, ErlNifTerm, enif_alloc_env, enif_clear_env, enif_free_env, enif_is_process_alive,
    enif_make_copy, enif_send, enif_thread_type,
};
use rustler::{Env, LocalPid, Term};

use crate::{spare, tray};

/// An environment that belongs to no process: terms to be kept, and the message to be sent.
pub(crate) struct Mail(NonNull<ErlNifEnv>);

// SAFETY: a process-independent environment may be used by any thread, one at a time.
unsafe impl Send for Mail {}

impl Mail {
    /// An empty one. The BEAM ends the VM when it has no memory, so it never fails.
    pub(crate) fn new() -> Option<Self> {
        // SAFETY: may be called by any thread.
        spare::take().or_else(|| NonNull::new(unsafe { enif_alloc_env() }).map(Self))
    }

    /// The environment, for terms that live as long as this is borrowed.
    pub(crate) fn env(&self) -> Env<'_> {
        // SAFETY: alive until `self` is; the lifetime is that of the borrow.
        unsafe { Env::new(self, self.0.as_ptr()) }
    }

    /// Copies a term in. The word is valid in `env()` until the mail is cleared, sent or dropped.
    pub(crate) fn keep(&self, term: Term<'_>) -> ErlNifTerm {
        // SAFETY: both environments are alive.
        unsafe { enif_make_copy(self.0.as_ptr(), term.as_c_arg()) }
    }

    /// The term of a word that [`keep`](Self::keep) gave, or that was made in `env()`.
    ///
    /// # Safety
    /// It was made in this mail, which was not cleared since, or it is an immediate.
    pub(crate) unsafe fn term(&self, word: ErlNifTerm) -> Term<'_> {
        // SAFETY: by contract.
        unsafe { Term::new(self.env(), word) }
    }

    /// Empties it, to be used again.
    pub(crate) fn clear(&mut self) {
        // SAFETY: ours, and nothing borrows it.
        unsafe { enif_clear_env(self.0.as_ptr()) }
    }

    /// Sends a term made in this mail. Whether the process was alive.
    pub(crate) fn send(self, to: LocalPid, word: ErlNifTerm) -> bool {
        if is_scheduler() {
            return match OUTBOX.get() {
                Some(post) => post(Letter { mail: self, to, word }),
                None => false,
            };
        }
        tray::clear();
        let pid: *const ErlNifPid = to.as_c_arg();
        // SAFETY: a thread that is not the BEAM's passes no environment of its own; the message's is ours and is emptied.
        let alive = unsafe { enif_send(ptr::null_mut(), pid.cast_mut(), self.0.as_ptr(), word) != 0 };
        spare::put(self);
        alive
    }
}

impl Mail {
    /// Sends a copy of a term made in this mail, from a thread that is not the BEAM's. Whether the process was alive.
    pub(crate) fn send_copy(&self, to: LocalPid, word: ErlNifTerm) -> bool {
        let pid: *const ErlNifPid = to.as_c_arg();
        // SAFETY: neither an environment of the caller, which has none, nor one of the message, which is copied.
        unsafe { enif_send(ptr::null_mut(), pid.cast_mut(), ptr::null_mut(), word) != 0 }
    }

    /// [`send`](Self::send) from a function of `py_nif`, whose environment is `env`.
    pub(crate) fn send_from(self, env: Env<'_>, to: LocalPid, word: ErlNifTerm) -> bool {
        let pid: *const ErlNifPid = to.as_c_arg();
        // SAFETY: the environment of the calling process; the message's is ours and is emptied.
        unsafe { enif_send(env.as_c_arg(), pid.cast_mut(), self.0.as_ptr(), word) != 0 }
    }
}

impl Drop for Mail {
    fn drop(&mut self) {
        // SAFETY: ours, and nothing borrows it.
        unsafe { enif_free_env(self.0.as_ptr()) }
    }
}

/// Whether this is a thread of the BEAM's, which sends by its own environment only.
pub(crate) fn is_scheduler() -> bool {
    // SAFETY: may be called by any thread.
    unsafe { enif_thread_type() > 0 }
}

/// A message that waits for a thread that may send it.
pub(crate) struct Letter {
    mail: Mail,
    to: LocalPid,
    word: ErlNifTerm,
}

impl Letter {
    /// Sends it, from a thread of ours.
    pub(crate) fn send(self) -> bool {
        self.mail.send(self.to, self.word)
    }
}

/// Who takes letters from scheduler threads.
pub(crate) static OUTBOX: OnceLock<fn(Letter) -> bool> = OnceLock::new();

/// A pid as a number, and back.
pub(crate) fn pid_word(pid: LocalPid) -> usize {
    // SAFETY: to the VM it is a struct of one term, which is a word.
    unsafe { std::mem::transmute_copy::<ErlNifPid, usize>(pid.as_c_arg()) }
}

pub(crate) fn pid_of(word: usize) -> LocalPid {
    // SAFETY: as above; a word that `pid_word` gave.
    LocalPid::from_c_arg(unsafe { std::mem::transmute_copy::<usize, ErlNifPid>(&word) })
}

/// Whether a process is there, asked from any thread.
pub(crate) fn is_alive(pid: LocalPid) -> bool {
    let pid: *const ErlNifPid = pid.as_c_arg();
    // SAFETY: the environment is not looked at; the pid is one of this node.
    unsafe { enif_is_process_alive(ptr::null_mut(), pid.cast_mut()) != 0 }
}
