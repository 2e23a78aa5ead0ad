//! Ours: an `EventLoop` in its default configuration.

use evloop::{Config, EventLoop};

use super::{Loop, Poster};

impl Poster for EventLoop {
    fn post<F: FnOnce() + Send + 'static>(&self, f: F) {
        if EventLoop::post(self, f).is_err() {
            // The loop is gone, so the measurement is void.
            std::process::abort();
        }
    }
}

pub(crate) struct Running(pub(crate) EventLoop);

impl Loop for Running {
    type Poster = EventLoop;

    fn start() -> Self {
        let running = EventLoop::new();
        running.start(Config::default()).unwrap();
        Running(running)
    }

    fn poster(&self) -> EventLoop {
        self.0.clone()
    }

    fn stop(self) {
        let report = self.0.stop().report().expect("stopped from outside, so to its end");
        assert_eq!(report.accepted, report.executed, "a closure was lost");
    }
}
