//! `Pool`: the threads that run CPU nodes. Each has a deque that the others steal from; what comes from outside goes
//! into one queue, from which it can be taken back until a thread takes it.
//!
//! A job is a pointer and two numbers, and holds no reference: whoever makes jobs stays alive until the pool has told it
//! that as many nodes have ended as there are (`Execute::ended`). Workers count the ends for themselves and tell them
//! when they turn to something else, so that the common case touches no shared counter.
//!
//! The pool ends when its last handle is gone. No job is left then, for who has jobs has a handle.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;

use crossbeam_deque::{Steal, Stealer, Worker as Deque};

use crate::idle::Idle;
use crate::queue::{Key, Queue};

/// How many times a worker looks around before it sleeps.
const LOOKS: u32 = 64;
/// After so many jobs of its own a worker looks at the common queue first, so that nobody waits there for ever.
const FAIR: u32 = 64;

/// Something that has jobs.
pub(crate) trait Execute: Send + Sync {
    /// Does one.
    fn execute(&self, lo: u32, hi: u32, worker: &mut Worker);
    /// So many nodes have ended, and nothing of them is touched any more.
    fn ended(&self, nodes: usize);
}

#[derive(Clone, Copy)]
pub(crate) struct Job {
    pub(crate) target: *const dyn Execute,
    pub(crate) lo: u32,
    pub(crate) hi: u32,
}

// SAFETY: the target is `Send` and `Sync`; the pointer is used while it lives (see above).
unsafe impl Send for Job {}

/// How a pool is set up.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PoolConfig {
    /// How many threads.
    pub threads: usize,
    /// How many jobs may wait before new runs are refused.
    pub capacity: usize,
    /// What the threads are called.
    pub name: String,
}

impl Default for PoolConfig {
    fn default() -> Self {
        let threads = std::thread::available_parallelism().map_or(2, usize::from);
        Self { threads, capacity: 65_536, name: "dag".to_owned() }
    }
}

impl PoolConfig {
    /// The default with so many threads, at least one.
    pub fn threads(threads: usize) -> PoolConfig {
        PoolConfig { threads: threads.max(1), ..PoolConfig::default() }
    }
}

pub(crate) struct Shared {
    stealers: Box<[Stealer<Job>]>,
    queue: Mutex<Queue<Job>>,
    /// How long the queue is.
    queued: AtomicUsize,
    idle: Idle,
    stop: AtomicBool,
    capacity: usize,
}

impl Shared {
    /// Puts a job into the common queue.
    pub(crate) fn inject(&self, job: Job) -> Key {
        let mut queue = crate::lock(&self.queue);
        let key = queue.push(job);
        self.queued.store(queue.len(), Ordering::SeqCst);
        drop(queue);
        self.idle.added();
        key
    }

    /// Takes a job back, if no worker has it.
    pub(crate) fn remove(&self, key: Key) -> bool {
        let mut queue = crate::lock(&self.queue);
        let removed = queue.remove(key).is_some();
        self.queued.store(queue.len(), Ordering::SeqCst);
        removed
    }

    fn take(&self) -> Option<Job> {
        if self.queued.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let mut queue = crate::lock(&self.queue);
        let job = queue.pop();
        self.queued.store(queue.len(), Ordering::SeqCst);
        job
    }

    /// How many jobs wait in the common queue, and how many may.
    pub(crate) fn load(&self) -> (usize, usize) {
        (self.queued.load(Ordering::Relaxed), self.capacity)
    }

    fn any(&self) -> bool {
        self.queued.load(Ordering::SeqCst) > 0
            || self.stop.load(Ordering::SeqCst)
            || self.stealers.iter().any(|stealer| !stealer.is_empty())
    }
}

/// The threads that run CPU nodes. Clones are handles to the same pool.
#[derive(Clone)]
pub struct Pool(Arc<Handle>);

struct Handle {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pool").field("threads", &self.0.threads.len()).finish_non_exhaustive()
    }
}

impl Pool {
    /// Starts the threads.
    pub fn new(config: PoolConfig) -> std::io::Result<Pool> {
        let deques: Vec<Deque<Job>> = (0..config.threads.max(1)).map(|_| Deque::new_lifo()).collect();
        let shared = Arc::new(Shared {
            stealers: deques.iter().map(Deque::stealer).collect(),
            queue: Mutex::default(),
            queued: AtomicUsize::new(0),
            idle: Idle::default(),
            stop: AtomicBool::new(false),
            capacity: config.capacity,
        });
        let mut handle = Handle { shared: shared.clone(), threads: Vec::new() };
        for (index, deque) in deques.into_iter().enumerate() {
            let pool = shared.clone();
            let thread = std::thread::Builder::new().name(format!("{}-{index}", config.name));
            let body = move || Worker { pool, deque, index, current: None, ends: 0, jobs: 0 }.run();
            // Those that did start are stopped by the handle's end.
            handle.threads.push(thread.spawn(body)?);
        }
        Ok(Pool(Arc::new(handle)))
    }

    /// How many threads there are.
    pub fn threads(&self) -> usize {
        self.0.threads.len()
    }

    /// How many jobs wait in the queue that is fed from outside.
    pub fn queued(&self) -> usize {
        self.0.shared.load().0
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.0.shared
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        self.shared.idle.wake_all();
        let this = std::thread::current().id();
        for thread in self.threads.drain(..) {
            // The last handle may go with the last run, on a thread of the pool, which ends by itself.
            if thread.thread().id() != this {
                let _ = thread.join();
            }
        }
    }
}

/// One thread's side of the pool.
pub(crate) struct Worker {
    pool: Arc<Shared>,
    deque: Deque<Job>,
    index: usize,
    /// Whose jobs are being done, and how many nodes of it have ended without it being told.
    current: Option<Arc<dyn Execute>>,
    ends: usize,
    jobs: u32,
}

impl Worker {
    fn run(mut self) {
        loop {
            self.jobs = self.jobs.wrapping_add(1);
            let own = if self.jobs % FAIR == 0 { self.pool.take() } else { None };
            let job = match own.or_else(|| self.deque.pop()) {
                Some(job) => job,
                None => {
                    self.settle();
                    match self.find() {
                        Some(job) => job,
                        None => return,
                    }
                }
            };
            self.perform(job);
        }
    }

    fn perform(&mut self, job: Job) {
        if !self.current.as_ref().is_some_and(|current| std::ptr::addr_eq(Arc::as_ptr(current), job.target)) {
            self.settle();
            // SAFETY: the pointer is from an `Arc`, and the target lives for as long as it has jobs.
            self.current = Some(unsafe {
                Arc::increment_strong_count(job.target);
                Arc::from_raw(job.target)
            });
        }
        // SAFETY: `current` holds the target, and changes only between jobs.
        let target = unsafe { &*job.target };
        if catch_unwind(AssertUnwindSafe(|| target.execute(job.lo, job.hi, self))).is_err() {
            tracing::error!("a panic outside of any node's code: the destructor of a value?");
        }
    }

    /// Tells of the nodes that have ended.
    fn settle(&mut self) {
        if let Some(current) = self.current.take() {
            current.ended(std::mem::take(&mut self.ends));
        }
    }

    /// Looks for work elsewhere, and sleeps until there is some. `None` is the end of the pool.
    fn find(&mut self) -> Option<Job> {
        let pool = self.pool.clone();
        pool.idle.search();
        loop {
            for look in 0..LOOKS {
                if let Some(job) = self.look() {
                    pool.idle.found();
                    return Some(job);
                }
                if look % 8 == 7 { std::thread::yield_now() } else { std::hint::spin_loop() }
            }
            if pool.stop.load(Ordering::SeqCst) {
                pool.idle.found();
                return None;
            }
            pool.idle.sleep(|| pool.any());
        }
    }

    fn look(&mut self) -> Option<Job> {
        if let Some(job) = self.pool.take() {
            return Some(job);
        }
        let others = self.pool.stealers.len();
        for step in 1..others {
            let victim = self.pool.stealers.get((self.index + step) % others)?;
            loop {
                match victim.steal_batch_and_pop(&self.deque) {
                    Steal::Success(job) => return Some(job),
                    Steal::Retry => {}
                    Steal::Empty => break,
                }
            }
        }
        None
    }

    /// A job that others may steal. To be followed by `shared`.
    #[inline]
    pub(crate) fn push(&mut self, job: Job) {
        self.deque.push(job);
    }

    /// Says that there is something to steal.
    #[inline]
    pub(crate) fn shared(&self) {
        self.pool.idle.added();
    }

    /// Nodes of the present target have ended; it learns of that when its jobs here are done.
    #[inline]
    pub(crate) fn ended(&mut self, nodes: usize) {
        self.ends += nodes;
    }

    /// Which thread of the pool this is.
    #[inline]
    pub(crate) fn index(&self) -> u32 {
        self.index as u32
    }
}
