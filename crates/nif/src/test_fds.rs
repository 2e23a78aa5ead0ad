//! Sockets and pipes for tests of loops, by number. Only those made here may be used, so that no test reaches a descriptor of the VM.

use std::collections::HashMap;
use std::fs::File;
use std::io::{Error, ErrorKind, Read, Result, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Mutex;

use rustler::{Binary, Encoder, Env, NewBinary, Term};

use crate::atoms;
use crate::inbox::lock;

enum Thing {
    Udp(UdpSocket),
    Listener(TcpListener),
    Stream(TcpStream),
    Pipe(File),
}

/// What there is, by number.
static THINGS: Mutex<Option<HashMap<i32, Thing>>> = Mutex::new(None);

fn keep(fd: i32, thing: Thing) -> i32 {
    let before = lock(&THINGS).get_or_insert_with(HashMap::new).insert(fd, thing);
    drop(before);
    fd
}

fn unknown() -> Error {
    Error::from_raw_os_error(libc::EBADF)
}

fn with<R>(fd: i32, f: impl FnOnce(&mut Thing) -> Result<R>) -> Result<R> {
    lock(&THINGS).as_mut().and_then(|things| things.get_mut(&fd)).ok_or_else(unknown).and_then(f)
}

fn failed<'a>(env: Env<'a>, error: &Error) -> Term<'a> {
    if error.kind() == ErrorKind::WouldBlock {
        return (atoms::error(), atoms::would_block()).encode(env);
    }
    if error.raw_os_error() == Some(libc::EBADF) {
        return (atoms::error(), atoms::ebadf()).encode(env);
    }
    (atoms::error(), error.to_string()).encode(env)
}

fn put<'a, T: Encoder>(env: Env<'a>, result: Result<T>) -> Term<'a> {
    match result {
        Ok(value) => (atoms::ok(), value).encode(env),
        Err(error) => failed(env, &error),
    }
}

fn done(env: Env<'_>, result: Result<()>) -> Term<'_> {
    match result {
        Ok(()) => atoms::ok().encode(env),
        Err(error) => failed(env, &error),
    }
}

fn bytes<'a>(env: Env<'a>, data: &[u8]) -> Term<'a> {
    let mut binary = NewBinary::new(env, data.len());
    binary.as_mut_slice().copy_from_slice(data);
    binary.into()
}

fn address(host: &str, port: u16) -> Result<SocketAddr> {
    let ip = host.parse().map_err(|_| Error::from(ErrorKind::InvalidInput))?;
    Ok(SocketAddr::new(ip, port))
}

/// How much is read at most.
const MOST: usize = 1 << 20;

#[rustler::nif]
fn create_test_udp_socket(env: Env<'_>, port: u16) -> Term<'_> {
    let made = UdpSocket::bind(("127.0.0.1", port)).and_then(|socket| {
        socket.set_nonblocking(true)?;
        let port = socket.local_addr()?.port();
        Ok((keep(socket.as_raw_fd(), Thing::Udp(socket)), port))
    });
    put(env, made)
}

#[rustler::nif]
fn sendto_test_udp<'a>(env: Env<'a>, fd: i32, data: Binary<'a>, host: &'a str, port: u16) -> Term<'a> {
    let sent = address(host, port).and_then(|address| {
        with(fd, |thing| match thing {
            Thing::Udp(socket) => socket.send_to(&data, address).map(drop),
            _ => Err(unknown()),
        })
    });
    done(env, sent)
}

#[rustler::nif]
fn recvfrom_test_udp(env: Env<'_>, fd: i32, most: usize) -> Term<'_> {
    let mut room = vec![0; most.min(MOST)];
    let received = with(fd, |thing| match thing {
        Thing::Udp(socket) => socket.recv_from(&mut room),
        _ => Err(unknown()),
    });
    match received {
        Ok((size, from)) => {
            let data = bytes(env, room.get(..size).unwrap_or_default());
            (atoms::ok(), (data, (from.ip().to_string(), from.port()))).encode(env)
        }
        Err(error) => failed(env, &error),
    }
}

#[rustler::nif]
fn set_udp_broadcast(env: Env<'_>, fd: i32, on: bool) -> Term<'_> {
    let set = with(fd, |thing| match thing {
        Thing::Udp(socket) => socket.set_broadcast(on),
        _ => Err(unknown()),
    });
    done(env, set)
}

#[rustler::nif]
fn close_test_fd(env: Env<'_>, fd: i32) -> Term<'_> {
    let gone = lock(&THINGS).as_mut().and_then(|things| things.remove(&fd));
    done(env, gone.map(drop).ok_or_else(unknown))
}

#[rustler::nif]
fn create_test_pipe(env: Env<'_>) -> Term<'_> {
    let mut fds = [0; 2];
    // SAFETY: room for two numbers.
    if unsafe { libc::pipe2(fds.as_mut_ptr(), libc::O_CLOEXEC | libc::O_NONBLOCK) } != 0 {
        return failed(env, &Error::last_os_error());
    }
    // SAFETY: just made, and owned by nobody.
    let ends = fds.map(|fd| File::from(unsafe { OwnedFd::from_raw_fd(fd) }));
    let [read, write] = ends.map(|end| keep(end.as_raw_fd(), Thing::Pipe(end)));
    (atoms::ok(), (read, write)).encode(env)
}

#[rustler::nif]
fn read_test_fd(env: Env<'_>, fd: i32, most: usize) -> Term<'_> {
    let mut room = vec![0; most.min(MOST)];
    let size = with(fd, |thing| match thing {
        Thing::Pipe(pipe) => pipe.read(&mut room),
        Thing::Stream(stream) => stream.read(&mut room),
        Thing::Udp(socket) => socket.recv(&mut room),
        Thing::Listener(_) => Err(unknown()),
    });
    match size {
        Ok(size) => (atoms::ok(), bytes(env, room.get(..size).unwrap_or_default())).encode(env),
        Err(error) => failed(env, &error),
    }
}

#[rustler::nif]
fn write_test_fd<'a>(env: Env<'a>, fd: i32, data: Binary<'a>) -> Term<'a> {
    let written = with(fd, |thing| match thing {
        Thing::Pipe(pipe) => pipe.write(&data),
        Thing::Stream(stream) => stream.write(&data),
        Thing::Udp(socket) => socket.send(&data),
        Thing::Listener(_) => Err(unknown()),
    });
    put(env, written)
}

#[rustler::nif]
fn create_test_tcp_listener(env: Env<'_>, port: u16) -> Term<'_> {
    let made = TcpListener::bind(("127.0.0.1", port)).and_then(|listener| {
        listener.set_nonblocking(true)?;
        let port = listener.local_addr()?.port();
        Ok((keep(listener.as_raw_fd(), Thing::Listener(listener)), port))
    });
    put(env, made)
}

#[rustler::nif(schedule = "DirtyIo")]
fn connect_test_tcp<'a>(env: Env<'a>, host: &'a str, port: u16) -> Term<'a> {
    let made = address(host, port).and_then(TcpStream::connect).and_then(|stream| {
        stream.set_nonblocking(true)?;
        Ok(keep(stream.as_raw_fd(), Thing::Stream(stream)))
    });
    put(env, made)
}

#[rustler::nif]
fn accept_test_tcp(env: Env<'_>, fd: i32) -> Term<'_> {
    let accepted = with(fd, |thing| match thing {
        Thing::Listener(listener) => listener.accept(),
        _ => Err(unknown()),
    });
    let made = accepted.and_then(|(stream, _)| {
        stream.set_nonblocking(true)?;
        Ok(keep(stream.as_raw_fd(), Thing::Stream(stream)))
    });
    put(env, made)
}
