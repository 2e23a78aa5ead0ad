//! The functions of `py_nif` about loops of callback ids. Called on schedulers, where none of them waits, except for `poll_events`.

use std::time::Duration;

use evloop::Interest;
use rustler::{Atom, Encoder, Env, LocalPid, NifResult, ResourceArc, Term};

use crate::atoms;
use crate::bare::{BareLoop, FdRef, Kind, TimerRef};
use crate::event_loop::Floor;
use crate::target::Target;

/// How many tasks are begun at once.
const BATCH: usize = 256;

fn answer<'a, T: Encoder>(env: Env<'a>, result: Result<T, Atom>) -> Term<'a> {
    match result {
        Ok(value) => (atoms::ok(), value).encode(env),
        Err(reason) => (atoms::error(), reason).encode(env),
    }
}

fn done(env: Env<'_>, result: Result<(), Atom>) -> Term<'_> {
    match result {
        Ok(()) => atoms::ok().encode(env),
        Err(reason) => (atoms::error(), reason).encode(env),
    }
}

fn found(term: Term<'_>) -> Result<ResourceArc<BareLoop>, Atom> {
    term.decode().map_err(|_| atoms::invalid_loop())
}

/// A new loop.
#[rustler::nif]
fn event_loop_new(env: Env<'_>) -> Term<'_> {
    match BareLoop::new() {
        Ok(bare) => (atoms::ok(), ResourceArc::new(bare)).encode(env),
        Err(error) => (atoms::error(), error.to_string()).encode(env),
    }
}

/// Ends a loop; who waits for it is sent `{py_loop_detach, Loop}`.
#[rustler::nif]
fn event_loop_destroy<'a>(env: Env<'a>, event_loop: Term<'a>) -> Term<'a> {
    let destroyed = found(event_loop).and_then(|bare| bare.destroy(env));
    if let Ok(Some(owner)) = &destroyed {
        // One that is gone needs no word.
        let _gone = env.send(owner, (atoms::py_loop_detach(), event_loop));
    }
    done(env, destroyed.map(drop))
}

/// Says which process waits for a loop; that is sent `{py_loop_attach, Loop}`.
fn attach<'a>(env: Env<'a>, event_loop: Term<'a>, owner: Term<'a>) -> Result<(), Atom> {
    let bare = found(event_loop)?;
    let pid: LocalPid = owner.decode().map_err(|_| atoms::invalid_pid())?;
    if !pid.is_alive(env) {
        return Err(atoms::invalid_pid());
    }
    bare.set_owner(pid)?;
    env.send(&pid, (atoms::py_loop_attach(), event_loop)).map_err(|_| atoms::invalid_pid())
}

#[rustler::nif]
fn event_loop_set_worker<'a>(env: Env<'a>, event_loop: Term<'a>, worker: Term<'a>) -> Term<'a> {
    done(env, attach(env, event_loop, worker))
}

#[rustler::nif]
fn event_loop_set_router<'a>(env: Env<'a>, event_loop: Term<'a>, router: Term<'a>) -> Term<'a> {
    done(env, attach(env, event_loop, router))
}

/// Ends the wait of whoever waits.
#[rustler::nif]
fn event_loop_wakeup<'a>(env: Env<'a>, event_loop: Term<'a>) -> Term<'a> {
    done(env, found(event_loop).and_then(|bare| bare.wake()))
}

/// The owner waits for the loop by one `enif_select`. How much is pending.
#[rustler::nif]
fn event_loop_arm<'a>(env: Env<'a>, event_loop: Term<'a>, reference: Term<'a>) -> Term<'a> {
    answer(env, found(event_loop).and_then(|bare| bare.arm(env, reference)))
}

fn add<'a>(
    event_loop: Term<'a>,
    fd: i32,
    direction: Interest,
    callback: u64,
) -> Result<ResourceArc<FdRef>, Atom> {
    found(event_loop)?.add(fd, direction, callback).map(ResourceArc::new)
}

#[rustler::nif]
fn add_reader<'a>(env: Env<'a>, event_loop: Term<'a>, fd: i32, callback: u64) -> Term<'a> {
    answer(env, add(event_loop, fd, Interest::READ, callback))
}

#[rustler::nif]
fn add_writer<'a>(env: Env<'a>, event_loop: Term<'a>, fd: i32, callback: u64) -> Term<'a> {
    answer(env, add(event_loop, fd, Interest::WRITE, callback))
}

fn remove(event_loop: Term<'_>, reference: Term<'_>, direction: Interest) -> Result<(), Atom> {
    let bare = found(event_loop)?;
    let reference: ResourceArc<FdRef> = reference.decode().map_err(|_| atoms::invalid_fd())?;
    bare.remove(&reference, direction)
}

#[rustler::nif]
fn remove_reader<'a>(env: Env<'a>, event_loop: Term<'a>, reference: Term<'a>) -> Term<'a> {
    done(env, remove(event_loop, reference, Interest::READ))
}

#[rustler::nif]
fn remove_writer<'a>(env: Env<'a>, event_loop: Term<'a>, reference: Term<'a>) -> Term<'a> {
    done(env, remove(event_loop, reference, Interest::WRITE))
}

/// A timer in milliseconds.
#[rustler::nif]
fn call_later<'a>(env: Env<'a>, event_loop: Term<'a>, millis: u64, callback: u64) -> Term<'a> {
    let timer = found(event_loop)
        .and_then(|bare| bare.call_later(Duration::from_millis(millis), callback).map(ResourceArc::new));
    answer(env, timer)
}

#[rustler::nif]
fn cancel_timer<'a>(env: Env<'a>, event_loop: Term<'a>, timer: Term<'a>) -> Term<'a> {
    let cancelled = found(event_loop).and_then(|bare| {
        let timer: ResourceArc<TimerRef> = timer.decode().map_err(|_| atoms::invalid_timer())?;
        bare.cancel_timer(&timer)
    });
    done(env, cancelled)
}

/// Waits for events, but not longer than this: how many are pending.
#[rustler::nif(schedule = "DirtyIo")]
fn poll_events<'a>(env: Env<'a>, event_loop: Term<'a>, millis: u64) -> Term<'a> {
    answer(env, found(event_loop).and_then(|bare| bare.poll(Duration::from_millis(millis))))
}

/// What is pending, which it is no longer.
#[rustler::nif]
fn get_pending<'a>(env: Env<'a>, event_loop: Term<'a>) -> Term<'a> {
    let events = match found(event_loop).and_then(|bare| bare.take()) {
        Ok(events) => events,
        Err(reason) => return (atoms::error(), reason).encode(env),
    };
    let event = |(callback, kind): (u64, Kind)| {
        let kind = match kind {
            Kind::Read => atoms::read(),
            Kind::Write => atoms::write(),
            Kind::Timer => atoms::timer(),
        };
        (callback, kind)
    };
    events.into_iter().map(event).collect::<Vec<_>>().encode(env)
}

/// Hands the tasks that were submitted to a loop on to an event loop that runs Python: `more` if there are more than it takes at once.
#[rustler::nif]
fn process_ready_tasks<'a>(env: Env<'a>, event_loop: Term<'a>) -> NifResult<Term<'a>> {
    let (tasks, more) = match found(event_loop).and_then(|bare| bare.tasks(BATCH)) {
        Ok(taken) => taken,
        Err(reason) => return Ok((atoms::error(), reason).encode(env)),
    };
    let target = Floor::of(env.pid()).map(Target::Floor);
    for mut request in tasks {
        match &target {
            Some(target) => {
                request.target = target.clone();
                // One that nobody takes is answered by being dropped.
                let _closed = target.post(request);
            }
            None => request.answer_from(env, |env| (atoms::error(), atoms::not_started()).encode(env)),
        }
    }
    Ok(if more { atoms::more() } else { atoms::ok() }.encode(env))
}
