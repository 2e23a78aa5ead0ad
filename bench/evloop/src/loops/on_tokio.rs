//! tokio: a current-thread runtime on a thread of its own, fed by an unbounded channel of boxed closures.

use std::thread::JoinHandle;

use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::{mpsc, oneshot};

use super::{Job, Loop, Poster};

impl Poster for mpsc::UnboundedSender<Job> {
    fn post<F: FnOnce() + Send + 'static>(&self, f: F) {
        if self.send(Box::new(f)).is_err() {
            // The loop is gone, so the measurement is void.
            std::process::abort();
        }
    }
}

/// With `MANY` the loop takes closures by `recv_many`, otherwise one by one by `recv`. Neither wins
/// everywhere, so both are measured and the better one stands for tokio.
pub(crate) struct Channel<const MANY: bool> {
    sender: mpsc::UnboundedSender<Job>,
    thread: JoinHandle<()>,
}

/// How many closures one `recv_many` takes; 1024 measured the same.
const BATCH: usize = 256;

impl<const MANY: bool> Loop for Channel<MANY> {
    type Poster = mpsc::UnboundedSender<Job>;

    fn start() -> Self {
        let (sender, mut jobs) = mpsc::unbounded_channel::<Job>();
        let thread = std::thread::spawn(move || {
            runtime().block_on(async move {
                if MANY {
                    let mut batch = Vec::with_capacity(BATCH);
                    while jobs.recv_many(&mut batch, BATCH).await > 0 {
                        batch.drain(..).for_each(|job| job());
                    }
                } else {
                    while let Some(job) = jobs.recv().await {
                        job();
                    }
                }
            });
        });
        Channel { sender, thread }
    }

    fn poster(&self) -> Self::Poster {
        self.sender.clone()
    }

    fn stop(self) {
        drop(self.sender);
        self.thread.join().unwrap();
    }
}

/// The same runtime without the channel, for work that is spawned: timers and sleeps.
pub(crate) struct Spawning {
    pub(crate) handle: Handle,
    quit: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

impl Spawning {
    pub(crate) fn start() -> Spawning {
        let (quit, until) = oneshot::channel();
        let runtime = runtime();
        let handle = runtime.handle().clone();
        let thread = std::thread::spawn(move || {
            let _ = runtime.block_on(until);
        });
        Spawning { handle, quit, thread }
    }

    pub(crate) fn stop(self) {
        let _ = self.quit.send(());
        self.thread.join().unwrap();
    }
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}
