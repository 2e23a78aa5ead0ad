//! Dynamic fan-out: as many pieces of work as a node finds items, so many at a time.
//!
//! There are as many lanes as may be in flight, and each does one item after the other. A lane waits for nothing but its
//! item's own work, so the limit cannot deadlock.

use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use evloop::JoinHandle;

use crate::error::{BoxError, NodeError};
use crate::inputs::Inputs;
use crate::lock;
use crate::node::{LocalFuture, TaskWork};
use crate::pool::{Execute, Job, Worker};
use crate::run::{Ctx, State, contained, contained_future};

type Split<V> = Box<dyn for<'a> Fn(Inputs<'a, V>) -> Result<Vec<V>, BoxError> + Send + Sync>;
type CpuPiece<V> = Box<dyn Fn(&V) -> Result<V, BoxError> + Send + Sync>;
type Join<V> = Box<dyn Fn(Vec<V>) -> Result<V, BoxError> + Send + Sync>;

/// What is done with each item of a map.
pub struct Each<V>(Piece<V>);

enum Piece<V> {
    Cpu(CpuPiece<V>),
    Task(TaskWork<V>),
}

impl<V> std::fmt::Debug for Each<V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self.0 {
            Piece::Cpu(_) => "Each::cpu",
            Piece::Task(_) => "Each::task",
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
    pub(crate) fn on_loop(&self) -> bool {
        matches!(self.0, Piece::Task(_))
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
            halted: AtomicBool::new(false),
        })
    }

    /// Starts the lanes. On a thread of the pool.
    pub(crate) fn begin(self: &Arc<Self>) {
        for lane in 0..self.lanes.load(Ordering::Relaxed) {
            match &self.work.each.0 {
                Piece::Cpu(_) => self.inject(lane as u32, 0),
                Piece::Task(work) => self.spawn(work.clone()),
            }
        }
    }

    fn inject(self: &Arc<Self>, lo: u32, hi: u32) {
        // Given up by `execute`.
        let target: Arc<dyn Execute> = self.clone();
        self.state.parts.pool.shared().inject(Job { target: Arc::into_raw(target), lo, hi });
    }

    fn spawn(self: &Arc<Self>, work: TaskWork<V>) {
        let lane = Lane(self.clone());
        let make = move || async move {
            while let Some((place, item)) = lane.0.take() {
                let (work, item) = (&work, item.clone());
                let result = contained_future(|| work(vec![item])).await;
                lane.0.put(place, result);
            }
        };
        // What is refused drops its lane, which is through then.
        if let Ok(task) = self.state.parts.events.spawn_with(make) {
            lock(&self.tasks).push(task);
            if self.halted.load(Ordering::SeqCst) {
                self.halt();
            }
        }
    }

    /// No further items, and no waiting for those on the loop.
    pub(crate) fn halt(&self) {
        self.halted.store(true, Ordering::SeqCst);
        for task in lock(&self.tasks).iter() {
            task.abort();
        }
    }

    fn take(&self) -> Option<(usize, &V)> {
        if self.halted.load(Ordering::Relaxed) || self.state.is_halted() {
            return None;
        }
        let place = self.next.fetch_add(1, Ordering::Relaxed);
        self.items.get(place).map(|item| (place, item))
    }

    fn put(&self, place: usize, result: Result<V, NodeError>) {
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
struct Lane<V: Clone + Send + Sync + 'static>(Arc<MapRun<V>>);

impl<V: Clone + Send + Sync + 'static> Drop for Lane<V> {
    fn drop(&mut self) {
        if self.0.lane_is_through() {
            self.0.inject(0, JOIN);
        }
    }
}
