//! What happens to a registration whose fd is closed behind the loop's back. One test, alone in its process: it counts on
//! getting the very fd number that it has just closed.
#![allow(clippy::unwrap_used)]

use std::cell::Cell;
use std::os::fd::AsRawFd;
use std::rc::Rc;

use evloop::{Config, Error, EventLoop, Interest, Turn, Wait};
use rustix::io::write;
use rustix::pipe::pipe;

#[test]
fn a_number_closed_silently_is_an_error_to_its_owner_and_a_fresh_start_for_the_next() {
    let events = EventLoop::new();
    let driver = events.drive(Config::default()).unwrap();
    let local = driver.local();
    let (reader, _writer) = pipe().unwrap();
    let number = reader.as_raw_fd();
    let old = local.register(number, Interest::READ, |_| panic!("not mine")).unwrap();
    drop(reader);
    assert_eq!(local.set_interest(old, Interest::BOTH), Err(Error::BadFd { fd: number }));
    let closed = local.register(number, Interest::READ, |_| ()).unwrap_err();
    assert_eq!(closed, Error::BadFd { fd: number });

    let (next, writer) = pipe().unwrap();
    assert_eq!(next.as_raw_fd(), number, "the kernel gives out the lowest free number");
    let heard = Rc::new(Cell::new(0));
    let counter = heard.clone();
    local.register(next, Interest::READ, move |_| counter.set(counter.get() + 1)).unwrap();
    assert_eq!(local.deregister(old).unwrap_err(), Error::StaleToken);
    write(&writer, b"x").unwrap();
    assert_eq!(driver.turn(Wait::No), Ok(Turn::Running));
    assert_eq!(heard.get(), 1);
    assert_eq!(events.stats().sources, 1);
}
