//! Registrations: the right owner hears of an fd, and only as long as it owns it.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod common;

use std::cell::{Cell, RefCell};
use std::os::fd::{AsRawFd, OwnedFd};
use std::rc::Rc;
use std::time::Duration;

use common::{on_loop, started};
use evloop::{Config, Core, Driver, Error, EventLoop, Fd, Interest, Local, Tuning, Wait};
use rustix::io::{dup, read, write};
use rustix::pipe::{PipeFlags, pipe, pipe_with};

fn driver() -> (EventLoop, Driver) {
    let events = EventLoop::new();
    let driver = events.drive(Config::default()).unwrap();
    (events, driver)
}

fn turn(driver: &Driver) {
    assert_eq!(driver.turn(Wait::No).unwrap(), evloop::Turn::Running);
}

#[test]
fn a_ready_fd_is_reported_in_every_turn_until_it_is_dealt_with() {
    let (_events, driver) = driver();
    let (reader, writer) = pipe().unwrap();
    let seen = Rc::new(Cell::new(0));
    let counter = seen.clone();
    let lent = reader.as_raw_fd();
    driver
        .local()
        .register(lent, Interest::READ, move |ready| {
            assert!(ready.contains(Interest::READ));
            counter.set(counter.get() + 1);
        })
        .unwrap();
    turn(&driver);
    assert_eq!(seen.get(), 0);
    write(&writer, b"x").unwrap();
    turn(&driver);
    turn(&driver);
    assert_eq!(seen.get(), 2, "level-triggered");
    read(&reader, &mut [0u8; 1]).unwrap();
    turn(&driver);
    assert_eq!(seen.get(), 2);
}

#[test]
fn interest_can_be_changed_and_none_is_silent_even_for_a_hang_up() {
    let (events, driver) = driver();
    let (reader, writer) = pipe().unwrap();
    let seen = Rc::new(Cell::new(0));
    let counter = seen.clone();
    let token =
        driver.local().register(reader, Interest::READ, move |_| counter.set(counter.get() + 1)).unwrap();
    driver.local().set_interest(token, Interest::NONE).unwrap();
    drop(writer);
    let before = events.stats().polls;
    turn(&driver);
    assert_eq!(seen.get(), 0);
    assert!(driver.park().unwrap(), "nothing to do: the hang-up is not reported");
    assert_eq!(events.stats().polls, before + 1);
    driver.local().set_interest(token, Interest::READ).unwrap();
    turn(&driver);
    assert_eq!(seen.get(), 1);
}

#[test]
fn deregistering_gives_an_owned_fd_back_open() {
    let (_events, driver) = driver();
    let (reader, writer) = pipe().unwrap();
    let token = driver.local().register(reader, Interest::READ, |_| ()).unwrap();
    let Fd::Owned(reader) = driver.local().deregister(token).unwrap() else { panic!("it was owned") };
    write(&writer, b"x").unwrap();
    assert_eq!(read(&reader, &mut [0u8; 8]), Ok(1));
    assert_eq!(driver.local().deregister(token).unwrap_err(), Error::StaleToken);
    assert_eq!(driver.local().set_interest(token, Interest::BOTH).unwrap_err(), Error::StaleToken);
}

#[test]
fn an_event_for_a_registration_ended_in_the_same_turn_is_dropped_and_counted() {
    let (events, driver) = driver();
    let local = driver.local();
    let tokens = Rc::new(RefCell::new(Vec::new()));
    let heard = Rc::new(Cell::new(0));
    let mut writers = Vec::new();
    for _ in 0..2 {
        let (reader, writer) = pipe().unwrap();
        write(&writer, b"x").unwrap();
        writers.push(writer);
        let (tokens_inside, heard, again) = (tokens.clone(), heard.clone(), local.clone());
        let token = local
            .register(reader, Interest::READ, move |_| {
                heard.set(heard.get() + 1);
                // Whoever is first ends both, and the fds are closed.
                for token in tokens_inside.borrow_mut().drain(..) {
                    drop(again.deregister(token).unwrap());
                }
            })
            .unwrap();
        tokens.borrow_mut().push(token);
    }
    turn(&driver);
    assert_eq!(heard.get(), 1);
    assert_eq!(events.stats().stale_events, 1);
    turn(&driver);
    assert_eq!((heard.get(), events.stats().stale_events), (1, 1), "it does not come again");
}

#[test]
fn bad_fds_and_tokens_are_refused_with_what_to_do() {
    let (one, two) = (started(), started());
    let register = |fd: Fd| move || Local::current().unwrap().register(fd, Interest::READ, |_| ());
    for fd in [-1, 1_000_000] {
        assert_eq!(on_loop(&one, register(Fd::Lent(fd))), Err(Error::BadFd { fd }));
    }
    let file = OwnedFd::from(std::fs::File::open("/proc/self/exe").unwrap());
    let number = file.as_raw_fd();
    assert_eq!(on_loop(&one, register(Fd::Owned(file))), Err(Error::NotPollable { fd: number }));
    let (reader, _writer) = pipe().unwrap();
    let fd = reader.as_raw_fd();
    let token = on_loop(&one, register(Fd::Lent(fd))).unwrap();
    assert_eq!(on_loop(&one, register(Fd::Lent(fd))), Err(Error::AlreadyRegistered { fd }));
    // Two loops may listen to one fd, but a token is good on its own loop only.
    let other = on_loop(&two, register(Fd::Lent(fd))).unwrap();
    assert_ne!(token, other);
    let foreign = on_loop(&two, move || Local::current().unwrap().deregister(token).map(|_| ()));
    assert_eq!(foreign, Err(Error::ForeignToken));
    let fine = on_loop(&one, move || Local::current().unwrap().deregister(token).map(|_| ()));
    assert_eq!(fine, Ok(()));
    for (error, hint) in [
        (Error::BadFd { fd: 9 }, "register it before closing"),
        (Error::NotPollable { fd: 9 }, "read and write it directly"),
        (Error::AlreadyRegistered { fd: 9 }, "deregister it first"),
        (Error::ForeignToken, "the loop that gave it out"),
        (Error::NotOnLoop, "use EventLoop::post"),
        (Error::Reentrant, "return from the callback"),
    ] {
        assert!(error.to_string().contains(hint), "{error}");
    }
}

#[test]
fn an_fd_closed_while_registered_does_not_make_the_loop_spin_nor_reach_the_wrong_owner() {
    let (events, driver) = driver();
    let local = driver.local();
    let (reader, writer) = pipe().unwrap();
    write(&writer, b"x").unwrap();
    let wrongly = Rc::new(Cell::new(0));
    let counter = wrongly.clone();
    let number = reader.as_raw_fd();
    let token = local.register(number, Interest::READ, move |_| counter.set(counter.get() + 1)).unwrap();
    // A duplicate keeps the pipe in the epoll set although its number is closed: nobody can name it any more.
    let duplicate = dup(&reader).unwrap();
    drop(reader);
    local.deregister(token).unwrap();
    // The number's next owner, with another registration that must survive the clean-up.
    let (next, next_writer) = pipe().unwrap();
    let heard = Rc::new(Cell::new(0));
    let counter = heard.clone();
    local.register(next, Interest::READ, move |_| counter.set(counter.get() + 1)).unwrap();
    turn(&driver);
    turn(&driver);
    assert_eq!((wrongly.get(), heard.get()), (0, 0));
    assert_eq!(events.stats().rebuilds, 1);
    assert!(driver.park().unwrap(), "the ghost is gone");
    write(&next_writer, b"x").unwrap();
    turn(&driver);
    assert_eq!(heard.get(), 1);
    drop(duplicate);
}

/// 10^5 cycles of open, register, write, and close by somebody else's callback in the very turn in which the event is
/// under way, with fd numbers and slots reused all the time. Every callback knows what its pipe must contain.
#[test]
fn torture_100_000_reuses_with_events_in_flight_reach_no_wrong_owner() {
    const CYCLES: u64 = 100_000;
    const WIDTH: usize = 16;
    struct Pair {
        token: evloop::SourceToken,
        writer: OwnedFd,
    }
    struct World {
        core: Core<(u64, Rc<OwnedFd>), (), ()>,
        pairs: Vec<Option<Pair>>,
        opened: u64,
    }
    impl World {
        /// Opens a pipe that carries its own number, ready from the start.
        fn open(&mut self, place: usize) {
            // Non-blocking: an event for the wrong pipe is to be seen, not to hang the test.
            let (reader, writer) = pipe_with(PipeFlags::NONBLOCK).unwrap();
            let reader = Rc::new(reader);
            let id = self.opened;
            self.opened += 1;
            write(&writer, &id.to_ne_bytes()).unwrap();
            let lent = Fd::Lent(reader.as_raw_fd());
            let token = self.core.register(lent, Interest::READ, (id, reader)).unwrap();
            self.pairs[place] = Some(Pair { token, writer });
        }

        fn close(&mut self, place: usize) {
            if let Some(pair) = self.pairs[place].take() {
                let (_, payload) = self.core.deregister(pair.token).unwrap();
                drop(payload);
                drop(pair.writer);
            }
        }
    }
    let mut world = World { core: Core::new(Tuning::default()).unwrap(), pairs: Vec::new(), opened: 0 };
    world.pairs.resize_with(WIDTH, || None);
    (0..WIDTH).for_each(|place| world.open(place));
    let (mut delivered, mut random) = (0u64, 0x9E37_79B9_7F4A_7C15u64);
    while world.opened < CYCLES {
        world.core.poll(Wait::No).unwrap();
        while let Some((token, ready, (id, reader))) = world.core.next_event() {
            assert!(ready.contains(Interest::READ));
            let (id, reader) = (*id, reader.clone());
            let mut bytes = [0u8; 8];
            assert_eq!(read(&*reader, &mut bytes), Ok(8), "an event for a pipe that is not ready");
            assert_eq!(u64::from_ne_bytes(bytes), id, "an event for another owner's pipe");
            drop(reader);
            delivered += 1;
            let mine = world.pairs.iter().position(|pair| pair.as_ref().is_some_and(|p| p.token == token));
            // This one and some others, whose events may be next in this very batch, are closed and opened again, so
            // that numbers and slots have new owners while the old owners' events are in flight.
            random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let victims = [mine.unwrap(), (random >> 33) as usize % WIDTH, (random >> 43) as usize % WIDTH];
            for place in victims {
                world.close(place);
            }
            for place in victims {
                if world.pairs[place].is_none() {
                    world.open(place);
                }
            }
        }
    }
    let counts = world.core.counts();
    assert!(counts.stale_events > CYCLES / 10, "the test must have had events in flight: {counts:?}");
    assert_eq!(counts.rebuilds, 0);
    // Each pipe was read by its owner, or closed before its event was delivered.
    let open = world.pairs.iter().flatten().count() as u64;
    assert!(delivered + open <= world.opened);
}

#[test]
fn owned_fds_are_closed_at_stop_and_callbacks_dropped() {
    let events = started();
    let (reader, writer) = pipe().unwrap();
    on_loop(&events, move || Local::current().unwrap().register(reader, Interest::READ, |_| ()).map(|_| ()))
        .unwrap();
    assert_eq!(events.stop_timeout(Duration::from_secs(60)).report().unwrap().panics, 0);
    assert_eq!(write(&writer, b"x"), Err(rustix::io::Errno::PIPE));
}

#[test]
fn renewing_an_interest_finds_out_that_the_fd_was_closed() {
    let mut core: Core<u8, (), ()> = Core::new(Tuning::default()).unwrap();
    let (reader, writer) = pipe().unwrap();
    let number = reader.as_raw_fd();
    let token = core.register(Fd::Lent(number), Interest::READ, 1).unwrap();
    core.renew_interest(token, Interest::READ).unwrap();
    write(&writer, b"x").unwrap();
    core.poll(Wait::No).unwrap();
    assert!(core.next_event().is_some());
    // The number has a new owner, whom the registration is not of.
    let (other, _writer) = pipe().unwrap();
    rustix::io::dup2(&other, &mut std::mem::ManuallyDrop::new(reader)).unwrap();
    core.set_interest(token, Interest::READ).unwrap();
    assert!(matches!(core.renew_interest(token, Interest::READ), Err(Error::BadFd { fd }) if fd == number));
}

#[test]
fn who_keeps_the_lasting_fd_in_a_set_hears_of_a_loop_whose_epoll_was_replaced() {
    let poller = evloop::os::Poller::new().unwrap();
    let lasting = poller.lasting_fd().unwrap();
    assert_eq!(poller.lasting_fd().unwrap(), lasting);
    let mut watcher = Core::<(), (), ()>::new(Tuning::default()).unwrap();
    watcher.register(Fd::Lent(lasting), Interest::READ, ()).unwrap();
    let mut events = evloop::os::Events::default();
    let mut hears = || {
        watcher.poll(Wait::No).unwrap();
        watcher.next_event().is_some()
    };
    for _ in 0..2 {
        assert!(!hears());
        poller.wake();
        assert!(hears());
        poller.wait(&mut events, false).unwrap();
        assert!(!hears(), "there is nothing more");
        poller.rebuild().unwrap();
        // Fds that are added are reported once.
        poller.wait(&mut events, false).unwrap();
    }
}
