//! Everything that knows the operating system: the clock, and epoll with its eventfd and timerfd. Nothing else in the
//! crate makes an event system call.

mod clock;
mod poller;

pub use clock::{Glance, Nanos, now};
pub use poller::{Event, Events, Interest, Poller};
