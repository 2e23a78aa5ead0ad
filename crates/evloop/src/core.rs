//! `Core`: a loop without a thread. Poller, sources, timers and inbox under one roof, and the order in which a turn
//! looks at them. It knows nothing of what it carries: `S` is a source's payload, `T` a timer's, `M` a message's.
//!
//! A turn, whoever drives it:
//!
//! 1. [`Core::poll`] waits if it may, then takes what epoll has. It is made of three steps that a driver can also take
//!    one by one, because only the middle one blocks and needs nothing of the core: [`Core::fall_asleep`],
//!    [`Poller::wait`], [`Core::wake_up`].
//! 2. The owner runs what is ready: sources with [`Core::next_event`], timers with [`Core::pop_due`], messages with
//!    [`Core::mark`] and [`Core::pop_message`].
//!
//! Or somebody else waits: [`Core::park`] arms everything and says whether the core sleeps, and when
//! [`Poller::fd`] becomes readable the owner polls with [`Wait::No`].
//!
//! One thread at a time; it may be moved between threads if its payloads may.

use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::inbox::{self, Drain, Inbox, Mark};
use crate::os::{Events, Glance, Interest, Nanos, Poller, now};
use crate::patience::Patience;
use crate::sources::{Fd, Sources, key_of};
use crate::timers::Timers;
use crate::token::{LoopId, SourceToken, TimerToken, Token};

/// Whether a turn may wait for something to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Sleep until something is ready.
    Yes,
    /// Only take what is ready.
    No,
    /// There is work already: take what is ready, but only if epoll has been quiet and was asked a moment ago.
    Busy,
}

/// How a core trades latency against CPU time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tuning {
    /// How long to watch the inbox before sleeping. It is only watched while messages have lately come at shorter
    /// intervals than this, so an idle loop does not spin; zero never spins.
    pub spin: Duration,
    /// How long to ask epoll again and again before sleeping, for whoever heeds [`Core::watch`]. As with `spin`, only in dense
    /// traffic; zero, the default, never.
    pub watch: Duration,
    /// While there is work, how long epoll may go unasked. Bounds how much longer I/O waits behind a storm of
    /// callbacks, and saves a system call per turn of a chain of them.
    pub poll_interval: Duration,
    /// How many times in a row it must have had nothing before it goes unasked. Until then, and again from the next event, wait
    /// or registration on, it is asked every turn: what a few turns lead to happens in the order in which it becomes ready.
    /// Zero, the default, is for whoever does not count on that order.
    pub quiet_polls: u32,
}

impl Default for Tuning {
    fn default() -> Self {
        Self {
            spin: Duration::from_micros(20),
            watch: Duration::ZERO,
            poll_interval: Duration::from_micros(50),
            quiet_polls: 0,
        }
    }
}

const YIELDS: u64 = 8;

/// What a core has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Times that the core slept and was woken.
    pub wakeups: u64,
    /// Times that epoll was asked.
    pub polls: u64,
    /// Events for registrations that were gone, dropped.
    pub stale_events: u64,
    /// Times that the epoll instance had to be replaced because of an fd closed while registered.
    pub rebuilds: u64,
}

/// A loop without a thread.
#[derive(Debug)]
pub struct Core<S, T, M> {
    id: LoopId,
    poller: Arc<Poller>,
    inbox: Inbox<M>,
    drain: Drain<M>,
    sources: Sources<S>,
    timers: Timers<T>,
    events: Events,
    /// The events of this turn, last first; those left after a panic are reported again by epoll.
    pending: Vec<crate::os::Event>,
    tuning: Tuning,
    /// The time at which this turn began to run callbacks: what was not due then is not due in this turn.
    now: Nanos,
    /// What the clock of the timers shows, if that is not the monotonic one.
    shown: Option<Nanos>,
    last_poll: Nanos,
    /// Times in a row that epoll was asked, without a wait, and had nothing.
    quiet: u32,
    glance: Glance,
    spins: Patience,
    watches: Patience,
    /// How long epoll is watched before the sleep that the core is in.
    watching: Nanos,
    /// Messages taken when the inbox was last watched.
    taken_before: u64,
    armed: Option<Nanos>,
    asleep: bool,
    counts: Counts,
}

impl<S, T, M: Send> Core<S, T, M> {
    /// Opens the poller. The inbox is closed until [`Inbox::open`].
    pub fn new(tuning: Tuning) -> Result<Self> {
        let poller = Arc::new(Poller::new()?);
        let (inbox, drain) = inbox::new();
        Ok(Self::with_parts(LoopId::fresh(), poller, inbox, drain, tuning))
    }

    pub(crate) fn with_parts(
        id: LoopId,
        poller: Arc<Poller>,
        inbox: Inbox<M>,
        drain: Drain<M>,
        tuning: Tuning,
    ) -> Self {
        Self {
            id,
            sources: Sources::new(poller.clone()),
            poller,
            inbox,
            drain,
            timers: Timers::default(),
            events: Events::default(),
            pending: Vec::new(),
            tuning,
            now: now(),
            shown: None,
            last_poll: 0,
            quiet: 0,
            glance: Glance::default(),
            spins: Patience::new(),
            watches: Patience::new(),
            watching: 0,
            taken_before: 0,
            armed: None,
            asleep: false,
            counts: Counts::default(),
        }
    }

    /// This loop's identity.
    pub fn id(&self) -> LoopId {
        self.id
    }

    /// The poller: to wake the core from any thread, or to wait in its place.
    pub fn poller(&self) -> &Arc<Poller> {
        &self.poller
    }

    /// The producers' side of the inbox. A push that answers `Needed` is followed by [`Poller::wake`].
    pub fn inbox(&self) -> &Inbox<M> {
        &self.inbox
    }

    /// What was counted so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// The time at which this turn began.
    #[inline]
    pub fn now(&self) -> Nanos {
        self.now
    }

    // ---- sources

    /// Listens to `fd`.
    pub fn register(&mut self, fd: Fd, interest: Interest, payload: S) -> Result<SourceToken> {
        let key = self.sources.insert(fd, interest, payload)?;
        self.quiet = 0;
        Ok(Token::new(self.id, key))
    }

    /// Changes what is listened for.
    pub fn set_interest(&mut self, token: SourceToken, interest: Interest) -> Result<()> {
        self.quiet = 0;
        self.sources.set_interest(token.key_on(self.id)?, interest)
    }

    /// [`set_interest`](Self::set_interest) for a registration that was left alone for a while, so that its fd may have been
    /// closed since: the kernel is asked even if nothing changes, and [`Error::BadFd`] says that it has forgotten the fd.
    pub fn renew_interest(&mut self, token: SourceToken, interest: Interest) -> Result<()> {
        self.quiet = 0;
        self.sources.renew_interest(token.key_on(self.id)?, interest)
    }

    /// Stops listening. The fd comes back when the poller has forgotten it, so closing it then is safe.
    pub fn deregister(&mut self, token: SourceToken) -> Result<(Fd, S)> {
        self.sources.remove(token.key_on(self.id)?)
    }

    /// The payload behind a token.
    pub fn source(&mut self, token: SourceToken) -> Result<&mut S> {
        let key = token.key_on(self.id)?;
        self.sources.payload(key).ok_or(Error::StaleToken)
    }

    /// How many fds are listened to.
    pub fn sources(&self) -> usize {
        self.sources.len()
    }

    /// What the registrations carry, in no order.
    pub fn source_payloads(&self) -> impl Iterator<Item = &S> {
        self.sources.payloads()
    }

    // ---- timers

    /// Adds a timer due at `deadline`.
    #[inline]
    pub fn add_timer(&mut self, deadline: Nanos, payload: T) -> TimerToken {
        Token::new(self.id, self.timers.insert(deadline, payload))
    }

    /// Takes a timer out. `Ok(None)` if it is too late for that.
    #[inline]
    pub fn cancel_timer(&mut self, token: TimerToken) -> Result<Option<T>> {
        Ok(self.timers.cancel(token.key_on(self.id)?))
    }

    /// How many timers are still to fire.
    pub fn timers(&self) -> usize {
        self.timers.len()
    }

    /// What the timers carry, in no order: for a collector that wants to know what is referred to.
    pub fn timer_payloads(&self) -> impl Iterator<Item = &T> {
        self.timers.payloads()
    }

    /// Deadlines are on another clock than the monotonic one, and this is what it shows: to be said again before every
    /// wait and before every [`Core::pop_due`]. It may jump, and is taken to run at the common pace during a wait. `None`
    /// goes back to the monotonic clock.
    pub fn set_clock(&mut self, shown: Option<Nanos>) {
        self.shown = shown;
    }

    /// The next timer that was due when this turn began.
    #[inline]
    pub fn pop_due(&mut self) -> Option<T> {
        self.timers.pop_due(self.shown.unwrap_or(self.now))
    }

    // ---- messages

    /// How far this turn goes through the inbox.
    #[inline]
    pub fn mark(&self) -> Mark {
        self.drain.mark()
    }

    /// The oldest message before `mark`.
    #[inline]
    pub fn pop_message(&mut self, mark: Mark) -> Option<M> {
        self.drain.pop(mark)
    }

    /// Whether the inbox is closed and everything it took has been taken out.
    pub fn is_finished(&self) -> bool {
        self.drain.is_finished()
    }

    // ---- turns

    /// Waits if `wait` allows it and there is nothing to do, and takes what epoll has.
    pub fn poll(&mut self, wait: Wait) -> Result<()> {
        let block = wait == Wait::Yes && self.fall_asleep()?;
        if !block && !self.asleep && wait != Wait::No && self.quiet >= self.tuning.quiet_polls {
            if self.glance.is_fresh() && !self.needs_the_time() {
                return Ok(());
            }
            let time = now();
            if time.saturating_sub(self.last_poll) < self.tuning.poll_interval.as_nanos() as Nanos {
                self.now = time;
                return Ok(());
            }
        }
        let mut events = std::mem::take(&mut self.events);
        let waited = self.poller.wait(&mut events, block);
        self.wake_up(events)?;
        waited
    }

    /// Whether it matters that `now` is behind by a moment: to a timer that is due meanwhile.
    #[inline]
    fn needs_the_time(&self) -> bool {
        self.shown.is_some() || self.timers.may_be_due(self.now.saturating_add(Glance::MOST))
    }

    /// Arms everything for somebody else to wait on [`Poller::fd`]. Whether the core sleeps now; if not there is work,
    /// and the owner polls again instead.
    pub fn park(&mut self) -> Result<bool> {
        self.fall_asleep()
    }

    /// Gets ready to wait: the deadline is armed and producers know that they have to wake. Whether the core sleeps now;
    /// if not there is something to do.
    pub fn fall_asleep(&mut self) -> Result<bool> {
        let started = now();
        let mut deadline = self.timers.next_deadline();
        if let Some(shown) = self.shown {
            deadline = deadline.map(|deadline| started.saturating_add(deadline.saturating_sub(shown)));
        }
        if deadline.is_some_and(|d| d <= started) || self.spin_finds_work(started, deadline) {
            return Ok(false);
        }
        if self.armed != deadline {
            self.poller.arm(deadline)?;
            self.armed = deadline;
        }
        if !self.drain.try_sleep() {
            return Ok(false);
        }
        self.asleep = true;
        let limit = self.tuning.watch.as_nanos() as Nanos;
        self.watching = if self.watches.pays(limit) { limit } else { 0 };
        // For the length of the gap.
        self.now = started;
        Ok(true)
    }

    /// How long to [`Poller::watch`] in place of this wait; zero for a sleep. If that was in vain, the next wait is a sleep.
    pub fn watch(&self) -> Duration {
        Duration::from_nanos(self.watching)
    }

    /// The room for the events of one wait, for whoever waits in the core's place; [`Core::wake_up`] takes it back.
    pub fn take_events(&mut self) -> Events {
        std::mem::take(&mut self.events)
    }

    /// Takes the room back though the core sleeps on.
    pub fn keep_room(&mut self, events: Events) {
        self.events = events;
    }

    /// Takes the events of a wait and begins the turn.
    pub fn wake_up(&mut self, events: Events) -> Result<()> {
        let time = now();
        let slept = std::mem::take(&mut self.asleep);
        if slept {
            self.drain.awake();
            self.counts.wakeups += 1;
            let gap = time.saturating_sub(self.now);
            self.spins.waited(gap);
            self.watches.waited(gap);
            match std::mem::take(&mut self.watching) {
                0 => {}
                limit if gap <= limit => self.watches.found(),
                _ => self.watches.in_vain(),
            }
        }
        self.counts.polls += 1;
        self.last_poll = time;
        self.events = events;
        if self.events.timer_fired() {
            self.armed = None;
        }
        self.pending.clear();
        self.pending.extend(self.events.iter());
        self.quiet = if slept || !self.pending.is_empty() { 0 } else { self.quiet.saturating_add(1) };
        self.now = time;
        if self.pending.iter().any(|event| self.sources.is_ghost(*event)) {
            self.counts.rebuilds += 1;
            self.sources.rebuild()?;
        }
        // Taken from the back.
        self.pending.reverse();
        Ok(())
    }

    /// The next ready source, with what it is ready for. An event whose registration went away during this turn, even
    /// if its fd or slot has a new owner by now, is dropped and counted.
    #[inline]
    pub fn next_event(&mut self) -> Option<(SourceToken, Interest, &mut S)> {
        loop {
            let event = self.pending.pop()?;
            let key = key_of(event);
            if self.sources.contains(key) {
                let token = Token::new(self.id, key);
                return self.sources.payload(key).map(|payload| (token, event.ready, payload));
            }
            self.counts.stale_events += 1;
        }
    }

    /// Ends everything: all timers, earliest first, and all sources with their fds.
    pub fn clear(&mut self) -> (Vec<T>, Vec<(Fd, S)>) {
        (self.timers.take_all(), self.sources.take_all())
    }

    /// Watches the inbox for a moment if messages come in quick succession.
    fn spin_finds_work(&mut self, started: Nanos, deadline: Option<Nanos>) -> bool {
        let limit = self.tuning.spin.as_nanos() as Nanos;
        if !self.spins.pays(limit) {
            return self.drain.is_ready();
        }
        let end = started.saturating_add(limit).min(deadline.unwrap_or(Nanos::MAX));
        // In a stream, who looks less often finds more at once and leaves the producers in peace; they may even want
        // this core.
        let batch = self.drain.taken() - std::mem::replace(&mut self.taken_before, self.drain.taken());
        loop {
            if batch < 8 {
                std::hint::spin_loop();
            } else {
                (0..(batch / 8).min(YIELDS)).for_each(|_| std::thread::yield_now());
            }
            if self.drain.is_ready() {
                self.spins.found();
                return true;
            }
            if now() >= end {
                self.spins.in_vain();
                return false;
            }
        }
    }
}
