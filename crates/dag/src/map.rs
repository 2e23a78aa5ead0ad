//! Dynamic fan-out: as many pieces of work as a node finds items, so many at a time.
//!
//! There are as many lanes as may be in flight, and each does one item after the other. A lane waits for nothing but its
//! item's own work, so the limit cannot deadlock.

use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use evloop::{JoinHandle, Local};

use crate::error::{BoxError, NodeError};
use crate::inputs::Inputs;
use crate::lock;
use crate::node::{LocalFuture, TaskWork};
use crate::pool::{Execute, Job, Worker};
use crate::redis::{Asked, Asks};
use crate::run::{Ctx, State, contained, contained_future};

type Split<V> = Box<dyn for<'a> Fn(Inputs<'a, V>) -> Result<Vec<V>, BoxError> + Send + Sync>;
type CpuPiece<V> = Box<dyn Fn(&V) -> Result<V, BoxError> + Send + Sync>;
type Join<V> = Box<dyn Fn(Vec<V>) -> Result<V, BoxError> + Send + Sync>;

/// What is done with each item of a map.
pub struct Each<V>(Piece<V>);

enum Piece<V> {
    Cpu(CpuPiece<V>),
    Task(TaskWork<V>),
    Redis(Asks<V>),
}

impl<V> std::fmt::Debug for Each<V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self.0 {
            Piece::Cpu(_) => "Each::cpu",
            Piece::Task(_) => "Each::task",
            Piece::Redis(_) => "redis::each",
        })
    }
}

impl<V: 'static> Each<V> {
    /// A function on the pool.
    pub fn cpu<F, E>(f: F) -> Each<V>
    where
        F: Fn(&V) -> Result<V, E> + Send + Sync + 'static,
        E: Into<BoxError> + 'static,
    {
        Each(Piece::Cpu(Box::new(move |item| f(item).map_err(Into::into))))
    }

    /// A coroutine on the loop.
    pub fn task<F, T, E>(f: F) -> Each<V>
    where
        F: Fn(V) -> T + Send + Sync + 'static,
        T: Future<Output = Result<V, E>> + 'static,
        E: Into<BoxError> + 'static,
    {
        // Always called with one item.
        Each(Piece::Task(Arc::new(move |mut items| match items.pop() {
            Some(item) => boxed(f(item)),
            None => Box::pin(async { Err("an item is missing".into()) }),
        })))
    }
}

impl<V> Each<V> {
    pub(crate) fn asks(asks: Asks<V>) -> Each<V> {
        Each(Piece::Redis(asks))
    }

    pub(crate) fn on_loop(&self) -> bool {
        !matches!(self.0, Piece::Cpu(_))
    }
}

fn boxed<V, T, E>(future: T) -> LocalFuture<V>
where
    T: Future<Output = Result<V, E>> + 'static,
    E: Into<BoxError> + 'static,
{
    Box::pin(async move { future.await.map_err(Into::into) })
}

pub(crate) fn boxed_task<V, F, T, E>(f: F) -> TaskWork<V>
where
    F: Fn(Vec<V>) -> T + Send + Sync + 'static,
    T: Future<Output = Result<V, E>> + 'static,
    E: Into<BoxError> + 'static,
{
    Arc::new(move |values| boxed(f(values)))
}

pub(crate) struct MapWork<V> {
    pub(crate) in_flight: usize,
    pub(crate) split: Split<V>,
    pub(crate) each: Each<V>,
    pub(crate) join: Join<V>,
}

/// In a job: the lanes are through, and the results are to be joined.
const JOIN: u32 = 1;

/// One map node in one run.
pub(crate) struct MapRun<V> {
    state: Arc<State<V>>,
    node: u32,
    work: Arc<MapWork<V>>,
    items: Vec<V>,
    next: AtomicUsize,
    results: Mutex<Vec<Option<V>>>,
    failure: Mutex<Option<NodeError>>,
    lanes: AtomicUsize,
    tasks: Mutex<Vec<JoinHandle<()>>>,
    pub(crate) asked: Asked,
    halted: AtomicBool,
}

impl<V: Clone + Send + Sync + 'static> MapRun<V> {
    pub(crate) fn new(
        state: Arc<State<V>>,
        node: u32,
        work: Arc<MapWork<V>>,
        items: Vec<V>,
    ) -> Arc<MapRun<V>> {
        let results = items.iter().map(|_| None).collect();
        Arc::new(MapRun {
            state,
            node,
            lanes: AtomicUsize::new(work.in_flight.min(items.len()).max(1)),
            work,
            items,
            next: AtomicUsize::new(0),
            results: Mutex::new(results),
            failure: Mutex::default(),
            tasks: Mutex::default(),
            asked: Asked::default(),
            halted: AtomicBool::new(false),
        })
    }

    /// Starts the lanes. On a thread of the pool.
    pub(crate) fn begin(self: &Arc<Self>) {
        let lanes = self.lanes.load(Ordering::Relaxed);
        match &self.work.each.0 {
            Piece::Cpu(_) => (0..lanes).for_each(|lane| self.inject(lane as u32, 0)),
            Piece::Task(work) => {
                let lanes = (0..lanes).map(|_| Lane(self.clone())).collect();
                let (map, work) = (self.clone(), work.clone());
                // All of them by one post, and made on the loop's thread, where they end. What is refused drops its
                // lanes, which are through then.
                let _ = self.state.parts.events.post(move || map.spawn(lanes, &work));
            }
            Piece::Redis(asks) => self.ask(asks, lanes),
        }
    }

    fn inject(self: &Arc<Self>, lo: u32, hi: u32) {
        // Given up by `execute`.
        let target: Arc<dyn Execute> = self.clone();
        self.state.parts.pool.shared().inject(Job { target: Arc::into_raw(target), lo, hi });
    }

    /// Starts lanes on the loop, of which this is the thread.
    fn spawn(&self, lanes: Vec<Lane<V>>, work: &TaskWork<V>) {
        let Ok(local) = Local::current() else { return };
        let lanes = lanes.into_iter().filter_map(|lane| local.spawn(lane.run(work.clone())).ok());
        lock(&self.tasks).extend(lanes);
        if self.is_stopped() {
            self.halt();
        }
    }

    /// No further items, and no waiting for those on the loop.
    pub(crate) fn halt(&self) {
        self.halted.store(true, Ordering::SeqCst);
        for task in lock(&self.tasks).iter() {
            task.abort();
        }
        if let Some(asks) = self.asks() {
            self.give_up(asks);
        }
    }

    pub(crate) fn asks(&self) -> Option<&Asks<V>> {
        match &self.work.each.0 {
            Piece::Redis(asks) => Some(asks),
            _ => None,
        }
    }

    /// Whether what is in flight is not waited for.
    pub(crate) fn is_stopped(&self) -> bool {
        self.halted.load(Ordering::SeqCst)
    }

    pub(crate) fn take(&self) -> Option<(usize, &V)> {
        if self.halted.load(Ordering::Relaxed) || self.state.is_halted() {
            return None;
        }
        let place = self.next.fetch_add(1, Ordering::Relaxed);
        self.items.get(place).map(|item| (place, item))
    }

    pub(crate) fn put(&self, place: usize, result: Result<V, NodeError>) {
        match result {
            Ok(value) => {
                if let Some(result) = lock(&self.results).get_mut(place) {
                    *result = Some(value);
                }
            }
            Err(error) => {
                lock(&self.failure).get_or_insert(error);
                self.halt();
            }
        }
    }

    /// A lane is through; the last one sees to the result.
    fn lane_is_through(&self) -> bool {
        self.lanes.fetch_sub(1, Ordering::AcqRel) == 1
    }

    fn join(&self) {
        let results = std::mem::take(&mut *lock(&self.results));
        let expected = results.len();
        let values: Vec<V> = results.into_iter().flatten().collect();
        let failure = lock(&self.failure).take();
        let result = match failure.or_else(|| self.state.loop_is_down().filter(|_| values.len() < expected)) {
            Some(error) => Err(error),
            None if values.len() < expected => Err(NodeError::Cancelled),
            None => contained(|| (self.work.join)(values)),
        };
        let mut ctx = Ctx::outside();
        self.state.finish_special(self.node, result, &mut ctx);
        self.state.drain(&mut ctx);
    }
}

impl<V: Clone + Send + Sync + 'static> Execute for MapRun<V> {
    fn execute(&self, _lane: u32, what: u32, _worker: &mut Worker) {
        if let (Piece::Cpu(work), 0) = (&self.work.each.0, what) {
            while let Some((place, item)) = self.take() {
                self.put(place, contained(|| work(item)));
            }
        }
        if what == JOIN || self.lane_is_through() {
            self.join();
        }
        // SAFETY: the job's own reference, of `inject`; the worker holds another.
        unsafe { Arc::decrement_strong_count(std::ptr::from_ref(self)) };
    }

    fn ended(&self, _nodes: usize) {}
}

/// A lane on the loop, through when it is dropped.
pub(crate) struct Lane<V: Clone + Send + Sync + 'static>(pub(crate) Arc<MapRun<V>>);

impl<V: Clone + Send + Sync + 'static> Lane<V> {
    /// One item after the other.
    async fn run(self, work: TaskWork<V>) {
        while let Some((place, item)) = self.0.take() {
            let item = item.clone();
            let result = contained_future(|| work(vec![item])).await;
            self.0.put(place, result);
        }
    }
}

impl<V: Clone + Send + Sync + 'static> Drop for Lane<V> {
    fn drop(&mut self) {
        if self.0.lane_is_through() {
            self.0.inject(0, JOIN);
        }
    }
}
