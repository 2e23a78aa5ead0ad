//! Correlated replies: who in Erlang or Python waits for which answer, by the name of that (`py_reply`, `erlang.reply`). Any thread.
//!
//! The registry (`waiters`) says who ends a waiter; here it is told. A process gets a message. A waiter of Python's gets a call on a
//! thread that is there for that (`speaker`), in the interpreter it waits in.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Weak};
use std::time::Duration;

use pyrt::{Args, Attached, Borrowed, Fault, Owned, PyResult, Remote};
use rustler::sys::ErlNifTerm;
use rustler::{Encoder, Env, LocalPid, Monitor, Resource, ResourceArc, Term};
use waiters::{End, Refused, Registry, Ticket, Waiter, Who};

use crate::atoms;
use crate::beam::Mail;
use crate::bridge::{Bridge, no_memory, positional};
use crate::convert::{to_python, to_term};
use crate::realm::Realm;

/// There is one, for all processes and interpreters. Its limit is set by the application.
pub(crate) static REPLIES: LazyLock<Registry<Sink>> = LazyLock::new(|| Registry::new(1_000_000));

/// The resource; the term of it is the waiter that users of Erlang see. Its process is monitored.
pub(crate) struct Reply {
    ticket: AtomicU64,
}

impl Reply {
    pub(crate) fn ticket(&self) -> Ticket {
        Ticket::from_word(self.ticket.load(Ordering::Acquire))
    }
}

#[rustler::resource_impl]
impl Resource for Reply {
    const IMPLEMENTS_DOWN: bool = true;

    fn down<'a>(&'a self, _env: Env<'a>, _pid: LocalPid, _monitor: Monitor) {
        drop(REPLIES.end(Who::Ticket(self.ticket()), End::Cancelled));
    }
}

/// Somebody who waits.
pub(crate) enum Sink {
    /// Is sent `{py_reply, Waiter, Name, Result}`.
    Process { pid: LocalPid, reply: ResourceArc<Reply>, mail: Mail, name: ErlNifTerm },
    /// Is called with a state and a value.
    Python { realm: Weak<Realm>, ticket: Ticket, deliver: Remote },
}

// SAFETY: the word is a term of `mail`, which is owned; a pid is plain data.
unsafe impl Send for Sink {}

/// How a waiter has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Success,
    Error,
    Cancelled,
    Timeout,
}

impl State {
    pub(crate) fn named(name: &str) -> Option<Self> {
        [Self::Success, Self::Error, Self::Cancelled].into_iter().find(|state| state.name() == name)
    }

    fn name(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Error => "error",
            Self::Cancelled => "cancelled",
            Self::Timeout => "timeout",
        }
    }

    fn end(self) -> End {
        match self {
            Self::Success | Self::Error => End::Completed,
            Self::Cancelled | Self::Timeout => End::Cancelled,
        }
    }

    /// The result as Erlang sees it.
    fn result(self, value: Term<'_>) -> Term<'_> {
        let env = value.get_env();
        match self {
            Self::Success => (atoms::ok(), value).encode(env),
            Self::Error => (atoms::error(), value).encode(env),
            Self::Cancelled => (atoms::error(), (atoms::cancelled(), value)).encode(env),
            Self::Timeout => (atoms::error(), atoms::timeout()).encode(env),
        }
    }
}

impl Waiter for Sink {
    fn expire(self) {
        if let Some(mail) = Mail::new() {
            let nothing = atoms::none().as_c_arg();
            self.tell(State::Timeout, mail, nothing, None);
        }
    }
}

impl Sink {
    /// Tells how it ended: a value made in `mail`. `env` is that of a function of `py_nif`.
    fn tell(self, state: State, value: Mail, word: ErlNifTerm, env: Option<Env<'_>>) {
        match self {
            Self::Process { pid, reply, mail, name } => {
                let message = {
                    // SAFETY: kept in these mails.
                    let (name, result) = unsafe { (mail.term(name), state.result(value.term(word))) };
                    let name = name.in_env(value.env());
                    (atoms::py_reply(), reply, name, result).encode(value.env()).as_c_arg()
                };
                match env {
                    Some(env) => value.send_from(env, pid, message),
                    None => value.send(pid, message),
                };
            }
            Self::Python { realm, ticket, deliver } => {
                if let Some(realm) = realm.upgrade() {
                    realm.speaker().forget(ticket);
                    let own = realm.clone();
                    realm.speaker().tell(move || speak(&own, deliver, state, &value, word));
                }
            }
        }
    }
}

/// Calls a waiter of Python's: `deliver(state, value)`.
fn speak(realm: &Realm, deliver: Remote, state: State, value: &Mail, word: ErlNifTerm) {
    realm.attach(|py, bridge| {
        let told = deliver.into_owned(py).map_or(Ok(()), |deliver| {
            // SAFETY: made in this mail.
            let (state, value) = match to_python(py, bridge, unsafe { value.term(word) }) {
                Ok(value) => (state, value),
                // It is over all the same: why the value cannot be shown is what there is to say.
                Err(refused) => (State::Error, refused.raise(py).take(py).into_value()),
            };
            deliver.call(py, [Owned::str(py, state.name())?.borrow(), value.borrow()]).map(drop)
        });
        if let Err(raised) = told {
            raised.write_unraisable(py, None);
        }
    });
}

/// The bytes that a name is known by.
pub(crate) fn name_of(name: Term<'_>) -> Vec<u8> {
    name.to_binary().as_slice().to_vec()
}

/// Registers a process. `None` if that is dead.
pub(crate) fn register<'a>(
    env: Env<'a>,
    name: Term<'a>,
    pid: LocalPid,
    timeout: Option<Duration>,
) -> Result<Option<ResourceArc<Reply>>, Refused> {
    let Some(mail) = Mail::new() else { return Err(Refused::Overloaded) };
    let reply = ResourceArc::new(Reply { ticket: AtomicU64::new(0) });
    let word = mail.keep(name);
    REPLIES.register(&name_of(name), timeout, |ticket| {
        reply.ticket.store(ticket.word(), Ordering::Release);
        Sink::Process { pid, reply: reply.clone(), mail, name: word }
    })?;
    if env.monitor(&reply, &pid).is_none() {
        drop(REPLIES.end(Who::Ticket(reply.ticket()), End::Cancelled));
        return Ok(None);
    }
    Ok(Some(reply))
}

/// Ends whoever waits for a name, or a certain waiter: `name` is either. Whether it was this call that did.
pub(crate) fn end(env: Env<'_>, name: Term<'_>, state: State, value: Term<'_>) -> bool {
    let Some(mail) = Mail::new() else { return false };
    let word = mail.keep(value);
    let sink = match name.decode::<ResourceArc<Reply>>() {
        Ok(reply) => REPLIES.end(Who::Ticket(reply.ticket()), state.end()),
        Err(_) => REPLIES.end(Who::Name(&name_of(name)), state.end()),
    };
    finish(sink, state, mail, word, Some(env))
}

fn finish(sink: Option<Sink>, state: State, mail: Mail, word: ErlNifTerm, env: Option<Env<'_>>) -> bool {
    let won = sink.is_some();
    if let Some(sink) = sink {
        sink.tell(state, mail, word, env);
    }
    won
}

/// `reply_register(name, deliver, seconds, /)`: a waiter of Python's. Its number, or why there is none.
pub(crate) fn reply_register(py: Attached<'_>, bridge: &Bridge, args: Args<'_>) -> PyResult<Owned> {
    let &[name, deliver, seconds] = positional(py, "reply_register", args)? else {
        return Err(Fault::type_error("reply_register() takes a name, a function and seconds").raise(py));
    };
    let timeout = if seconds.is_none() {
        None
    } else {
        let seconds = seconds.to_f64(py)?;
        let timeout = Duration::try_from_secs_f64(seconds);
        Some(timeout.map_err(|_| Fault::value_error(format!("a timeout of {seconds} seconds")).raise(py))?)
    };
    let mail = Mail::new().ok_or_else(|| no_memory(py))?;
    let name = to_term(py, bridge, mail.env(), &name).map_err(|refused| refused.raise(py))?;
    let stranger = || Fault::runtime("an interpreter that is not Erlang's").raise(py);
    let realm = bridge.realm().ok_or_else(stranger)?;
    let deliver = Remote::new(py, deliver.clone_ref(py), &bridge.home).map_err(|_| stranger())?;
    let registered = REPLIES.register(&name_of(name), timeout, |ticket| {
        realm.speaker().expect(ticket);
        Sink::Python { realm: Arc::downgrade(&realm), ticket, deliver }
    });
    match registered {
        Ok(ticket) => Owned::uint(py, ticket.word()),
        Err(refused) => Owned::str(py, refused_as(refused)),
    }
}

/// `reply_end(name, number, state, value, /)`: ends a waiter by its number, or by its name if that is `None`. Whether it did.
pub(crate) fn reply_end(py: Attached<'_>, bridge: &Bridge, args: Args<'_>) -> PyResult<Owned> {
    let &[name, number, state, value] = positional(py, "reply_end", args)? else {
        return Err(Fault::type_error("reply_end() takes a name, a number, a state and a value").raise(py));
    };
    let state = State::named(state.to_str(py)?);
    let state = state.ok_or_else(|| Fault::value_error("a state that nothing ends in").raise(py))?;
    let mail = Mail::new().ok_or_else(|| no_memory(py))?;
    let term = |object: Borrowed<'_>| {
        to_term(py, bridge, mail.env(), &object)
            .map(|term| term.as_c_arg())
            .map_err(|refused| refused.raise(py))
    };
    let word = term(value)?;
    let who = if number.is_none() { Err(term(name)?) } else { Ok(Ticket::from_word(number.to_u64(py)?)) };
    let sink = match who {
        Ok(ticket) => REPLIES.end(Who::Ticket(ticket), state.end()),
        // SAFETY: made in this mail.
        Err(name) => REPLIES.end(Who::Name(&name_of(unsafe { mail.term(name) })), state.end()),
    };
    Ok(Owned::bool(py, finish(sink, state, mail, word, None)))
}

/// `reply_counters()`: what has happened so far, and how many wait.
pub(crate) fn reply_counters(py: Attached<'_>, _bridge: &Bridge, _args: Args<'_>) -> PyResult<Owned> {
    let counters = Owned::dict(py)?;
    for (name, number) in counts() {
        counters.dict_set(py, &Owned::str(py, name)?, &Owned::uint(py, number)?)?;
    }
    Ok(counters)
}

/// The counters by their names, and how many wait.
pub(crate) fn counts() -> [(&'static str, u64); 7] {
    let counters = REPLIES.counters();
    [
        ("registered", counters.registered),
        ("completed", counters.completed),
        ("cancelled", counters.cancelled),
        ("expired", counters.expired),
        ("duplicate_terminal", counters.duplicate_terminal),
        ("late_reply_drop", counters.late_reply_drop),
        ("in_flight", REPLIES.in_flight() as u64),
    ]
}

/// The word for a refusal.
pub(crate) fn refused_as(refused: Refused) -> &'static str {
    match refused {
        Refused::AlreadyRegistered => "already_registered",
        Refused::Overloaded => "overloaded",
        Refused::NoLoop => "system_limit",
    }
}
