//! Futures on a loop: each in a slot of the loop's thread, polled there and dropped there. A waker holds the slot's key
//! and never the future, so a wake from any thread, however late, finds the task or nothing.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use slotmap::{SlotMap, new_key_type};

use crate::driver::LoopState;
use crate::error::Rejected;
use crate::local::Local;
use crate::shared::{Remote, Shared};

new_key_type! {
    struct TaskKey;
}

type BoxedFuture = Pin<Box<dyn Future<Output = ()>>>;

struct Task {
    /// Away while it is being polled.
    future: Option<BoxedFuture>,
    waker: Arc<TaskWaker>,
}

struct TaskWaker {
    key: TaskKey,
    remote: Remote,
    /// Whether the task is in the queue, or on its way there.
    queued: AtomicBool,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.queued.swap(true, Ordering::AcqRel) {
            let key = self.key;
            self.remote.run(move |state| state.tasks.ready.borrow_mut().push_back(key));
        }
    }
}

/// All futures of one loop.
#[derive(Default)]
pub(crate) struct Tasks {
    slots: RefCell<SlotMap<TaskKey, Task>>,
    ready: RefCell<VecDeque<TaskKey>>,
}

impl Tasks {
    pub(crate) fn len(&self) -> usize {
        self.slots.borrow().len()
    }

    #[inline]
    pub(crate) fn any_ready(&self) -> bool {
        !self.ready.borrow().is_empty()
    }

    fn insert(&self, remote: Remote, future: BoxedFuture) {
        let key = self.slots.borrow_mut().insert_with_key(|key| Task {
            future: Some(future),
            waker: Arc::new(TaskWaker { key, remote, queued: AtomicBool::new(true) }),
        });
        self.ready.borrow_mut().push_back(key);
    }

    /// Polls what is ready now; what becomes ready meanwhile waits for the next turn.
    #[inline]
    pub(crate) fn run_ready(&self, state: &LoopState) {
        let turns = self.ready.borrow().len();
        for _ in 0..turns {
            if !state.takes_work() {
                return;
            }
            let Some(key) = self.ready.borrow_mut().pop_front() else { return };
            self.run(state, key);
        }
    }

    fn run(&self, state: &LoopState, key: TaskKey) {
        let taken = self.slots.borrow_mut().get_mut(key).map(|task| (task.future.take(), task.waker.clone()));
        let Some((Some(mut future), waker)) = taken else { return };
        // Before the poll: a wake that comes during it must queue the task again.
        waker.queued.store(false, Ordering::Release);
        let waker = Waker::from(waker);
        let mut done = true;
        state.contain("a future", || {
            done = future.as_mut().poll(&mut Context::from_waker(&waker)).is_ready();
        });
        if done {
            drop(self.slots.borrow_mut().remove(key));
            state.contain("the destructor of a future", || drop(future));
        } else if let Some(task) = self.slots.borrow_mut().get_mut(key) {
            task.future = Some(future);
        }
    }

    /// Drops all futures, oldest slot first, and tells how many there were.
    pub(crate) fn drop_all(&self, state: &LoopState) -> u64 {
        let keys: Vec<TaskKey> = self.slots.borrow().keys().collect();
        for key in &keys {
            let task = self.slots.borrow_mut().remove(*key);
            state.contain("the destructor of a future", || drop(task));
        }
        self.ready.borrow_mut().clear();
        keys.len() as u64
    }
}

/// Why a task has no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JoinError {
    /// The task was aborted, or its loop was stopped.
    #[error("the task was cancelled")]
    Cancelled,
    /// The task panicked, with this message.
    #[error("the task panicked: {0}")]
    Panicked(String),
}

enum Outcome<T> {
    Running { joiner: Option<Waker>, task: Option<Waker> },
    Done(Result<T, JoinError>),
    Taken,
}

/// Where a task leaves its result.
struct JoinCell<T> {
    outcome: Mutex<Outcome<T>>,
    aborted: AtomicBool,
}

impl<T> JoinCell<T> {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            outcome: Mutex::new(Outcome::Running { joiner: None, task: None }),
            aborted: AtomicBool::new(false),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Outcome<T>> {
        self.outcome.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The first result counts.
    fn finish(&self, result: Result<T, JoinError>) {
        let mut outcome = self.lock();
        if !matches!(*outcome, Outcome::Running { .. }) {
            return;
        }
        let before = std::mem::replace(&mut *outcome, Outcome::Done(result));
        drop(outcome);
        if let Outcome::Running { joiner: Some(joiner), .. } = before {
            joiner.wake();
        }
    }
}

/// A task's result to come. Dropping it lets the task go on by itself.
pub struct JoinHandle<T> {
    cell: Arc<JoinCell<T>>,
}

impl<T> std::fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JoinHandle").field("finished", &self.is_finished()).finish()
    }
}

impl<T> JoinHandle<T> {
    /// Cancels the task: its future is dropped on the loop's thread, at its next turn. Nothing happens to one that is
    /// done.
    pub fn abort(&self) {
        self.cell.aborted.store(true, Ordering::Release);
        let task = match &*self.cell.lock() {
            Outcome::Running { task, .. } => task.clone(),
            _ => None,
        };
        if let Some(task) = task {
            task.wake();
        }
    }

    /// Whether the result is there.
    pub fn is_finished(&self) -> bool {
        !matches!(*self.cell.lock(), Outcome::Running { .. })
    }
}

impl<T> Future for JoinHandle<T> {
    type Output = Result<T, JoinError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut outcome = self.cell.lock();
        if let Outcome::Running { joiner, .. } = &mut *outcome {
            *joiner = Some(cx.waker().clone());
            return Poll::Pending;
        }
        match std::mem::replace(&mut *outcome, Outcome::Taken) {
            Outcome::Done(result) => Poll::Ready(result),
            // Polled again after it was ready.
            _ => Poll::Ready(Err(JoinError::Cancelled)),
        }
    }
}

/// The task's side of the cell. Dropped before the task's end, be it on the way to the loop, before the first poll or
/// later, it tells whoever waits that there will be no result.
struct Promise<T>(Arc<JoinCell<T>>);

impl<T> Promise<T> {
    fn new() -> (Promise<T>, JoinHandle<T>) {
        let cell = JoinCell::new();
        (Promise(cell.clone()), JoinHandle { cell })
    }
}

impl<T> Drop for Promise<T> {
    fn drop(&mut self) {
        self.0.finish(Err(JoinError::Cancelled));
    }
}

/// `future`, with its end, its panic and its abort led to `promise`.
async fn supervised<F: Future>(future: F, promise: Promise<F::Output>) {
    let cell = &promise.0;
    let result = {
        let mut future = pin!(future);
        let mut first = true;
        poll_fn(|cx| {
            if std::mem::take(&mut first) {
                if let Outcome::Running { task, .. } = &mut *cell.lock() {
                    *task = Some(cx.waker().clone());
                }
            }
            // After the waker is there for an abort to use, so that either sees the other.
            if cell.aborted.load(Ordering::Acquire) {
                return Poll::Ready(Err(JoinError::Cancelled));
            }
            match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx))) {
                Ok(poll) => poll.map(Ok),
                Err(payload) => {
                    let message = match Local::current() {
                        Ok(local) => local.state().report_panic("a future", payload),
                        Err(_) => crate::driver::panic_message(&*payload),
                    };
                    Poll::Ready(Err(JoinError::Panicked(message)))
                }
            }
        })
        .await
    };
    cell.finish(result);
}

/// Spawns on this thread's loop.
pub(crate) fn spawn_local<F: Future + 'static>(
    state: &LoopState,
    future: F,
) -> Result<JoinHandle<F::Output>, Rejected<F>> {
    if !state.takes_work() {
        return Err(Rejected::new(future, state.shared.lifecycle.state()));
    }
    let (promise, handle) = Promise::new();
    start(state, future, promise);
    Ok(handle)
}

fn start<F: Future + 'static>(state: &LoopState, future: F, promise: Promise<F::Output>) {
    let remote = Remote(state.shared.clone());
    state.tasks.insert(remote, Box::pin(supervised(future, promise)));
}

/// Spawns on a loop from any thread.
pub(crate) fn spawn_remote<F>(shared: &Arc<Shared>, future: F) -> Result<JoinHandle<F::Output>, Rejected<F>>
where
    F: Future + Send + 'static,
    F::Output: Send,
{
    let (promise, handle) = Promise::new();
    let parcel = Parcel::new(future);
    let contents = parcel.clone();
    let sent = shared.errand(move || {
        let (Ok(local), Some(future)) = (Local::current(), contents.take()) else { return };
        start(local.state(), future, promise);
    });
    parcel.receipt(sent, shared).map(|()| handle)
}

/// Makes and spawns a future on a loop from any thread.
pub(crate) fn spawn_remote_with<M, F>(
    shared: &Arc<Shared>,
    make: M,
) -> Result<JoinHandle<F::Output>, Rejected<M>>
where
    M: FnOnce() -> F + Send + 'static,
    F: Future + 'static,
    F::Output: Send,
{
    let (promise, handle) = Promise::new();
    let parcel = Parcel::new(make);
    let contents = parcel.clone();
    let sent = shared.errand(move || {
        let (Ok(local), Some(make)) = (Local::current(), contents.take()) else { return };
        // Inside the task, so that a panic in `make` is the task's.
        start(local.state(), async move { make().await }, promise);
    });
    parcel.receipt(sent, shared).map(|()| handle)
}

/// Something sent with an errand that the sender wants back if the errand is refused.
pub(crate) struct Parcel<T>(Arc<Mutex<Option<T>>>);

impl<T> Clone for Parcel<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> Parcel<T> {
    pub(crate) fn new(contents: T) -> Self {
        Self(Arc::new(Mutex::new(Some(contents))))
    }

    pub(crate) fn take(&self) -> Option<T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// What `sent`, the answer to the errand, means for the sender.
    pub(crate) fn receipt<E>(&self, sent: Result<(), E>, shared: &Shared) -> Result<(), Rejected<T>> {
        match (sent, self) {
            (Ok(()), _) => Ok(()),
            (Err(_), parcel) => match parcel.take() {
                Some(contents) => Err(Rejected::new(contents, shared.lifecycle.state())),
                None => Ok(()),
            },
        }
    }
}
