//! The echo machine: one message in flight per connection, every byte compared, operations counted between two
//! readings of the clocks.
//!
//! One connection is driven with a blocking socket (two system calls a message), many by one level-triggered
//! poller. Both share `Peer`, which knows how far its message has gone and come back.

use std::io;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::event::epoll;

use crate::link::{Link, fd, tcp};
use crate::message::Messages;
use crate::params::Params;
use crate::tls::{self, Tls};
use crate::udp::Udp;
use crate::websocket::WebSocket;
use crate::{Outcome, cpu};

/// A datagram not answered by then is lost. Far above any answer, so that a slow server is not called lossy.
const LOST_AFTER: Duration = Duration::from_millis(100);
/// What one slice of the measured time lasts.
const SLICE: Duration = Duration::from_millis(20);
const BUFFER: usize = 256 * 1024;
/// What is received lies at the beginning of a page: a few bytes further in, where malloc(3) puts large blocks, the kernel
/// copies five times as slowly on some processors, and the client would be the bottleneck.
const PAGE: usize = 4096;

struct Peer<L> {
    link: L,
    index: u64,
    sent: usize,
    got: usize,
    sent_at: Instant,
    /// The poller is asked for writability too.
    wants_write: bool,
}

struct Load {
    messages: Messages,
    block: Vec<u8>,
    done: u64,
    lost: u64,
}

/// Whether the socket took or gave all that was asked, or has to be waited for.
#[derive(PartialEq)]
enum Step {
    Through,
    Blocked,
}

fn step(outcome: io::Result<()>) -> Result<Step, String> {
    match outcome {
        Ok(()) => Ok(Step::Through),
        Err(why) if why.kind() == io::ErrorKind::WouldBlock => Ok(Step::Blocked),
        Err(why) => Err(why.to_string()),
    }
}

impl<L: Link> Peer<L> {
    fn new(link: L, index: u64) -> Peer<L> {
        Peer { link, index, sent: 0, got: 0, sent_at: Instant::now(), wants_write: false }
    }

    /// What is left of the message goes out, as far as the socket takes it.
    fn push(&mut self, load: &Load) -> Result<Step, String> {
        while self.sent < load.messages.size() {
            match self.link.send(load.messages.rest(self.index, self.sent)) {
                Ok(0) => return Err("the server takes nothing".to_owned()),
                Ok(count) => self.sent += count,
                Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
                Err(why) => return step(Err(why)),
            }
        }
        if L::IS_DATAGRAM {
            self.sent_at = Instant::now();
        }
        step(self.link.flush())
    }

    /// One read. A message that is complete is counted.
    fn pull(&mut self, load: &mut Load) -> Result<Step, String> {
        let start = load.block.as_ptr().align_offset(PAGE);
        let buffer = load.block.get_mut(start..).unwrap_or_default();
        let count = match self.link.recv(buffer) {
            Ok(0) => return Err("the server closed the connection".to_owned()),
            Ok(count) => count,
            Err(why) if why.kind() == io::ErrorKind::Interrupted => return Ok(Step::Through),
            Err(why) => return step(Err(why)),
        };
        let got = load.block.get(start..start + count).unwrap_or_default();
        if !load.messages.matches(self.index, self.got, got)
            || (L::IS_DATAGRAM && count != load.messages.size())
        {
            // The answer to a datagram that was given up and sent again.
            if L::IS_DATAGRAM && load.lost > 0 {
                return Ok(Step::Through);
            }
            return Err(format!("message {} came back changed near byte {}", self.index, self.got));
        }
        self.got += count;
        if self.got == load.messages.size() {
            load.done += 1;
            (self.index, self.sent, self.got) = (self.index + 1, 0, 0);
        }
        Ok(Step::Through)
    }

    /// Sends and receives until the socket has to be waited for.
    fn pump(&mut self, load: &mut Load) -> Result<(), String> {
        if self.wants_write || self.sent == 0 {
            self.wants_write = self.push(load)? == Step::Blocked;
        }
        loop {
            let step = self.pull(load)?;
            if self.got == 0 && self.sent == 0 {
                self.wants_write = self.push(load)? == Step::Blocked;
            }
            if step == Step::Blocked || !self.link.holds_more() {
                return Ok(());
            }
        }
    }
}

/// Drives until `until`.
trait Driver {
    fn drive(&mut self, load: &mut Load, until: Instant) -> Result<(), String>;
}

struct One<L>(Peer<L>);

impl<L: Link> Driver for One<L> {
    fn drive(&mut self, load: &mut Load, until: Instant) -> Result<(), String> {
        let peer = &mut self.0;
        while Instant::now() < until {
            let before = load.done;
            peer.push(load)?;
            while load.done == before {
                if peer.pull(load)? == Step::Blocked {
                    load.lost += 1;
                    peer.sent = 0;
                    peer.push(load)?;
                }
            }
        }
        Ok(())
    }
}

struct Many<L> {
    peers: Vec<Peer<L>>,
    poller: rustix::fd::OwnedFd,
    events: Vec<epoll::Event>,
    next_scan: Instant,
}

impl<L: Link> Many<L> {
    fn new(peers: Vec<Peer<L>>) -> io::Result<Many<L>> {
        let poller = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        for (slot, peer) in peers.iter().enumerate() {
            peer.link.set_nonblocking(true)?;
            epoll::add(
                &poller,
                fd(&peer.link),
                epoll::EventData::new_u64(slot as u64),
                epoll::EventFlags::IN,
            )?;
        }
        let events = Vec::with_capacity(peers.len());
        Ok(Many { peers, poller, events, next_scan: Instant::now() })
    }

    fn rearm(&self, slot: usize, peer: &Peer<L>) -> io::Result<()> {
        let write = if peer.wants_write { epoll::EventFlags::OUT } else { epoll::EventFlags::empty() };
        let data = epoll::EventData::new_u64(slot as u64);
        epoll::modify(&self.poller, fd(&peer.link), data, epoll::EventFlags::IN | write)?;
        Ok(())
    }

    fn turn(&mut self, load: &mut Load, slot: usize) -> Result<(), String> {
        let Some(peer) = self.peers.get_mut(slot) else { return Err("an event of nobody".to_owned()) };
        let asked = peer.wants_write;
        peer.pump(load)?;
        if let Some(peer) = self.peers.get(slot).filter(|peer| peer.wants_write != asked) {
            self.rearm(slot, peer).map_err(|why| why.to_string())?;
        }
        Ok(())
    }

    fn resend_lost(&mut self, load: &mut Load, now: Instant) -> Result<(), String> {
        self.next_scan = now + LOST_AFTER / 4;
        for peer in self.peers.iter_mut().filter(|peer| now - peer.sent_at > LOST_AFTER) {
            load.lost += 1;
            peer.sent = 0;
            peer.push(load)?;
        }
        Ok(())
    }
}

impl<L: Link> Driver for Many<L> {
    fn drive(&mut self, load: &mut Load, until: Instant) -> Result<(), String> {
        for slot in 0..self.peers.len() {
            if self.peers.get(slot).is_some_and(|peer| peer.sent == 0) {
                self.turn(load, slot)?;
            }
        }
        let patience = rustix::time::Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
        loop {
            let now = Instant::now();
            if now >= until {
                return Ok(());
            }
            if L::IS_DATAGRAM && now >= self.next_scan {
                self.resend_lost(load, now)?;
            }
            self.events.clear();
            let space = rustix::buffer::spare_capacity(&mut self.events);
            epoll::wait(&self.poller, space, Some(&patience)).map_err(|why| why.to_string())?;
            for at in 0..self.events.len() {
                let slot = self.events.get(at).map_or(u64::MAX, |event| event.data.u64());
                self.turn(load, usize::try_from(slot).unwrap_or(usize::MAX))?;
            }
        }
    }
}

struct Plan {
    server: i32,
    warm: Duration,
    measured: Duration,
}

/// One stretch of the measured time.
struct Slice {
    ops: u64,
    seconds: f64,
    server_cpu: f64,
    client_cpu: f64,
}

impl Slice {
    fn rate(&self) -> f64 {
        self.ops as f64 / self.seconds
    }

    fn take(driver: &mut dyn Driver, load: &mut Load, server: i32, long: Duration) -> Result<Slice, String> {
        let done = load.done;
        let (server_before, own_before) = (cpu::of_process(server)?, cpu::of_process(0)?);
        let start = Instant::now();
        driver.drive(load, start + long)?;
        let seconds = start.elapsed().as_secs_f64();
        Ok(Slice {
            ops: load.done - done,
            seconds,
            server_cpu: (cpu::of_process(server)? - server_before).as_secs_f64(),
            client_cpu: (cpu::of_process(0)? - own_before).as_secs_f64(),
        })
    }
}

/// The median slice of the measured time: others that take a core away for a while spoil some slices only.
fn measure(mut driver: Box<dyn Driver>, mut load: Load, plan: &Plan) -> Outcome {
    driver.drive(&mut load, Instant::now() + plan.warm)?;
    let (done, lost) = (load.done, load.lost);
    let until = Instant::now() + plan.measured;
    let mut slices = Vec::new();
    while slices.is_empty() || Instant::now() < until {
        slices.push(Slice::take(driver.as_mut(), &mut load, plan.server, SLICE)?);
    }
    slices.sort_by(|one, other| one.rate().total_cmp(&other.rate()));
    let Some(Slice { ops, seconds, server_cpu, client_cpu }) = slices.get(slices.len() / 2) else {
        return Err("nothing was measured".to_owned());
    };
    let (done, lost) = (load.done - done, load.lost - lost);
    Ok(format!(
        r#"{{"ops":{ops},"seconds":{seconds:.6},"server_cpu":{server_cpu:.6},"client_cpu":{client_cpu:.6},"all_ops":{done},"lost":{lost}}}"#
    ))
}

fn driver<L: Link + 'static>(
    conns: u64,
    connect: impl Fn() -> io::Result<L>,
) -> Result<Box<dyn Driver>, String> {
    let peers: Result<Vec<Peer<L>>, String> = (0..conns)
        .map(|index| match connect() {
            Ok(link) => Ok(Peer::new(link, index * 17)),
            Err(why) => Err(format!("connection {index}: {why}")),
        })
        .collect();
    let mut peers = peers?;
    match peers.pop() {
        Some(only) if peers.is_empty() => {
            if L::IS_DATAGRAM {
                rustix::net::sockopt::set_socket_timeout(
                    fd(&only.link),
                    rustix::net::sockopt::Timeout::Recv,
                    Some(LOST_AFTER),
                )
                .map_err(|why| why.to_string())?;
            }
            Ok(Box::new(One(only)))
        }
        Some(last) => {
            peers.push(last);
            Ok(Box::new(Many::new(peers).map_err(|why| why.to_string())?))
        }
        None => Err("no connection was asked for".to_owned()),
    }
}

pub(crate) fn run(params: &mut Params) -> Outcome {
    let net: String = params.take("net", "tcp".to_owned())?;
    let at: String = params.take("at", String::new())?;
    let certificate: String = params.take("certificate", String::new())?;
    let size: usize = params.take("size", 1024)?;
    let conns: u64 = params.take("conns", 1)?;
    let plan = Plan {
        server: params.take("server", 0)?,
        warm: Duration::from_millis(params.take("warm", 100)?),
        measured: Duration::from_millis(params.take("millis", 300)?),
    };
    params.finish()?;
    let driver = match net.as_str() {
        "tcp" => driver(conns, || tcp(&at)),
        "unix" => driver(conns, || UnixStream::connect(&at)),
        "udp" => driver(conns, || Udp::connect(&at)),
        "websocket" => driver(conns, || WebSocket::connect(&at, size)),
        "tls" => {
            let config = tls::config(&certificate)?;
            driver(conns, || Tls::connect(&at, &config))
        }
        other => Err(format!("net cannot be {other}")),
    }?;
    let load = Load { messages: Messages::new(size), block: vec![0; BUFFER + PAGE], done: 0, lost: 0 };
    measure(driver, load, &plan)
}
