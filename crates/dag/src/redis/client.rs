//! `Client`: who waits for which reply, and who may send next. One lock around all of it, held for no longer than it takes
//! to move a few words; in use on the loop's thread it is never contended.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use evloop::{Delay, EventLoop, Sleep};
use slotmap::{SlotMap, new_key_type};

use super::Error;
use super::command::Command;
use super::config::Config;
use super::link;
use super::listener::{Listener, Receive, Told};
use super::value::Value;
use crate::lock;
use crate::queue::{Key, Queue};

/// Fewer replies than this are not worth a system call of their own.
const PORTION: usize = 32;

new_key_type! {
    pub(crate) struct RequestKey;
}

enum Stage {
    Waiting(Key, Command),
    Sent(usize),
    Done(Result<Value, Error>),
}

struct Request {
    stage: Stage,
    listener: Listener,
}

/// One connection as seen by those who send.
#[derive(Default)]
pub(super) struct Link {
    pub(super) connected: bool,
    pub(super) out: Vec<u8>,
    /// Whose reply comes next. The key of one who gave up finds nothing.
    expected: VecDeque<RequestKey>,
    abandoned: usize,
    pub(super) waker: Option<Waker>,
}

/// What a client has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// Commands that hold a permit.
    pub in_flight: usize,
    /// The most there ever were.
    pub most_in_flight: usize,
    /// Commands that wait for a permit or a connection.
    pub waiting: usize,
    /// Replies outstanding that nobody waits for any more.
    pub abandoned: usize,
    /// Replies dropped because nobody waited any more.
    pub late: u64,
    /// Connections made.
    pub connects: u64,
    /// Messages that were no replies.
    pub pushes: u64,
}

#[derive(Default)]
pub(super) struct State {
    requests: SlotMap<RequestKey, Request>,
    waiting: Queue<RequestKey>,
    pub(super) links: Vec<Link>,
    pub(super) closed: bool,
    counters: Counters,
}

pub(super) struct Shared {
    pub(super) state: Mutex<State>,
    pub(super) config: Config,
}

impl State {
    /// Sends what may be sent.
    fn admit(&mut self, config: &Config) {
        while self.waiting.len() > 0 && self.counters.in_flight < config.in_flight.max(1) {
            let usable = |link: &Link| link.connected && link.abandoned <= config.abandoned;
            let connected = self.links.iter_mut().enumerate().filter(|(_, link)| usable(link));
            let Some((index, link)) = connected.min_by_key(|(_, link)| link.expected.len()) else { return };
            let Some(key) = self.waiting.pop() else { return };
            let Some(request) = self.requests.get_mut(key) else { continue };
            if let Stage::Waiting(_, command) = &request.stage {
                command.write(&mut link.out);
                link.expected.push_back(key);
                request.stage = Stage::Sent(index);
                self.counters.in_flight += 1;
                self.counters.most_in_flight = self.counters.most_in_flight.max(self.counters.in_flight);
                // The waker of a future of ours, which wakes without calling anybody.
                if let Some(waker) = link.waker.take() {
                    waker.wake();
                }
            }
        }
    }

    /// How many of so many replies to hand out at once. If the server has nothing left to do, it gets work after one half, so
    /// that both sides work at the same time and not in turn.
    fn portion(&self, index: usize, replies: usize) -> usize {
        let idle = self.links.get(index).is_some_and(|link| link.expected.len() <= replies);
        if idle && replies >= 2 * PORTION { replies.div_ceil(2) } else { replies }
    }

    fn finish(&mut self, key: RequestKey, result: Result<Value, Error>, told: &mut Told) -> bool {
        let Some(request) = self.requests.get_mut(key) else { return false };
        match std::mem::take(&mut request.listener) {
            Listener::Receiver(receiver) => {
                self.requests.remove(key);
                told.hand(receiver, result);
            }
            Listener::Task(waker) => {
                request.stage = Stage::Done(result);
                told.wake(Some(waker));
            }
            Listener::Nobody => request.stage = Stage::Done(result),
        }
        true
    }

    /// A request whose command is to be sent in its turn.
    fn queue(&mut self, command: Command, listener: Listener) -> RequestKey {
        let waiting = &mut self.waiting;
        self.requests
            .insert_with_key(|key| Request { stage: Stage::Waiting(waiting.push(key), command), listener })
    }

    fn send(&mut self, command: Command, receiver: Box<dyn Receive>, told: &mut Told) -> RequestKey {
        if self.closed {
            told.hand(receiver, Err(Error::Closed));
            return RequestKey::default();
        }
        self.queue(command, Listener::Receiver(receiver))
    }

    /// Nobody waits for this reply any more.
    fn give_up(&mut self, key: RequestKey, told: &mut Told) {
        let Some(request) = self.requests.remove(key) else { return };
        told.give_up(request.listener);
        match request.stage {
            Stage::Waiting(place, _) => drop(self.waiting.remove(place)),
            Stage::Sent(index) => {
                self.counters.in_flight -= 1;
                if let Some(link) = self.links.get_mut(index) {
                    link.abandoned += 1;
                    // It looks whether that is too many.
                    told.wake(link.waker.take());
                }
            }
            Stage::Done(_) => {}
        }
    }

    /// Fails all that have not been sent.
    fn fail_waiting(&mut self, error: &Error, told: &mut Told) {
        while let Some(key) = self.waiting.pop() {
            self.finish(key, Err(error.clone()), told);
        }
    }

    /// Fails all that were sent on this connection, which is no more.
    fn fail_sent(&mut self, index: usize, error: &Error, told: &mut Told) {
        let Some(link) = self.links.get_mut(index) else { return };
        let expected = std::mem::take(link).expected;
        for key in expected {
            if self.finish(key, Err(error.clone()), told) {
                self.counters.in_flight -= 1;
            }
        }
    }
}

impl Shared {
    /// Changes the state, sends what may be sent then, and wakes whom that concerns.
    pub(super) fn with<T>(&self, change: impl FnOnce(&mut State, &mut Told) -> T) -> T {
        let mut told = Told::default();
        let mut state = lock(&self.state);
        let changed = change(&mut state, &mut told);
        state.admit(&self.config);
        drop(state);
        told.tell();
        changed
    }

    pub(super) fn connected(&self, index: usize) {
        self.with(|state, _| {
            state.counters.connects += 1;
            if let Some(link) = state.links.get_mut(index) {
                link.connected = true;
            }
        });
    }

    pub(super) fn lost(&self, index: usize, error: &Error) {
        self.with(|state, told| state.fail_sent(index, error, told));
    }

    /// An attempt to connect has failed.
    pub(super) fn unavailable(&self, error: &Error) {
        self.with(|state, told| {
            if !state.links.iter().any(|link| link.connected) {
                state.fail_waiting(error, told);
            }
        });
    }

    pub(super) fn close(&self, index: Option<usize>) {
        self.with(|state, told| {
            state.closed = true;
            state.fail_waiting(&Error::Closed, told);
            for link in &mut state.links {
                told.wake(link.waker.take());
            }
            if let Some(index) = index {
                state.fail_sent(index, &Error::Closed, told);
            }
        });
    }

    /// Replies have come, in the order in which commands were sent. Those that stay behind are for the next call, once what
    /// these lead to is on its way.
    pub(super) fn replies(&self, index: usize, replies: &mut Vec<Value>) -> Result<(), Error> {
        self.with(|state, told| {
            let portion = state.portion(index, replies.len());
            for reply in replies.drain(..portion) {
                if let Value::Push(_) = reply {
                    state.counters.pushes += 1;
                    continue;
                }
                let Some(link) = state.links.get_mut(index) else { return Ok(()) };
                let Some(key) = link.expected.pop_front() else {
                    return Err(Error::Protocol("a reply that nobody asked for"));
                };
                let result = match reply {
                    Value::Error(error) => Err(Error::Server(error)),
                    value => Ok(value),
                };
                if !state.finish(key, result, told) {
                    state.counters.late += 1;
                    if let Some(link) = state.links.get_mut(index) {
                        link.abandoned -= 1;
                    }
                } else {
                    state.counters.in_flight -= 1;
                }
            }
            Ok(())
        })
    }

    /// Whether so many have given up on this connection that it is taken for dead.
    pub(super) fn is_given_up(&self, state: &State, index: usize) -> bool {
        state.links.get(index).is_some_and(|link| link.abandoned > self.config.abandoned)
    }
}

/// A client of a Redis server, on one loop. Clones are the same client; when the last one is gone it is closed.
#[derive(Clone)]
pub struct Client(Arc<Handle>);

struct Handle(Arc<Shared>);

impl Drop for Handle {
    fn drop(&mut self) {
        self.0.close(None);
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Client").field(&self.counters()).finish()
    }
}

impl Client {
    /// A client on this loop, which begins to connect. From any thread.
    pub fn new(events: &EventLoop, config: Config) -> Result<Client, evloop::Error> {
        let links = config.connections.max(1);
        let state = State { links: (0..links).map(|_| Link::default()).collect(), ..State::default() };
        let shared = Arc::new(Shared { state: Mutex::new(state), config });
        let client = Client(Arc::new(Handle(shared.clone())));
        for index in 0..links {
            let shared = shared.clone();
            events.spawn_with(move || link::drive(shared, index)).map_err(evloop::Error::from)?;
        }
        Ok(client)
    }

    /// Sends a command as soon as there is a permit and a connection. It keeps its place in the order of calls, and has
    /// the time of the configuration; dropped, it gives its permit back.
    pub fn call(&self, command: Command) -> Call {
        self.submit(command, self.0.0.config.timeout)
    }

    /// Likewise, with a time of its own. To be awaited on a loop.
    pub fn call_within(&self, command: Command, time: Duration) -> Call {
        self.submit(command, Some(time))
    }

    fn submit(&self, command: Command, time: Option<Duration>) -> Call {
        let shared = self.0.0.clone();
        let key = shared.with(|state, _| {
            if state.closed {
                let stage = Stage::Done(Err(Error::Closed));
                return state.requests.insert(Request { stage, listener: Listener::Nobody });
            }
            state.queue(command, Listener::Nobody)
        });
        let time = time.map(|time| Time { given: time, deadline: Delay::from(time).deadline(), sleep: None });
        Call { shared, key, time }
    }

    pub(super) fn has_timeout(&self) -> bool {
        self.0.0.config.timeout.is_some()
    }

    /// Sends a command whose reply is handed over. No time is set for it.
    pub(super) fn send(&self, command: Command, receiver: Box<dyn Receive>) -> RequestKey {
        self.0.0.with(|state, told| state.send(command, receiver, told))
    }

    /// Likewise, several at once, with something to tell their keys apart by.
    pub(super) fn send_all<N>(
        &self,
        calls: impl IntoIterator<Item = (N, Command, Box<dyn Receive>)>,
    ) -> Vec<(N, RequestKey)> {
        let calls = calls.into_iter();
        self.0.0.with(|state, told| {
            calls.map(|(name, command, receiver)| (name, state.send(command, receiver, told))).collect()
        })
    }

    /// Nobody waits for these replies any more. Keys of what was answered find nothing.
    pub(super) fn give_up(&self, keys: &[RequestKey]) {
        self.0.0.with(|state, told| keys.iter().for_each(|key| state.give_up(*key, told)));
    }

    /// What the client has counted.
    pub fn counters(&self) -> Counters {
        let state = lock(&self.0.0.state);
        let abandoned = state.links.iter().map(|link| link.abandoned).sum();
        Counters { waiting: state.waiting.len(), abandoned, ..state.counters }
    }
}

/// The time of a call, counted from when it was made.
struct Time {
    given: Duration,
    deadline: u64,
    /// Made where it is awaited.
    sleep: Option<Sleep>,
}

/// A reply to come.
#[must_use = "dropped, it is not waited for"]
pub struct Call {
    shared: Arc<Shared>,
    key: RequestKey,
    time: Option<Time>,
}

impl std::fmt::Debug for Call {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Call").finish_non_exhaustive()
    }
}

impl Future for Call {
    type Output = Result<Value, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = lock(&self.shared.state);
        match state.requests.get_mut(self.key) {
            Some(Request { stage: Stage::Done(result), .. }) => {
                return Poll::Ready(std::mem::replace(result, Err(Error::Closed)));
            }
            Some(request) => request.listener = Listener::Task(cx.waker().clone()),
            None => return Poll::Ready(Err(Error::Closed)),
        }
        drop(state);
        let Some(Time { given, deadline, sleep }) = &mut self.time else { return Poll::Pending };
        let left = || evloop::sleep(Duration::from_nanos(deadline.saturating_sub(evloop::os::now())));
        match Pin::new(sleep.get_or_insert_with(left)).poll(cx) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Ok(())) => Poll::Ready(Err(Error::TimedOut(*given))),
            Poll::Ready(Err(error)) => Poll::Ready(Err(Error::Unavailable(error.to_string().into()))),
        }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        let key = self.key;
        self.shared.with(|state, told| state.give_up(key, told));
    }
}
