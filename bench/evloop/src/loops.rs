//! A loop on its own thread that takes closures from other threads, once per implementation. `posts` and
//! `wakeup` are written against the two traits, so every arm runs the very same code around them.

pub(crate) mod on_evloop;
pub(crate) mod on_tokio;

pub(crate) type Job = Box<dyn FnOnce() + Send>;

/// Hands closures to a loop from any thread.
pub(crate) trait Poster: Clone + Send + Sync + 'static {
    /// Generic, so that an implementation may store the closure without boxing it.
    fn post<F: FnOnce() + Send + 'static>(&self, f: F);
}

/// A running loop.
pub(crate) trait Loop: Sized {
    type Poster: Poster;
    fn start() -> Self;
    fn poster(&self) -> Self::Poster;
    /// Ends the loop after all its posters are gone, and joins its thread.
    fn stop(self);
}
