//! `EventLoop`: an asyncio loop that belongs to Erlang. Owned by a process; it ends with that process.
//!
//! It has a thread of its own, which waits in epoll, detached; or none, and then the BEAM waits for it (`parking`), and it is run by
//! whoever of the `crew` is free. Requests come in by the loop's own inbox, from any thread and without waiting, and are begun in
//! their order, as many as there are under one attach; `job` has what becomes of them.
//!
//! End: 1. `stop`, the owner's death, or the last reference being forgotten: from then on requests are refused. 2. The loop is
//! stopped in its turn; what takes its time is interrupted. 3. `erlang._loops` cancels the tasks, gives them time to clean up, and
//! closes the loop. 4. What is left is answered by being dropped, and the owner is told.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use pyloop::{Loop, Posted, Poster};
use pyrt::{Args, Attached, Borrowed, Instance, Interpreter, Owned, PyResult, Raised, Remote};
use rustler::{Encoder, Env, LocalPid, Monitor, Resource};

use crate::beam::Mail;
use crate::bridge::Bridge;
use crate::callback::Suspension;
use crate::inbox::lock;
use crate::job;
use crate::jobs;
use crate::parking::Parking;
use crate::python;
use crate::realm::Realm;
use crate::request::Request;
use crate::runner::Runner;
use crate::terms::Saved;
use crate::{atoms, errors, tray, watch};

/// Nested conversions and deep Python code need room.
pub(crate) const STACK: usize = 16 << 20;
/// How long a step may go on after its loop was stopped.
const GRACE: Duration = Duration::from_secs(1);

/// What threads share of a loop. Its users are counted by the loop's thread for every task, and schedulers only read it: so the count
/// lies on another line of the cache.
#[repr(align(128))]
pub(crate) struct Floor {
    /// Its owner, and how that knows it.
    owner: LocalPid,
    tag: Saved,
    stop: AtomicBool,
    /// The interpreter it runs in, once that is there.
    realm: OnceLock<Arc<Realm>>,
    opened: OnceLock<Opened>,
    /// The record of the thread that runs it.
    runner: Mutex<Option<Arc<Runner>>>,
    /// If it has no thread of its own.
    pub(crate) parking: Option<Parking>,
    /// The calls to Erlang that the thread waits in, the innermost last.
    waits: Mutex<Vec<Arc<Suspension>>>,
}

thread_local! {
    static FLOOR: RefCell<Option<Arc<Floor>>> = const { RefCell::new(None) };
}

/// Those that are open.
static FLOORS: Mutex<Vec<Arc<Floor>>> = Mutex::new(Vec::new());

/// What there is once the loop is.
struct Opened {
    poster: Poster,
    event_loop: Core,
}

/// The loop itself, until it is closed: its interpreter may end before Erlang forgets it. Locked by the loop's thread for every task,
/// and so not on the line that those who post look at.
#[repr(align(128))]
struct Core(Mutex<Option<Remote>>);

impl Floor {
    /// The interpreter it runs in.
    pub(crate) fn realm(&self) -> Option<&Arc<Realm>> {
        self.realm.get()
    }

    /// Runs `f` attached to it.
    pub(crate) fn attach<R: Send>(&self, f: impl FnOnce(Attached<'_>, &Bridge) -> R) -> Option<R> {
        self.realm()?.attach(f)
    }

    /// The one this thread runs, if it does.
    pub(crate) fn current() -> Option<Arc<Self>> {
        FLOOR.try_with(|floor| floor.try_borrow().ok()?.clone()).ok().flatten()
    }

    /// Runs `f` on a thread that runs the loop meanwhile.
    pub(crate) fn occupied<R>(self: &Arc<Self>, bridge: &Bridge, f: impl FnOnce() -> R) -> R {
        *lock(&self.runner) = Some(Runner::current(bridge));
        FLOOR.set(Some(self.clone()));
        let result = f();
        FLOOR.set(None);
        *lock(&self.runner) = None;
        result
    }

    /// One of those that are open in an interpreter, in turn.
    pub(crate) fn any(home: &Interpreter) -> Option<Arc<Self>> {
        static TURN: AtomicUsize = AtomicUsize::new(0);
        Self::of_turn(home, TURN.fetch_add(1, Ordering::Relaxed))
    }

    /// The one whose turn it is: for one turn always the same, while no loop is opened or ends.
    pub(crate) fn of_turn(home: &Interpreter, turn: usize) -> Option<Arc<Self>> {
        let floors = lock(&FLOORS);
        let here = |floor: &&Arc<Self>| {
            !floor.is_stopped() && floor.realm().is_some_and(|realm| realm.interpreter() == home)
        };
        let open: Vec<&Arc<Self>> = floors.iter().filter(here).collect();
        turn.checked_rem(open.len()).and_then(|turn| open.get(turn)).map(|floor| Arc::clone(floor))
    }

    /// The one a process owns, or any of the main interpreter's.
    pub(crate) fn of(owner: LocalPid) -> Option<Arc<Self>> {
        let owned = lock(&FLOORS).iter().find(|floor| floor.owner == owner && !floor.is_stopped()).cloned();
        owned.or_else(|| Self::any(python::main()?.interpreter()))
    }

    /// The thread waits for Erlang.
    pub(crate) fn suspend(&self, wait: &Arc<Suspension>) {
        lock(&self.waits).push(wait.clone());
    }

    /// It goes on.
    pub(crate) fn resume(&self) {
        lock(&self.waits).pop();
    }

    /// Queues a request of a process that Python waits for, perhaps this very loop: then it is served by the waiting thread.
    pub(crate) fn post_nested(self: &Arc<Self>, request: Request) -> Result<(), Request> {
        let wait = lock(&self.waits).last().cloned();
        let request = match wait {
            Some(wait) => match wait.post(request) {
                Ok(()) => return Ok(()),
                Err(request) => request,
            },
            None => request,
        };
        self.post(request)
    }

    /// Queues a request, or gives it back if the loop was stopped.
    pub(crate) fn post(self: &Arc<Self>, request: Request) -> Result<(), Request> {
        let Some(opened) = self.opened.get().filter(|_| !self.is_stopped()) else { return Err(request) };
        // One that is closed this very moment drops the work, and the request answers by being dropped.
        let work: Posted = match request.target.floor() {
            // What it knows itself is not carried along: so small a box goes from thread to thread without a lock of the allocator.
            Some(floor) if Arc::ptr_eq(floor, self) => Box::new(move |py, followed| {
                if let Some(floor) = request.target.floor().cloned() {
                    job::begin(py, &floor, request, followed);
                }
            }),
            _ => {
                let floor = self.clone();
                Box::new(move |py, followed| job::begin(py, &floor, request, followed))
            }
        };
        self.hand(opened, work);
        Ok(())
    }

    /// Has the loop's thread run something. Dropped if the loop is closed.
    pub(crate) fn run(self: &Arc<Self>, work: impl FnOnce(Attached<'_>) + Send + 'static) {
        if let Some(opened) = self.opened.get() {
            self.hand(opened, tray::errand(work));
        }
    }

    fn hand(self: &Arc<Self>, opened: &Opened, work: Posted) {
        match &self.parking {
            None => drop(opened.poster.post(work)),
            // No need to go by way of the BEAM.
            Some(parking) => {
                if opened.poster.push(work).is_ok_and(|sleeps| sleeps) {
                    parking.ready(self);
                }
            }
        }
    }

    /// The way into the loop, once it is there.
    pub(crate) fn poster(&self) -> Option<&Poster> {
        self.opened.get().map(|opened| &opened.poster)
    }

    pub(crate) fn owner(&self) -> LocalPid {
        self.owner
    }

    /// The loop itself.
    pub(crate) fn event_loop(&self, py: Attached<'_>) -> Option<Owned> {
        lock(&self.opened.get()?.event_loop.0).as_ref()?.get(py).map(|event_loop| event_loop.clone_ref(py))
    }

    /// Runs a coroutine as a task, on the loop's thread.
    pub(crate) fn start_task(&self, py: Attached<'_>, coroutine: Borrowed<'_>) -> PyResult<Owned> {
        let event_loop = self.event_loop(py).ok_or_else(|| pyrt::Fault::runtime("no loop").raise(py))?;
        let event_loop: Instance<'_, Loop> = Loop::expect(py, event_loop.borrow())?;
        Loop::start_task(py, event_loop, coroutine)
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    /// Ends the loop. It may be ended twice.
    pub(crate) fn stop(self: &Arc<Self>) {
        if self.stop.swap(true, Ordering::AcqRel) {
            return;
        }
        let floor = self.clone();
        self.run(move |py| floor.halt(py));
        let runner = lock(&self.runner).clone();
        for id in runner.map(|runner| runner.ids()).unwrap_or_default() {
            watch::interrupt_after(id, GRACE);
        }
    }

    fn halt(&self, py: Attached<'_>) {
        let stopped = match self.event_loop(py) {
            Some(event_loop) => event_loop.getattr_str(py, c"stop").and_then(|stop| stop.call0(py).map(drop)),
            None => Ok(()),
        };
        if let Err(raised) = stopped {
            raised.write_unraisable(py, None);
        }
    }

    /// Tells the owner.
    pub(crate) fn tell(&self, event: impl Encoder) {
        let Some(mail) = Mail::new() else { return };
        let tag = self.tag.term(mail.env());
        let word = (atoms::py_loop(), tag, event).encode(mail.env()).as_c_arg();
        mail.send(self.owner, word);
    }

    /// The life of a thread of its own.
    fn live(self: &Arc<Self>, apart: bool) {
        let made = if apart { Realm::create().map(Some) } else { Ok(None) };
        match made {
            Ok(Some(realm)) => drop(self.realm.set(realm)),
            Ok(None) => self.settle(),
            Err(text) => return self.finish(Some(text)),
        }
        let ended = self.attach(|py, bridge| {
            self.occupied(bridge, || {
                let served = self
                    .open(py, bridge)
                    .and_then(|event_loop| bridge.serve_loop.get(py)?.call1(py, &event_loop).map(drop));
                served.err().map(|raised| errors::Thrown::new(py, bridge, raised).into_traceback())
            })
        });
        self.finish(ended.flatten());
        if let Some(realm) = self.realm().filter(|_| apart) {
            realm.end();
        }
    }

    /// It runs in the main interpreter.
    fn settle(&self) {
        if let Some(main) = python::main() {
            self.realm.get_or_init(|| main.clone());
        }
    }

    /// Makes the loop, and tells its owner.
    pub(crate) fn open(self: &Arc<Self>, py: Attached<'_>, bridge: &Bridge) -> Result<Owned, Raised> {
        let event_loop = bridge.new_loop.get(py)?.call0(py)?;
        let poster = Poster::of(py, event_loop.borrow())?;
        let remote = Remote::new(py, event_loop.clone_ref(py), &bridge.home)
            .map_err(|_| pyrt::Fault::system("another interpreter").raise(py))?;
        let first = self.opened.set(Opened { poster, event_loop: Core(Mutex::new(Some(remote))) });
        debug_assert!(first.is_ok(), "it is opened once");
        lock(&FLOORS).push(self.clone());
        self.tell(atoms::ready());
        if self.is_stopped() {
            self.halt(py);
        }
        Ok(event_loop)
    }

    /// The loop is closed, for a reason if it was not to be.
    pub(crate) fn finish(self: &Arc<Self>, reason: Option<String>) {
        self.stop.store(true, Ordering::Release);
        lock(&FLOORS).retain(|floor| !Arc::ptr_eq(floor, self));
        let left = jobs::forget_all(self);
        let event_loop = self.opened.get().and_then(|opened| lock(&opened.event_loop.0).take());
        // Attached, so that what they hold is dropped, and so answered, here and now.
        self.attach(move |_, _| drop((left, event_loop)));
        match reason {
            None => self.tell(atoms::ended()),
            Some(text) => self.tell((atoms::ended(), text)),
        }
    }
}

/// `event_loop()`: one of the loops that Erlang owns; `None` if there is none.
pub(crate) fn any(py: Attached<'_>, bridge: &Bridge, _args: Args<'_>) -> PyResult<Option<Owned>> {
    Ok(Floor::any(&bridge.home).and_then(|floor| floor.event_loop(py)))
}

/// Who runs a loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Driver {
    /// A thread of its own.
    Thread,
    /// Likewise, with an interpreter of its own.
    Apart,
    /// The BEAM waits for it.
    Beam,
}

/// The resource; the term of it is the `LoopRef` that users see.
pub(crate) struct EventLoop {
    pub(crate) floor: Arc<Floor>,
}

impl EventLoop {
    /// Starts it. The owner is sent `{py_loop, Tag, ready}` when the loop is there, and `{py_loop, Tag, ended}` or
    /// `{py_loop, Tag, {ended, Text}}` when it is gone. If it has no thread, see `parking` for what else.
    pub(crate) fn start(owner: LocalPid, tag: Saved, driver: Driver) -> std::io::Result<Self> {
        let floor = Arc::new(Floor {
            owner,
            tag,
            stop: AtomicBool::new(false),
            realm: OnceLock::new(),
            opened: OnceLock::new(),
            runner: Mutex::new(None),
            parking: (driver == Driver::Beam).then(Parking::new),
            waits: Mutex::new(Vec::new()),
        });
        match &floor.parking {
            Some(parking) => {
                floor.settle();
                parking.ready(&floor);
            }
            None => {
                let own = floor.clone();
                let apart = driver == Driver::Apart;
                std::thread::Builder::new()
                    .name(String::from("py_loop"))
                    .stack_size(STACK)
                    .spawn(move || own.live(apart))?;
            }
        }
        Ok(Self { floor })
    }

    fn let_go(&self, env: Env<'_>) {
        if let Some(parking) = &self.floor.parking {
            parking.let_go(env);
        }
        self.floor.stop();
    }
}

#[rustler::resource_impl]
impl Resource for EventLoop {
    const IMPLEMENTS_DESTRUCTOR: bool = true;
    const IMPLEMENTS_DOWN: bool = true;

    fn destructor(self, env: Env<'_>) {
        self.let_go(env);
    }

    fn down<'a>(&'a self, env: Env<'a>, _pid: LocalPid, _monitor: Monitor) {
        self.let_go(env);
    }
}
