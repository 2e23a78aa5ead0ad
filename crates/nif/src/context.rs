//! A context: one OS thread with an inbox and a namespace. Owned by an Erlang process; it ends with that process.
//!
//! The thread is attached for good and detaches to wait. It serves its own inbox first and then, unless it is bound to a
//! process, the pool's queue: up to [`BATCH`] requests before it lets other threads of Python run.
//!
//! End: `close` (or the owner's death) refuses new requests, cancels the one that runs, and the thread leaves after it. Queued
//! requests are answered with an error by being dropped.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use pyrt::{Attached, Owned, PyResult, Remote};
use rustler::{Env, LocalPid, Monitor, Resource, ResourceArc};

use crate::binding::Binding;
use crate::bridge::Bridge;
use crate::callback::Suspension;
use crate::exec;
use crate::inbox::{Inbox, Spin, lock};
use crate::pool::{APART, POOL, Place, Pool};
use crate::python;
use crate::realm::Realm;
use crate::request::Request;
use crate::runner::Runner;

const BATCH: usize = 256;
/// Nested conversions and deep Python code need room.
const STACK: usize = 16 << 20;

/// What threads share of a context.
pub(crate) struct Seat {
    pub(crate) inbox: Inbox<Request>,
    /// Whose queue it serves.
    pub(crate) pool: &'static Pool,
    place: AtomicU8,
    bound: AtomicBool,
    /// How many calls to Erlang the thread waits in. Under the pool's lock.
    pub(crate) waiting: AtomicUsize,
    /// Whom it is lent to.
    lease: Mutex<Option<ResourceArc<Binding>>>,
    /// The calls to Erlang that the thread waits in, the innermost last.
    waits: Mutex<Vec<Arc<Suspension>>>,
    stop: Arc<AtomicBool>,
    reserve: bool,
    runner: OnceLock<Arc<Runner>>,
}

thread_local! {
    static SEAT: std::cell::OnceCell<Arc<Seat>> = const { std::cell::OnceCell::new() };
}

impl Seat {
    /// That of this thread, if it is a context's.
    pub(crate) fn current() -> Option<Arc<Self>> {
        SEAT.try_with(|seat| seat.get().cloned()).ok().flatten()
    }

    /// Read and written under the pool's lock.
    pub(crate) fn place(&self) -> Place {
        match self.place.load(Ordering::Relaxed) {
            0 => Place::Awake,
            1 => Place::Idle,
            2 => Place::Away,
            _ => Place::Gone,
        }
    }

    pub(crate) fn set_place(&self, place: Place) {
        let word = match place {
            Place::Awake => 0,
            Place::Idle => 1,
            Place::Away => 2,
            Place::Gone => 3,
        };
        self.place.store(word, Ordering::Relaxed);
    }

    pub(crate) fn is_bound(&self) -> bool {
        self.bound.load(Ordering::Acquire)
    }

    pub(crate) fn set_bound(&self, bound: bool) {
        self.bound.store(bound, Ordering::Release);
    }

    /// Says whom it is lent to.
    pub(crate) fn lend(&self, binding: Option<ResourceArc<Binding>>) {
        let before = std::mem::replace(&mut *lock(&self.lease), binding);
        drop(before);
    }

    /// Queues a request for this very context, or gives it back if that has ended. While the thread waits for Erlang it serves
    /// these too: who asks may be the one it waits for.
    pub(crate) fn post(&self, request: Request) -> Result<(), Request> {
        self.inbox.post(request)?;
        if let Some(wait) = lock(&self.waits).last() {
            wait.nudge();
        }
        Ok(())
    }

    /// The thread waits for Erlang. It looks at the inbox after this, so nothing is left there unseen.
    pub(crate) fn suspend(&self, wait: &Arc<Suspension>) {
        lock(&self.waits).push(wait.clone());
    }

    /// It goes on.
    pub(crate) fn resume(&self) {
        lock(&self.waits).pop();
    }

    /// Whether it has an interpreter of its own.
    pub(crate) fn is_apart(&self) -> bool {
        self.pool.is_apart()
    }

    /// Whether it is one of the threads that help the pool out.
    pub(crate) fn is_reserve(&self) -> bool {
        self.reserve
    }

    /// The record of its thread, once that runs.
    pub(crate) fn runner(&self) -> Option<Arc<Runner>> {
        self.runner.get().cloned()
    }

    /// The word that says so, for its thread to look at.
    pub(crate) fn stopped(&self) -> Arc<AtomicBool> {
        self.stop.clone()
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    pub(crate) fn stop(self: &Arc<Self>) {
        if self.stop.swap(true, Ordering::SeqCst) {
            return;
        }
        self.pool.part(self);
        drop(self.inbox.close());
        self.lend(None);
        self.inbox.nudge();
        if let Some(runner) = self.runner.get() {
            runner.abandon();
        }
    }

    /// The next request, and whether it is one of the pool's.
    fn next(&self) -> Option<(Request, bool)> {
        if let Some(request) = self.inbox.take() {
            return Some((request, false));
        }
        if self.is_bound() { None } else { self.pool.take().map(|request| (request, true)) }
    }

    /// Waits, detached, until there is something to do.
    fn wait(self: &Arc<Self>, spin: &mut Spin) {
        let ready =
            || self.inbox.is_called() || self.is_stopped() || (!self.is_bound() && self.pool.has_work());
        spin.wait(ready, || {
            if self.pool.retire(self) {
                self.inbox.park();
                self.pool.rise(self);
            }
        });
        self.inbox.heed();
        if self.place() == Place::Away {
            self.pool.regain(self);
        }
    }
}

/// The resource that Erlang holds.
pub(crate) struct Context {
    pub(crate) seat: Arc<Seat>,
}

impl Seat {
    fn new(pool: &'static Pool, reserve: bool) -> Arc<Self> {
        Arc::new(Self {
            inbox: Inbox::new(),
            pool,
            // Not in the pool yet.
            place: AtomicU8::new(3),
            bound: AtomicBool::new(false),
            waiting: AtomicUsize::new(0),
            lease: Mutex::new(None),
            waits: Mutex::new(Vec::new()),
            stop: Arc::new(AtomicBool::new(false)),
            reserve,
            runner: OnceLock::new(),
        })
    }

    /// The interpreter it runs in: the main one, or one that is made here and now.
    fn realm(&self) -> Result<Arc<Realm>, String> {
        if self.is_apart() {
            return Realm::create();
        }
        python::main().cloned().ok_or_else(|| String::from("Python was not started"))
    }

    /// Starts the thread, with a namespace of its own or that of another.
    /// `told` hears whether there is an interpreter for it.
    fn start(
        self: &Arc<Self>,
        shared: Option<Arc<Runner>>,
        told: impl FnOnce(Result<(), String>) + Send + 'static,
    ) -> std::io::Result<()> {
        let own = self.clone();
        let thread = std::thread::Builder::new().name(String::from("py_context")).stack_size(STACK);
        let started = thread.spawn(move || {
            SEAT.with(|seat| {
                seat.get_or_init(|| own.clone());
            });
            let realm = match own.realm() {
                Ok(realm) => realm,
                Err(text) => {
                    own.stop();
                    return told(Err(text));
                }
            };
            told(Ok(()));
            realm.attach(|py, bridge| {
                let shared = shared.as_ref().and_then(|runner| runner.namespace(py));
                match shared.map_or_else(|| namespace(py), Ok) {
                    Ok(namespace) => serve(py, bridge, &own, &realm, namespace),
                    Err(raised) => raised.write_unraisable(py, None),
                }
            });
            own.stop();
            if own.is_apart() {
                realm.end();
            }
        });
        if started.is_err() {
            self.stop();
        }
        started.map(drop)
    }
}

/// Starts a thread that helps the pool out.
pub(crate) fn start_reserve() -> std::io::Result<()> {
    let seat = Seat::new(&POOL, true);
    let shared = POOL.enlist(&seat);
    seat.start(shared, |_| ())
}

impl Context {
    /// Starts the thread. It is in the pool before this returns.
    pub(crate) fn start() -> std::io::Result<Self> {
        let seat = Seat::new(&POOL, false);
        POOL.join(&seat);
        seat.start(None, |_| ())?;
        Ok(Self { seat })
    }

    /// Starts the thread of one with an interpreter of its own. It is in its pool, and `told` is called, when that is there.
    pub(crate) fn start_apart(
        told: impl FnOnce(Result<(), String>) + Send + 'static,
    ) -> std::io::Result<Self> {
        let seat = Seat::new(&APART, false);
        let own = seat.clone();
        seat.start(None, move |made| {
            if made.is_ok() {
                own.pool.join(&own);
                // Its owner may have died meanwhile.
                if own.is_stopped() {
                    own.pool.part(&own);
                }
            }
            told(made);
        })?;
        Ok(Self { seat })
    }

    /// Ends the context after the request that is running now.
    pub(crate) fn close(&self) {
        self.seat.stop();
    }
}

#[rustler::resource_impl]
impl Resource for Context {
    const IMPLEMENTS_DOWN: bool = true;

    fn down<'a>(&'a self, _env: Env<'a>, _pid: LocalPid, _monitor: Monitor) {
        self.close();
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        self.close();
    }
}

/// A namespace such as `__main__` has.
fn namespace(py: Attached<'_>) -> PyResult<Owned> {
    let dict = Owned::dict(py)?;
    let builtins = pyrt::import(py, c"builtins")?;
    dict.dict_set(py, &Owned::str(py, "__builtins__")?, &builtins)?;
    dict.dict_set(py, &Owned::str(py, "__name__")?, &Owned::str(py, "__main__")?)?;
    Ok(dict)
}

fn serve(py: Attached<'_>, bridge: &Bridge, seat: &Arc<Seat>, realm: &Arc<Realm>, namespace: Owned) {
    let Ok(remote) = Remote::new(py, namespace.clone_ref(py), &bridge.home) else { return };
    let runner = Runner::install(Some(remote), Some(realm));
    let runner = seat.runner.get_or_init(|| runner);
    let mut spin = Spin::new();
    loop {
        let mut done = 0;
        while done < BATCH && !seat.is_stopped() {
            let Some((request, pooled)) = seat.next() else { break };
            // A panic is answered by the request being dropped, and the context goes on.
            let depth = runner.depth();
            let performed = catch_unwind(AssertUnwindSafe(|| {
                exec::perform(py, bridge, runner, &namespace, request);
            }));
            if let Err(panic) = performed {
                runner.unwind_to(py, depth);
                pyrt::raise_panic(py, panic).write_unraisable(py, None);
            }
            if pooled {
                seat.pool.done();
            }
            done += 1;
        }
        if seat.is_stopped() {
            return;
        }
        bridge.home.detach(py, || {
            if done < BATCH {
                seat.wait(&mut spin);
            }
        });
    }
}
