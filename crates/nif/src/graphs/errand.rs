//! `Errand`: the work of an Erlang function. The host (`py_dag_host`) starts a process for it, whose death is an answer too; an
//! errand that is given up has its process killed.

use std::sync::Mutex;

use futures_channel::oneshot::{self, Receiver, Sender};
use rustler::sys::ErlNifTerm;
use rustler::{Encoder, Env, LocalPid, Monitor, Resource, ResourceArc, Term};

use super::value::{Failure, failure};
use crate::atoms;
use crate::beam::Mail;
use crate::inbox::lock;
use crate::parcel;
use crate::terms::Saved;

/// The process that starts others, and on whose behalf Python works.
static HOST: Mutex<Option<LocalPid>> = Mutex::new(None);

pub(crate) fn set_host(pid: LocalPid) {
    *lock(&HOST) = Some(pid);
}

pub(super) fn host() -> Result<LocalPid, Failure> {
    lock(&HOST).ok_or_else(|| failure(atoms::not_started()))
}

type Answer = (Mail, ErlNifTerm);

enum State {
    /// The process is not there yet, or is, and works.
    Begun(Option<LocalPid>),
    GivenUp,
}

/// The resource that the host and the process hold.
pub(crate) struct Errand {
    answer: Mutex<Option<Sender<Word>>>,
    state: Mutex<State>,
}

/// A result: `{ok, _}` or `{error, _}`, in a mail.
pub(super) struct Word(pub(super) Answer);

// SAFETY: the word is a term of the mail, which is owned.
unsafe impl Send for Word {}

#[rustler::resource_impl]
impl Resource for Errand {
    const IMPLEMENTS_DOWN: bool = true;

    fn down<'a>(&'a self, _env: Env<'a>, _pid: LocalPid, _monitor: Monitor) {
        self.lost();
    }
}

impl Drop for Errand {
    fn drop(&mut self) {
        self.lost();
    }
}

impl Errand {
    /// The calling process does it. False if nobody wants it any more.
    pub(crate) fn begin(this: &ResourceArc<Self>, env: Env<'_>) -> bool {
        match &mut *lock(&this.state) {
            State::Begun(pid) => *pid = Some(env.pid()),
            State::GivenUp => return false,
        }
        env.monitor(this, &env.pid()).is_some()
    }

    /// The result: `{ok, Value}` or `{error, Reason}`. Whether it was the first.
    pub(crate) fn answer(&self, result: impl for<'a> FnOnce(Env<'a>) -> Term<'a>) -> bool {
        let (Some(answer), Some(mail)) = (lock(&self.answer).take(), Mail::new()) else { return false };
        let word = result(mail.env()).as_c_arg();
        answer.send(Word((mail, word))).is_ok()
    }

    fn lost(&self) {
        let pending = lock(&self.answer).is_some();
        if pending {
            self.answer(|env| (atoms::error(), atoms::killed()).encode(env));
        }
    }
}

/// An errand on its way. Dropping it gives it up.
pub(super) struct Sent {
    errand: ResourceArc<Errand>,
    pub(super) answer: Receiver<Word>,
}

/// Has a function applied to a list of arguments.
pub(super) fn send(function: &Saved, args: &Saved) -> Result<Sent, Failure> {
    let host = host()?;
    let (sender, answer) = oneshot::channel();
    let state = Mutex::new(State::Begun(None));
    let errand = ResourceArc::new(Errand { answer: Mutex::new(Some(sender)), state });
    let full = || failure(atoms::overloaded());
    let mail = Mail::new().ok_or_else(full)?;
    let call = (function.term(mail.env()), args.term(mail.env())).encode(mail.env()).as_c_arg();
    let (mail, call) = parcel::pack(mail, call).ok_or_else(full)?;
    // SAFETY: made in this mail.
    let call = unsafe { mail.term(call) };
    let word = (atoms::py_dag(), errand.clone(), call).encode(mail.env()).as_c_arg();
    if mail.send(host, word) { Ok(Sent { errand, answer }) } else { Err(failure(atoms::not_started())) }
}

impl Drop for Sent {
    fn drop(&mut self) {
        let answered = lock(&self.errand.answer).take().is_none();
        let before = std::mem::replace(&mut *lock(&self.errand.state), State::GivenUp);
        if let (State::Begun(Some(pid)), false, Ok(host)) = (before, answered, host())
            && let Some(mail) = Mail::new()
        {
            let word = (atoms::py_dag_kill(), pid).encode(mail.env()).as_c_arg();
            mail.send(host, word);
        }
    }
}
