//! `Request`: one piece of work for Python, with its terms, and the only right to answer it.
//!
//! Made on a scheduler thread, moved to the thread that runs it. It is answered exactly once: [`Request::answer`] consumes it,
//! and dropping it unanswered answers `{error, dropped}`. A cancelled one is answered to nobody.

use std::sync::atomic::Ordering;

use pyrt::Remote;
use rustler::sys::ErlNifTerm;
use rustler::types::tuple::get_tuple;
use rustler::{Encoder, Env, LocalPid, ResourceArc, Term};

use crate::atoms;
use crate::beam::Mail;
use crate::convert::Leaf;
use crate::desk;
use crate::small::{Kinds, Small, Word};
use crate::stats::STATS;
use crate::stream::Flow;
use crate::table::{self, Answer, Id};
use crate::target::Target;
use crate::task::{Form, Task};
use crate::tray::Reply;

/// What is asked for. The terms are those given to `py_nif:submit`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Op {
    /// `module, function, args, kwargs`
    Call,
    /// As a call; the result stays in Python and a reference to it is the answer.
    CallRef,
    /// `code, locals`
    Eval,
    /// `code`
    Exec,
    /// As a call, and as `eval`; the answer is the list of what the result yields.
    Collect,
    CollectEval,
    /// As a call, on an event loop: what can be awaited is.
    Task,
    /// As `Collect`, on an event loop.
    Drain,
}

/// Who waits for the answer.
struct Wait {
    id: Id,
    pid: LocalPid,
    tag: Tag,
}

/// The first element of `{Tag, Ref, Result}`; without one it is `{Ref, Result}`. Each with the reference first.
enum Tag {
    None(ErlNifTerm),
    /// None, and the caller comes for the answer, for a while.
    Watched(ErlNifTerm),
    Word(ErlNifTerm, ErlNifTerm),
    /// That of a task, which is the reference as well, and keeps the task.
    Task(ErlNifTerm, Form),
    /// Likewise, of a request without an environment to have terms in.
    Small(ResourceArc<Task>),
    /// `{Good, Ref, Value}` or `{Bad, Ref, Reason}`.
    Split(ErlNifTerm, Tags),
    /// The result alone, and no process is sent it. In a box, for most requests have none.
    Sink(Box<Sink>),
}

/// Is handed a result: a term of a mail. On the thread that ran the request.
pub(crate) type Sink = Box<dyn FnOnce(Mail, ErlNifTerm) + Send>;

/// The two tags of an answer that is split.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tags {
    /// `call_result` and `call_error`
    Call,
    /// `py_result` and `py_error`
    Result,
}

/// One piece of work.
pub(crate) struct Request {
    pub(crate) op: Op,
    /// What the words are of a small request, which has no environment until it is answered.
    kinds: Option<Kinds>,
    /// The environment of the words that are terms, until it is answered.
    mail: Option<Mail>,
    words: [Word; 4],
    wait: Option<Wait>,
    /// Where it was sent to, and where it goes on.
    pub(crate) target: Target,
    pub(crate) piece: Option<Box<Piece>>,
}

/// What a request that is performed in pieces goes on with.
pub(crate) enum Piece {
    /// The next step of a chain, which is taken in place of the terms.
    Next(Remote),
    /// A stream: what it yields is sent.
    Flow(Flow),
}

/// A larger box would go from thread to thread under a lock of the allocator.
const _: () = assert!(size_of::<Request>() <= 120);

// SAFETY: the words are terms of `mail`, which is owned, or immediates; a pid is plain data.
unsafe impl Send for Request {}

impl Request {
    /// Copies the terms out of the calling process. `reply` is the reference and the tag of the answer.
    pub(crate) fn new(
        op: Op,
        terms: [Term<'_>; 4],
        reply: Option<(LocalPid, Term<'_>, Option<Term<'_>>)>,
        target: Target,
    ) -> Option<Self> {
        Self::with(false, op, terms, reply, target)
    }

    /// Likewise, and the caller comes for the answer.
    pub(crate) fn watched(
        op: Op,
        terms: [Term<'_>; 4],
        reply: Option<(LocalPid, Term<'_>, Option<Term<'_>>)>,
        target: Target,
    ) -> Option<Self> {
        Self::with(true, op, terms, reply, target)
    }

    fn with(
        watched: bool,
        op: Op,
        terms: [Term<'_>; 4],
        reply: Option<(LocalPid, Term<'_>, Option<Term<'_>>)>,
        target: Target,
    ) -> Option<Self> {
        let (mail, id) = match &reply {
            Some((pid, _, None)) if watched => desk::open(*pid).map(|(mail, id)| (mail, Some(id)))?,
            Some(_) => (Mail::new()?, Some(table::open()?)),
            None => (Mail::new()?, None),
        };
        let wait = id.zip(reply).map(|(id, (pid, reference, tag))| Wait {
            id,
            pid,
            tag: match tag {
                Some(tag) => Tag::Word(mail.keep(reference), mail.keep(tag)),
                None if watched => Tag::Watched(mail.keep(reference)),
                None => Tag::None(mail.keep(reference)),
            },
        });
        let words = terms.map(|term| Word { term: mail.keep(term) });
        Some(Self { op, kinds: None, mail: Some(mail), words, wait, target, piece: None })
    }

    /// One of a task, without an environment.
    pub(crate) fn of_small(op: Op, small: Small, task: ResourceArc<Task>, target: Target) -> Option<Self> {
        let id = table::open()?;
        task.name(id);
        let wait = Some(Wait { id, pid: task.owner(), tag: Tag::Small(task) });
        let Small { words, kinds } = small;
        Some(Self { op, kinds: Some(kinds), mail: None, words, wait, target, piece: None })
    }

    /// The call it is, if that is a small one.
    pub(crate) fn small(&self) -> Option<Small> {
        self.kinds.map(|kinds| Small { words: self.words, kinds })
    }

    /// One whose result, `{ok, _}` or `{error, _}`, is handed over. Its terms lie in `mail`; `caller` is whom it is done for.
    pub(crate) fn with_sink(
        op: Op,
        mail: Mail,
        terms: [ErlNifTerm; 4],
        caller: LocalPid,
        target: Target,
        sink: Sink,
    ) -> Option<(Self, Id)> {
        let id = table::open()?;
        let wait = Some(Wait { id, pid: caller, tag: Tag::Sink(Box::new(sink)) });
        let words = terms.map(|term| Word { term });
        Some((Self { op, kinds: None, mail: Some(mail), words, wait, target, piece: None }, id))
    }

    /// Has the answer put as `{Good, Ref, Value}` or `{Bad, Ref, Reason}`.
    pub(crate) fn split(&mut self, tags: Tags) {
        if let Some(wait) = &mut self.wait
            && let Some(reference) = wait.tag.reference()
        {
            wait.tag = Tag::Split(reference, tags);
        }
    }

    /// Says which task it is. Its id is the request's.
    pub(crate) fn belong_to(&mut self, task: &Task) {
        if let Some(wait) = &mut self.wait
            && let Some(reference) = wait.tag.reference()
        {
            task.name(wait.id);
            wait.tag = Tag::Task(reference, task.form());
        }
    }

    /// The task it is, if it is one.
    pub(crate) fn task(&self) -> Option<ResourceArc<Task>> {
        let wait = self.wait.as_ref()?;
        match &wait.tag {
            // SAFETY: kept in this mail by `new`.
            Tag::Task(reference, _) => unsafe { self.mail.as_ref()?.term(*reference) }.decode().ok(),
            Tag::Small(task) => Some(task.clone()),
            Tag::None(_) | Tag::Watched(_) | Tag::Word(..) | Tag::Split(..) | Tag::Sink(_) => None,
        }
    }

    /// Its id, if somebody waits for it.
    pub(crate) fn id(&self) -> Option<Id> {
        self.wait.as_ref().map(|wait| wait.id)
    }

    /// Who waits for it.
    pub(crate) fn caller(&self) -> Option<LocalPid> {
        self.wait.as_ref().map(|wait| wait.pid)
    }

    /// Whether an answer is still wanted: not cancelled, and the caller is alive, or was a moment ago. A cast is
    /// always wanted.
    pub(crate) fn is_wanted(&self) -> bool {
        match &self.wait {
            None => true,
            Some(wait) if !table::is_live(wait.id) => false,
            Some(wait) if matches!(wait.tag, Tag::Watched(_)) && table::is_young(wait.id) => true,
            Some(wait) => table::was_alive(wait.pid) || !table::cancel(wait.id),
        }
    }

    /// Whether nobody has cancelled it.
    pub(crate) fn is_live(&self) -> bool {
        self.id().is_none_or(table::is_live)
    }

    /// Its terms. None if it has none, or was answered, which takes the request away anyway.
    pub(crate) fn terms(&self) -> Option<[Term<'_>; 4]> {
        let mail = self.mail.as_ref()?;
        // SAFETY: with a mail they are terms, which were kept in it by `new`.
        Some(self.words.map(|word| unsafe { mail.term(word.term) }))
    }

    /// Whether the caller may be looking for the answer.
    pub(crate) fn is_watched(&self) -> bool {
        self.wait.as_ref().is_some_and(|wait| matches!(wait.tag, Tag::Watched(_)))
    }

    /// Answers `{ok, _}` with a small value, for the caller to find. Given back if that is not looking any more.
    pub(crate) fn leave_answer(mut self, leaf: Leaf) -> Result<(), Self> {
        let (Some(id), Some(mail)) = (self.id(), self.mail.take()) else { return Err(self) };
        match table::put(id, Answer { leaf, mail }) {
            Ok(()) => {
                self.wait = None;
                STATS.answered.fetch_add(1, Ordering::Relaxed);
                Ok(())
            }
            Err(answer) => {
                self.mail = Some(answer.mail);
                Err(self)
            }
        }
    }

    /// The answer `{ok, _}` with a small value, if it is a small request. Given back if it is not.
    pub(crate) fn into_reply(mut self, leaf: Leaf) -> Result<Reply, Self> {
        match self.wait.take() {
            Some(Wait { id, pid, tag: Tag::Small(task) }) => Ok(Reply { id, pid, task, leaf }),
            wait => {
                self.wait = wait;
                Err(self)
            }
        }
    }

    /// Answers with the term that `result` makes.
    pub(crate) fn answer(mut self, result: impl for<'a> FnOnce(Env<'a>) -> Term<'a>) {
        self.finish(result, Mail::send);
    }

    /// [`answer`](Self::answer) in a function of `py_nif`, whose environment is `env`.
    pub(crate) fn answer_from(mut self, env: Env<'_>, result: impl for<'a> FnOnce(Env<'a>) -> Term<'a>) {
        self.finish(result, |mail, to, word| mail.send_from(env, to, word));
    }

    /// Takes it back before anybody has seen it: its caller is told by the return value.
    pub(crate) fn withdraw(mut self) {
        if let Some(wait) = self.wait.take() {
            table::close(wait.id);
        }
    }

    fn finish(
        &mut self,
        result: impl for<'a> FnOnce(Env<'a>) -> Term<'a>,
        send: impl FnOnce(Mail, LocalPid, ErlNifTerm) -> bool,
    ) {
        let (mail, Some(wait)) = (self.mail.take(), self.wait.take()) else { return };
        let Some(mail) = mail.or_else(|| self.kinds.and_then(|_| Mail::new())) else { return };
        if let Tag::Sink(sink) = wait.tag {
            let word = result(mail.env()).as_c_arg();
            if table::close(wait.id) {
                STATS.answered.fetch_add(1, Ordering::Relaxed);
                sink(mail, word);
            }
            return;
        }
        let message = {
            let result = result(mail.env());
            // SAFETY: kept in this mail by `new`.
            let term = |word| unsafe { mail.term(word) };
            let message = match wait.tag {
                Tag::None(reference) | Tag::Watched(reference) => {
                    (term(reference), result).encode(mail.env())
                }
                Tag::Word(reference, tag) => (term(tag), term(reference), result).encode(mail.env()),
                Tag::Task(reference, form) => form.put(term(reference), result),
                Tag::Small(task) => task.form().put(task.encode(mail.env()), result),
                Tag::Split(reference, tags) => tags.put(term(reference), result),
                Tag::Sink(_) => result,
            };
            message.as_c_arg()
        };
        if table::close(wait.id) {
            send(mail, wait.pid, message);
            STATS.answered.fetch_add(1, Ordering::Relaxed);
        } else {
            STATS.late.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Tag {
    /// The reference, a term of the mail.
    fn reference(&self) -> Option<ErlNifTerm> {
        match self {
            Self::None(reference)
            | Self::Watched(reference)
            | Self::Word(reference, _)
            | Self::Task(reference, _)
            | Self::Split(reference, _) => Some(*reference),
            Self::Small(_) | Self::Sink(_) => None,
        }
    }
}

impl Tags {
    /// `{ok, Value}` with the good one, `{error, Reason}` with the bad one.
    pub(crate) fn put<'a>(self, reference: Term<'a>, result: Term<'a>) -> Term<'a> {
        let (good, bad) = match self {
            Self::Call => (atoms::call_result(), atoms::call_error()),
            Self::Result => (atoms::py_result(), atoms::py_error()),
        };
        match get_tuple(result).unwrap_or_default().as_slice() {
            [tag, value] if atoms::ok() == *tag => (good, reference, *value).encode(result.get_env()),
            [_, reason] => (bad, reference, *reason).encode(result.get_env()),
            _ => (bad, reference, result).encode(result.get_env()),
        }
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        self.finish(|env| (atoms::error(), atoms::dropped()).encode(env), Mail::send);
    }
}
