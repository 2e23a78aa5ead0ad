//! `State`: what a loop holds. The core, the ready queue, and which registration an fd number has.
//!
//! Reached through the `Guarded` of a `Loop`, by one attached thread at a time; nothing in here runs Python code, and what is
//! to be dropped is handed to the caller.

use std::sync::Arc;
use std::time::Duration;

use evloop::os::{Events, Nanos, Poller};
use evloop::{Core, Interest, SourceToken, Tuning, Wait};
use pyrt::{Attached, Confined, PyResult, Traverse, Typed, Visit, Visited, confined};

use crate::batch::Batch;
use crate::bound::IsHandle;
use crate::entry::{Entry, Listener, Posted, Source};
use crate::files::Files;
use crate::sock;
use crate::timer::TimerHandle;

/// What an answer of a peer on the same machine may take.
const WATCH: Duration = Duration::from_micros(60);
/// More turns than what programs of asyncio count on takes from one event to the next.
const QUIET_POLLS: u32 = 16;

/// A core that carries Python objects.
pub(crate) struct PyCore(pub(crate) Core<Source, Typed<TimerHandle>, Posted>);

// SAFETY: a core may be moved between threads if its payloads may, and these are references, bound to being attached only.
unsafe impl Confined for PyCore {}

impl Traverse for PyCore {
    fn traverse(&self, visit: &mut Visit<'_>) -> Visited {
        self.0.timer_payloads().try_for_each(|timer| timer.bound().show(timer.object(), visit))?;
        self.0.source_payloads().try_for_each(|source| source.traverse(visit))
    }
}

/// What a loop holds. Without a core it is closed.
#[derive(Default)]
pub(crate) struct State {
    pub(crate) core: Option<PyCore>,
    pub(crate) ready: Box<Batch>,
    /// The room of the batch that was run last.
    spare: Option<Box<Batch>>,
    pub(crate) by_fd: Vec<Option<SourceToken>>,
    pub(crate) files: Files,
    /// The loop's thread waits, and nobody has woken it yet.
    asleep: bool,
}

confined!(State { core, ready, spare, by_fd, files, asleep });

impl Traverse for State {
    fn traverse(&self, visit: &mut Visit<'_>) -> Visited {
        self.core.traverse(visit)?;
        self.ready.traverse(visit)?;
        self.files.traverse(visit)
    }
}

/// How a turn begins.
pub(crate) enum Start {
    /// With what is there: all that is to run in this turn.
    Run(Box<Batch>),
    /// epoll was asked, so signals may have come in and handlers for them are to run first; then collect.
    Asked,
    /// With a wait, for which the thread is to detach; awake if it says how long. Then collect.
    Sleep(Arc<Poller>, Events, Duration),
}

impl State {
    pub(crate) fn open() -> evloop::Result<Self> {
        // Nobody can hand anything over while this thread is attached and spins, so it does not. Detached it may.
        let core = Core::new(Tuning {
            spin: Duration::ZERO,
            watch: WATCH,
            quiet_polls: QUIET_POLLS,
            ..Tuning::default()
        })?;
        core.inbox().open();
        Ok(Self { core: Some(PyCore(core)), ..Self::default() })
    }

    /// Adds something to run. The poller to wake comes back if the loop's thread waits.
    #[inline]
    #[must_use = "the loop's thread waits"]
    pub(crate) fn push(&mut self, entry: Entry) -> Option<Arc<Poller>> {
        self.ready.push_back(entry);
        if self.asleep { self.rouse() } else { None }
    }

    /// Adds a timer. The poller to wake comes back if the loop's thread waits, perhaps for a later one.
    #[inline]
    pub(crate) fn add_timer(
        &mut self,
        deadline: Nanos,
        handle: &TimerHandle,
        kept: Typed<TimerHandle>,
    ) -> Option<Arc<Poller>> {
        if let Some(PyCore(core)) = &mut self.core {
            handle.armed(core.add_timer(deadline, kept));
        }
        if self.asleep { self.rouse() } else { None }
    }

    /// Who is to be woken, if anybody. Once per wait.
    #[cold]
    pub(crate) fn rouse(&mut self) -> Option<Arc<Poller>> {
        if !std::mem::take(&mut self.asleep) {
            return None;
        }
        self.core.as_ref().map(|PyCore(core)| core.poller().clone())
    }

    /// Begins a turn: takes what epoll has if there is work, or gets ready to wait.
    #[inline(always)]
    pub(crate) fn start(
        &mut self,
        py: Attached<'_>,
        stopping: bool,
        busy: Wait,
        dead: &mut Vec<(i32, Interest)>,
    ) -> evloop::Result<Start> {
        let Some(PyCore(core)) = &mut self.core else { return Ok(Start::Asked) };
        if !self.ready.is_empty() || stopping {
            let polls = core.counts().polls;
            core.poll(busy)?;
            let asked = core.counts().polls != polls;
            return Ok(if asked { Start::Asked } else { Start::Run(self.collect(py, dead)) });
        }
        if core.fall_asleep()? {
            self.asleep = true;
            return Ok(Start::Sleep(core.poller().clone(), core.take_events(), core.watch()));
        }
        core.poll(Wait::No)?;
        Ok(Start::Asked)
    }

    /// Goes on after a park, with what epoll has.
    pub(crate) fn unpark(&mut self) -> evloop::Result<()> {
        self.asleep = false;
        match &mut self.core {
            Some(PyCore(core)) => core.poll(Wait::No),
            None => Ok(()),
        }
    }

    /// The loop is parked: nothing was there.
    pub(crate) fn keep_room(&mut self, events: Events) {
        if let Some(PyCore(core)) = &mut self.core {
            core.keep_room(events);
        }
    }

    /// Ends a wait.
    pub(crate) fn woken(&mut self, events: Events) -> evloop::Result<()> {
        self.asleep = false;
        match &mut self.core {
            Some(PyCore(core)) => core.wake_up(events),
            None => Ok(()),
        }
    }

    /// Queues what epoll and the clock have made ready, and hands out all that is to run in this turn. What nobody
    /// listens for any more is left for the caller to remove: cancelled callbacks, and registrations that rest.
    #[inline]
    pub(crate) fn collect(&mut self, py: Attached<'_>, dead: &mut Vec<(i32, Interest)>) -> Box<Batch> {
        if let Some(PyCore(core)) = &mut self.core {
            while let Some((_, ready, source)) = core.next_event() {
                match source {
                    Source::Lent(listeners) => {
                        for direction in [Interest::READ, Interest::WRITE] {
                            if !ready.contains(direction) {
                                continue;
                            }
                            let (fd, rests) =
                                (listeners.fd, listeners.resting && direction == Interest::READ);
                            match listeners.place(direction) {
                                Some(Listener::Handle(handle)) if handle.bound().is_cancelled(py) => {
                                    dead.push((fd, direction));
                                }
                                Some(Listener::Handle(handle)) => {
                                    self.ready.push_back(Entry::Event(handle.clone_ref(py)));
                                }
                                Some(Listener::Operation(operation)) => {
                                    let target = operation.object().clone_ref(py);
                                    self.ready.push_back(Entry::Native(target, sock::ready, direction));
                                }
                                None if rests => {
                                    dead.push((fd, direction));
                                }
                                None => {}
                            }
                        }
                    }
                    Source::Native(target, run) => {
                        self.ready.push_back(Entry::Native(target.clone_ref(py), *run, ready));
                    }
                }
            }
            while let Some(timer) = core.pop_due() {
                timer.fired();
                self.ready.push_back(Entry::Timer(timer));
            }
            let mark = core.mark();
            while let Some(work) = core.pop_message(mark) {
                self.ready.push_back(Entry::Posted(work));
            }
        }
        std::mem::replace(&mut self.ready, self.spare.take().unwrap_or_default())
    }

    /// Takes a batch back: its room if it was run to its end, otherwise what is left of it, to run first.
    #[inline]
    pub(crate) fn give_back(&mut self, mut batch: Box<Batch>) {
        while let Some(entry) = batch.pop_back() {
            self.ready.push_front(entry);
        }
        if self.spare.as_ref().is_none_or(|spare| spare.capacity() < batch.capacity()) {
            self.spare = Some(batch);
        }
    }

    /// Lets go of every callback that was to come; users may still hold its handle. For a state that was taken out.
    pub(crate) fn forget(&mut self, py: Attached<'_>) -> PyResult<()> {
        self.ready.drain(..).try_for_each(|entry| entry.forget(py))?;
        let Some(PyCore(mut core)) = self.core.take() else { return Ok(()) };
        let (timers, sources) = core.clear();
        for timer in timers {
            timer.fired();
            timer.bound().forget(py)?;
        }
        drop(sources);
        Ok(())
    }

    pub(crate) fn token_of(&self, fd: i32) -> Option<SourceToken> {
        usize::try_from(fd).ok().and_then(|slot| self.by_fd.get(slot).copied().flatten())
    }

    pub(crate) fn remember(&mut self, fd: i32, token: Option<SourceToken>) {
        let Ok(slot) = usize::try_from(fd) else { return };
        if self.by_fd.len() <= slot {
            self.by_fd.resize(slot + 1, None);
        }
        if let Some(place) = self.by_fd.get_mut(slot) {
            *place = token;
        }
    }
}
