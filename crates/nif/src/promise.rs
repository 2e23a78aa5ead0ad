//! `Promise`: a future that an Erlang function completes. Behind `erlang.async_call`: the loop goes on while the function runs.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use pyloop::Poster;
use pyrt::{Args, Attached, Fault, PyResult, Remote};
use rustler::sys::ErlNifTerm;
use rustler::{Env, Term};

use crate::beam::Mail;
use crate::bridge::Bridge;
use crate::callback::{self, Waiter};
use crate::inbox::lock;
use crate::realm::Realm;
use crate::stats::STATS;
use crate::tray;

/// What answers wait for. Any thread answers; the future is touched by its loop's thread only.
pub(crate) struct Promise {
    answered: AtomicBool,
    poster: Poster,
    realm: Arc<Realm>,
    future: Mutex<Option<Remote>>,
}

impl Promise {
    pub(crate) fn is_answered(&self) -> bool {
        self.answered.load(Ordering::Acquire)
    }

    /// Gives the answer. Whether it was the first and the loop still takes it.
    pub(crate) fn answer(&self, term: impl for<'a> FnOnce(Env<'a>) -> Term<'a>) -> bool {
        let first = !self.answered.swap(true, Ordering::AcqRel);
        let future = lock(&self.future).take();
        let posted = match (future.filter(|_| first), Mail::new()) {
            (Some(future), Some(mail)) => {
                let word = term(mail.env()).as_c_arg();
                let realm = self.realm.clone();
                self.poster.post(tray::errand(move |_| settle(&realm, mail, word, future))).is_ok()
            }
            _ => false,
        };
        if !posted {
            STATS.late_callbacks.fetch_add(1, Ordering::Relaxed);
        }
        posted
    }
}

fn settle(realm: &Realm, mail: Mail, word: ErlNifTerm, future: Remote) {
    realm.attach(|py, bridge| {
        if let Err(raised) = complete(py, bridge, &mail, word, future) {
            raised.write_unraisable(py, None);
        }
    });
}

fn complete(
    py: Attached<'_>,
    bridge: &Bridge,
    mail: &Mail,
    word: ErlNifTerm,
    future: Remote,
) -> PyResult<()> {
    let Ok(future) = future.into_owned(py) else { return Ok(()) };
    if future.getattr_str(py, c"done")?.call0(py)?.is_true(py)? {
        // Cancelled: whoever waited has gone.
        STATS.late_callbacks.fetch_add(1, Ordering::Relaxed);
        return Ok(());
    }
    // SAFETY: made in this mail.
    match callback::result(py, bridge, unsafe { mail.term(word) }) {
        Ok(value) => future.getattr_str(py, c"set_result")?.call1(py, &value)?,
        Err(raised) => {
            let exception = raised.take(py).into_value();
            future.getattr_str(py, c"set_exception")?.call1(py, &exception)?
        }
    };
    Ok(())
}

/// `async_call(loop, future, name, *args)`: calls an Erlang function, whose answer completes the future of a loop of ours.
pub(crate) fn async_call(py: Attached<'_>, bridge: &Bridge, args: Args<'_>) -> PyResult<()> {
    let [event_loop, future, name, args @ ..] = args.positional() else {
        return Err(Fault::type_error("async_call() takes a loop, a future, and a name").raise(py));
    };
    let poster = Poster::of(py, *event_loop)?;
    let future = Remote::new(py, future.clone_ref(py), &bridge.home)
        .map_err(|_| Fault::runtime("a future of another interpreter").raise(py))?;
    let realm =
        bridge.realm().ok_or_else(|| Fault::runtime("an interpreter that is not Erlang's").raise(py))?;
    let promise =
        Promise { answered: AtomicBool::new(false), poster, realm, future: Mutex::new(Some(future)) };
    let (mail, word) = callback::letter(py, bridge, *name, args, Waiter::Coroutine(promise))?;
    callback::dispatch(py, mail, word)
}
