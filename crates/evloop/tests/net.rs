//! Sockets for futures: bytes arrive whole and in order, closing closes, and nothing is registered for longer than it
//! lives.
#![allow(clippy::unwrap_used)]

mod common;

use std::net::SocketAddr;
use std::time::Duration;

use common::{eventually, on_loop, started};
use evloop::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use evloop::{Config, EventLoop, Local, Turn, Wait, timeout};
use futures_lite::future::{block_on, zip};
use futures_lite::io::{AsyncReadExt, AsyncWriteExt, copy};
use futures_lite::{AsyncRead, AsyncWrite};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

const LOOPBACK: &str = "127.0.0.1:0";

fn run<F>(events: &EventLoop, make: impl FnOnce() -> F + Send + 'static) -> F::Output
where
    F: Future + 'static,
    F::Output: Send,
{
    block_on(events.spawn_with(make).unwrap()).unwrap()
}

/// Bytes that tell where they are.
fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 31 + i / 251) as u8).collect()
}

/// Sends `len` bytes to an echoing peer and takes them back at the same time, then half-closes and sees the end.
async fn echoes(stream: &mut (impl AsyncRead + AsyncWrite + Unpin), len: usize) {
    let sent = pattern(len);
    let (mut reader, mut writer) = futures_lite::io::split(stream);
    let send = async {
        writer.write_all(&sent).await.unwrap();
        writer.close().await.unwrap();
    };
    let receive = async {
        let mut received = Vec::new();
        reader.read_to_end(&mut received).await.unwrap();
        received
    };
    let ((), received) = zip(send, receive).await;
    assert_eq!(received.len(), len);
    assert!(received == pattern(len), "the bytes differ");
}

async fn serve_echo(mut listener: TcpListener, connections: usize) {
    for _ in 0..connections {
        let mut stream = listener.accept().await.unwrap();
        let echo = async move {
            let (reader, mut writer) = futures_lite::io::split(&mut stream);
            copy(reader, &mut writer).await.unwrap();
            writer.close().await.unwrap();
        };
        drop(Local::current().unwrap().spawn(echo).unwrap());
    }
}

#[test]
fn tcp_carries_megabytes_both_ways_through_full_buffers() {
    let events = started();
    run(&events, || async {
        let listener = TcpListener::bind(LOOPBACK.parse().unwrap()).unwrap();
        let address = listener.local_addr().unwrap();
        drop(Local::current().unwrap().spawn(serve_echo(listener, 1)).unwrap());
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        assert_eq!(stream.peer_addr().unwrap(), address);
        assert!(stream.local_addr().unwrap().ip().is_loopback());
        echoes(&mut stream, 8 << 20).await;
    });
    eventually("all registrations are gone", || {
        on_loop(&events, || ());
        events.stats().sources == 0
    });
}

#[test]
fn many_tcp_connections_at_once_keep_their_bytes_apart() {
    const CONNECTIONS: usize = 100;
    let events = started();
    run(&events, || async {
        let listener = TcpListener::bind(LOOPBACK.parse().unwrap()).unwrap();
        let address = listener.local_addr().unwrap();
        let local = Local::current().unwrap();
        drop(local.spawn(serve_echo(listener, CONNECTIONS)).unwrap());
        let clients: Vec<_> = (0..CONNECTIONS)
            .map(|i| {
                let client = async move {
                    let mut stream = TcpStream::connect(address).await.unwrap();
                    for round in 0..20u32 {
                        let message = (i as u32 * 1000 + round).to_ne_bytes();
                        stream.write_all(&message).await.unwrap();
                        let mut answer = [0; 4];
                        stream.read_exact(&mut answer).await.unwrap();
                        assert_eq!(answer, message);
                    }
                };
                local.spawn(client).unwrap()
            })
            .collect();
        for client in clients {
            client.await.unwrap();
        }
    });
    assert_eq!(events.stop().report().unwrap().panics, 0);
}

#[test]
fn unix_sockets_echo_by_path_and_as_a_pair() {
    let events = started();
    let folder = std::env::temp_dir().join(format!("evloop-net-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("socket");
    let inside = path.clone();
    run(&events, || async move {
        let mut listener = UnixListener::bind(&inside).unwrap();
        let server = async move {
            let mut stream = listener.accept().await.unwrap();
            let (reader, mut writer) = futures_lite::io::split(&mut stream);
            copy(reader, &mut writer).await.unwrap();
            writer.close().await.unwrap();
        };
        let client = async {
            let mut stream = UnixStream::connect(&inside).await.unwrap();
            echoes(&mut stream, 1 << 20).await;
        };
        zip(server, client).await;
        let (mut a, mut b) = UnixStream::pair().unwrap();
        a.write_all(b"ping").await.unwrap();
        drop(a);
        let mut text = String::new();
        b.read_to_string(&mut text).await.unwrap();
        assert_eq!(text, "ping");
    });
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_refused_connection_is_an_error() {
    let events = started();
    let error = run(&events, || async {
        let listener = TcpListener::bind(LOOPBACK.parse().unwrap()).unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        TcpStream::connect(address).await.map(|_| ()).unwrap_err()
    });
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused);
}

#[test]
fn writing_to_a_peer_that_is_gone_is_an_error_and_no_signal() {
    let events = started();
    let error = run(&events, || async {
        let (mut a, b) = UnixStream::pair().unwrap();
        drop(b);
        a.write_all(b"x").await.unwrap_err()
    });
    assert_eq!(error.kind(), std::io::ErrorKind::BrokenPipe);
}

#[test]
fn an_unread_peer_does_not_make_the_loop_spin() {
    let events = EventLoop::new();
    let driver = events.drive(Config::default()).unwrap();
    let turn = || assert_eq!(driver.turn(Wait::No), Ok(Turn::Running));
    let (tx, rx) = std::sync::mpsc::channel();
    let write = async move {
        let (mut a, b) = UnixStream::pair().unwrap();
        a.write_all(b"nobody reads this").await.unwrap();
        tx.send((a, b)).unwrap();
    };
    drop(driver.local().spawn(write).unwrap());
    turn();
    // `b` is readable and armed, and no future waits: one report disarms it.
    turn();
    assert!(driver.park().unwrap());
    let asleep = [PollFd::from_borrowed_fd(driver.poll_fd(), PollFlags::IN)];
    assert_eq!(poll(&mut asleep.clone(), Some(&Timespec { tv_sec: 0, tv_nsec: 0 })), Ok(0));
    // And a reader that comes later still gets it.
    let (a, mut b) = rx.recv().unwrap();
    drop(a);
    let read = async move {
        let mut text = String::new();
        b.read_to_string(&mut text).await.unwrap();
        text
    };
    let task = driver.local().spawn(read).unwrap();
    while !task.is_finished() {
        assert_eq!(driver.turn(Wait::Yes), Ok(Turn::Running));
    }
    assert_eq!(block_on(task).unwrap(), "nobody reads this");
}

#[test]
fn a_socket_may_be_used_and_dropped_on_another_thread() {
    let events = started();
    let (mut a, b) = run(&events, || async { UnixStream::pair().unwrap() });
    let other = std::thread::spawn(move || {
        block_on(async move {
            let mut b = b;
            let mut bytes = [0; 4];
            b.read_exact(&mut bytes).await.unwrap();
            bytes
        })
    });
    run(&events, || async move { a.write_all(b"over").await.unwrap() });
    assert_eq!(&other.join().unwrap(), b"over");
    eventually("both registrations are gone", || {
        on_loop(&events, || ());
        events.stats().sources == 0
    });
}

#[test]
fn a_read_can_be_given_up_and_taken_up_again() {
    let events = started();
    run(&events, || async {
        let (mut a, mut b) = UnixStream::pair().unwrap();
        let mut bytes = [0; 8];
        for _ in 0..10 {
            let late = timeout(Duration::from_millis(1), b.read(&mut bytes)).await.unwrap();
            assert!(late.is_err());
        }
        a.write_all(b"at last").await.unwrap();
        assert_eq!(b.read(&mut bytes).await.unwrap(), 7);
    });
}

#[test]
fn a_socket_made_where_no_loop_runs_is_an_error() {
    let address: SocketAddr = LOOPBACK.parse().unwrap();
    let error = TcpListener::bind(address).unwrap_err();
    assert!(error.to_string().contains("no loop runs on this thread"), "{error}");
}
