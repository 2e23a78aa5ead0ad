//! `BareLoop`: a loop of callback ids: fds and timers that Erlang asks for by number, with no Python in it. Any thread, one at a
//! time, under a lock that is held for no more than a few system calls that do not wait.
//!
//! What is ready is collected in `pending` until somebody takes it. An fd that is in there is not listened to meanwhile: readiness
//! is a state, and would be reported without end. Its process waits by one `enif_select` on the poller's fd; see `arm`.
//!
//! End: `destroy`, or the last reference being forgotten. The BEAM lets go of the fd before it is closed.

use std::collections::{HashMap, VecDeque};
use std::os::fd::AsRawFd;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use evloop::os::{Poller, now};
use evloop::{Core, Error, Fd, Interest, LoopId, SourceToken, TimerToken, Tuning, Wait};
use rustler::{Atom, Env, LocalPid, Resource, Term};

use crate::atoms;
use crate::inbox::lock;
use crate::request::Request;
use crate::select::Selected;

/// What became ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Read,
    Write,
    Timer,
}

/// Who is told of one direction of an fd: the registration and the callback.
#[derive(Debug, Clone, Copy)]
struct Listener {
    serial: u64,
    callback: u64,
}

struct Watch {
    fd: i32,
    reader: Option<Listener>,
    writer: Option<Listener>,
    /// What is pending, and not listened to.
    shown: Interest,
}

impl Watch {
    fn place(&mut self, direction: Interest) -> &mut Option<Listener> {
        if direction == Interest::READ { &mut self.reader } else { &mut self.writer }
    }

    fn wanted(&self) -> Interest {
        let read = if self.reader.is_some() { Interest::READ } else { Interest::NONE };
        let write = if self.writer.is_some() { Interest::WRITE } else { Interest::NONE };
        read.with(write).without(self.shown)
    }
}

struct Inner {
    core: Core<Watch, u64, ()>,
    by_fd: HashMap<i32, SourceToken>,
    pending: Vec<(u64, Kind)>,
    shown: Vec<i32>,
    serial: u64,
    woken: bool,
    owner: Option<LocalPid>,
    selected: Option<Selected>,
    tasks: VecDeque<Request>,
}

/// A registration, as Erlang holds it.
pub(crate) struct FdRef {
    home: LoopId,
    fd: i32,
    direction: Interest,
    serial: u64,
}

#[rustler::resource_impl]
impl Resource for FdRef {}

/// A timer, as Erlang holds it.
pub(crate) struct TimerRef {
    home: LoopId,
    token: TimerToken,
}

#[rustler::resource_impl]
impl Resource for TimerRef {}

/// The resource; the term of it is the `LoopRef` of `event_loop_new`.
pub(crate) struct BareLoop {
    poller: Arc<Poller>,
    /// `None` once it is destroyed.
    inner: Mutex<Option<Inner>>,
}

#[rustler::resource_impl]
impl Resource for BareLoop {
    const IMPLEMENTS_DESTRUCTOR: bool = true;

    fn destructor(self, env: Env<'_>) {
        let _owner = self.destroy(env);
    }
}

/// What an error is called in Erlang.
fn name(error: &Error) -> Atom {
    match error {
        Error::BadFd { .. } => atoms::ebadf(),
        Error::NotPollable { .. } => atoms::not_pollable(),
        Error::ForeignToken | Error::StaleToken => atoms::invalid_fd(),
        _ => atoms::badarg(),
    }
}

impl Inner {
    /// Moves what is ready to what is pending.
    fn collect(&mut self) -> Result<(), Error> {
        self.core.poll(Wait::No)?;
        let mut changed = Vec::new();
        while let Some((token, ready, watch)) = self.core.next_event() {
            for (direction, kind) in [(Interest::READ, Kind::Read), (Interest::WRITE, Kind::Write)] {
                if !ready.contains(direction) || watch.shown.contains(direction) {
                    continue;
                }
                if let Some(listener) = *watch.place(direction) {
                    self.pending.push((listener.callback, kind));
                    watch.shown = watch.shown.with(direction);
                    changed.push((token, watch.fd, watch.wanted()));
                }
            }
        }
        for (token, fd, wanted) in changed {
            self.shown.push(fd);
            self.core.set_interest(token, wanted)?;
        }
        while let Some(callback) = self.core.pop_due() {
            self.pending.push((callback, Kind::Timer));
        }
        Ok(())
    }

    /// Hands out what is pending, and listens again.
    fn take(&mut self) -> Vec<(u64, Kind)> {
        for fd in std::mem::take(&mut self.shown) {
            let Some(token) = self.by_fd.get(&fd).copied() else { continue };
            let Ok(watch) = self.core.source(token) else { continue };
            watch.shown = Interest::NONE;
            let wanted = watch.wanted();
            if self.core.set_interest(token, wanted).is_err() {
                // Closed meanwhile.
                self.forget(fd, token);
            }
        }
        std::mem::take(&mut self.pending)
    }

    fn forget(&mut self, fd: i32, token: SourceToken) {
        self.by_fd.remove(&fd);
        // The registration of a closed fd may be gone already.
        let _gone = self.core.deregister(token);
    }

    fn listen(&mut self, fd: i32, direction: Interest, callback: u64) -> Result<FdRef, Error> {
        self.serial += 1;
        let listener = Some(Listener { serial: self.serial, callback });
        let known = self.by_fd.get(&fd).copied();
        if let Some(token) = known
            && let Ok(watch) = self.core.source(token)
        {
            *watch.place(direction) = listener;
            let wanted = watch.wanted();
            match self.core.renew_interest(token, wanted) {
                Ok(()) => return Ok(self.reference(fd, direction)),
                // The number has a new owner, or none: from the beginning.
                Err(_) => self.forget(fd, token),
            }
        }
        let mut watch = Watch { fd, reader: None, writer: None, shown: Interest::NONE };
        *watch.place(direction) = listener;
        let token = self.core.register(Fd::Lent(fd), direction, watch)?;
        self.by_fd.insert(fd, token);
        Ok(self.reference(fd, direction))
    }

    fn reference(&self, fd: i32, direction: Interest) -> FdRef {
        FdRef { home: self.core.id(), fd, direction, serial: self.serial }
    }

    fn unlisten(&mut self, reference: &FdRef, direction: Interest) -> Result<(), Atom> {
        if reference.home != self.core.id() || reference.direction != direction {
            return Err(atoms::invalid_fd());
        }
        let Some(token) = self.by_fd.get(&reference.fd).copied() else { return Ok(()) };
        let Ok(watch) = self.core.source(token) else { return Ok(()) };
        let place = watch.place(direction);
        // Another registration of the same number is another's.
        if place.is_none_or(|listener| listener.serial != reference.serial) {
            return Ok(());
        }
        let gone = place.take();
        let (wanted, alone) = (watch.wanted(), watch.reader.is_none() && watch.writer.is_none());
        if let Some(gone) = gone {
            let kind = if direction == Interest::READ { Kind::Read } else { Kind::Write };
            self.pending.retain(|event| *event != (gone.callback, kind));
        }
        if alone || self.core.set_interest(token, wanted).is_err() {
            self.forget(reference.fd, token);
        }
        Ok(())
    }
}

impl BareLoop {
    pub(crate) fn new() -> Result<Self, Error> {
        let core = Core::new(Tuning { spin: Duration::ZERO, ..Tuning::default() })?;
        core.inbox().open();
        let poller = core.poller().clone();
        let inner = Inner {
            core,
            by_fd: HashMap::new(),
            pending: Vec::new(),
            shown: Vec::new(),
            serial: 0,
            woken: false,
            owner: None,
            selected: None,
            tasks: VecDeque::new(),
        };
        Ok(Self { poller, inner: Mutex::new(Some(inner)) })
    }

    fn with<R>(&self, f: impl FnOnce(&mut Inner) -> Result<R, Atom>) -> Result<R, Atom> {
        lock(&self.inner).as_mut().ok_or_else(atoms::invalid_loop).and_then(f)
    }

    /// Ends it. Who waited for it, if anybody did; an error if it was ended before.
    pub(crate) fn destroy(&self, env: Env<'_>) -> Result<Option<LocalPid>, Atom> {
        let inner = lock(&self.inner).take().ok_or_else(atoms::invalid_loop)?;
        if let Some(selected) = inner.selected {
            selected.stop(env);
        }
        // Tasks that nobody took up are answered by being dropped; who waits in `poll` is woken.
        self.poller.wake();
        Ok(inner.owner)
    }

    pub(crate) fn add(&self, fd: i32, direction: Interest, callback: u64) -> Result<FdRef, Atom> {
        self.with(|inner| inner.listen(fd, direction, callback).map_err(|error| name(&error)))
    }

    pub(crate) fn remove(&self, reference: &FdRef, direction: Interest) -> Result<(), Atom> {
        self.with(|inner| inner.unlisten(reference, direction))
    }

    pub(crate) fn call_later(&self, delay: Duration, callback: u64) -> Result<TimerRef, Atom> {
        let timer = self.with(|inner| {
            let nanos = u64::try_from(delay.as_nanos()).unwrap_or(u64::MAX);
            let token = inner.core.add_timer(now().saturating_add(nanos), callback);
            Ok(TimerRef { home: inner.core.id(), token })
        })?;
        // It may be the first that is due.
        self.poller.wake();
        Ok(timer)
    }

    pub(crate) fn cancel_timer(&self, timer: &TimerRef) -> Result<(), Atom> {
        self.with(|inner| {
            if timer.home != inner.core.id() {
                return Err(atoms::invalid_timer());
            }
            // One that has fired is gone.
            let _fired = inner.core.cancel_timer(timer.token);
            Ok(())
        })
    }

    pub(crate) fn take(&self) -> Result<Vec<(u64, Kind)>, Atom> {
        self.with(|inner| Ok(inner.take()))
    }

    /// Ends the wait of whoever waits.
    pub(crate) fn wake(&self) -> Result<(), Atom> {
        self.with(|inner| {
            inner.woken = true;
            Ok(())
        })?;
        self.poller.wake();
        Ok(())
    }

    /// Waits until something is pending, but not longer than this: how much there is.
    pub(crate) fn poll(&self, timeout: Duration) -> Result<usize, Atom> {
        let deadline = Instant::now().checked_add(timeout);
        loop {
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            let (count, asleep) = self.with(|inner| {
                inner.collect().map_err(|error| name(&error))?;
                let woken = std::mem::take(&mut inner.woken);
                let over = woken || !inner.pending.is_empty() || left.is_some_and(|left| left.is_zero());
                let asleep = !over && inner.core.park().map_err(|error| name(&error))?;
                Ok((over.then_some(inner.pending.len()), asleep))
            })?;
            if let Some(count) = count {
                return Ok(count);
            }
            if asleep {
                self.wait(left);
            }
        }
    }

    fn wait(&self, left: Option<Duration>) {
        let mut waited = libc::pollfd { fd: self.poller.fd().as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // Rounded up, so that nobody turns in vain; looked at again every minute at the latest.
        let millis = left.map_or(60_000, |left| left.as_millis().saturating_add(1).min(60_000));
        let millis = i32::try_from(millis).unwrap_or(60_000);
        // SAFETY: one entry, with an fd that is open for as long as the poller lives.
        unsafe { libc::poll(&raw mut waited, 1, millis) };
    }

    /// Says who waits for it.
    pub(crate) fn set_owner(&self, owner: LocalPid) -> Result<(), Atom> {
        self.with(|inner| {
            inner.owner = Some(owner);
            Ok(())
        })
    }

    /// The owner waits: `{select, _, Reference, ready_input}` is sent to it when there is something to do. How much is pending.
    ///
    /// Everything that is there is taken first, until epoll has nothing more; then the deadline is armed, and then the fd.
    pub(crate) fn arm(&self, env: Env<'_>, reference: Term<'_>) -> Result<usize, Atom> {
        let owner = env.pid();
        self.with(|inner| {
            if inner.owner != Some(owner) {
                return Err(atoms::not_owner());
            }
            loop {
                inner.collect().map_err(|error| name(&error))?;
                if inner.core.park().map_err(|error| name(&error))? {
                    break;
                }
            }
            if inner.selected.is_none() {
                inner.selected = Selected::new(&self.poller);
            }
            let armed = inner.selected.as_ref().is_some_and(|selected| selected.arm(env, owner, reference));
            if armed { Ok(inner.pending.len()) } else { Err(atoms::badarg()) }
        })
    }

    /// Queues a task. Who is to be told, if this is the first one.
    pub(crate) fn push(&self, request: Request) -> Result<Option<LocalPid>, Request> {
        let mut inner = lock(&self.inner);
        let Some(inner) = inner.as_mut() else { return Err(request) };
        inner.tasks.push_back(request);
        Ok(inner.owner.filter(|_| inner.tasks.len() == 1))
    }

    /// The next tasks, and whether there are more.
    pub(crate) fn tasks(&self, most: usize) -> Result<(Vec<Request>, bool), Atom> {
        self.with(|inner| {
            let count = most.min(inner.tasks.len());
            let taken = inner.tasks.drain(..count).collect();
            Ok((taken, !inner.tasks.is_empty()))
        })
    }
}
