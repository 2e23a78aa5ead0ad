//! Servers for the tests of the Redis client: a real one, and one that does as it is told.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used, clippy::panic)]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;

use dag::redis::{Address, Parser};

/// A redis-server with a Unix socket in a directory of its own.
pub struct Server {
    child: Child,
    directory: PathBuf,
}

impl Server {
    pub fn start() -> Server {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let directory = std::env::temp_dir().join(format!("dag-redis-{}-{number}", std::process::id()));
        std::fs::create_dir(&directory).unwrap();
        let child = Command::new("redis-server")
            .args(["--port", "0", "--unixsocket", "redis.sock", "--save", "", "--maxclients", "100"])
            .current_dir(&directory)
            .stdout(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("redis-server: {error}; make setup installs it"));
        let server = Server { child, directory };
        super::eventually("redis-server listens", || {
            std::os::unix::net::UnixStream::connect(server.path()).is_ok()
        });
        server
    }

    fn path(&self) -> PathBuf {
        self.directory.join("redis.sock")
    }

    pub fn address(&self) -> Address {
        Address::Unix(self.path())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// A connection of a client to the server that does as it is told, in a thread of the test.
pub struct Peer {
    stream: TcpStream,
    parser: Parser,
}

impl Peer {
    /// The last argument of the next command; `None` when the client has closed.
    pub fn command(&mut self) -> Option<String> {
        loop {
            if let Some(command) = self.parser.reply().unwrap() {
                let items = command.items().unwrap();
                return Some(String::from_utf8(items.last().unwrap().bytes().unwrap().to_vec()).unwrap());
            }
            match self.stream.read(self.parser.space()) {
                Ok(0) | Err(_) => return None,
                Ok(bytes) => self.parser.filled(bytes),
            }
        }
    }

    /// Whether a command is there without waiting for it. If so, it is lost.
    pub fn has_command(&mut self) -> bool {
        if self.parser.reply().unwrap().is_some() {
            return true;
        }
        self.stream.set_nonblocking(true).unwrap();
        let read = self.stream.peek(&mut [0]);
        self.stream.set_nonblocking(false).unwrap();
        read.is_ok_and(|bytes| bytes > 0)
    }

    /// Answers with these texts, all at once.
    pub fn answer_all(&mut self, texts: &[String]) {
        let answers: String = texts.iter().map(|text| format!("${}\r\n{text}\r\n", text.len())).collect();
        self.stream.write_all(answers.as_bytes()).unwrap();
    }

    /// Closes so that the client's next system call fails, be it a write.
    pub fn reset(self) {
        rustix::net::sockopt::set_socket_linger(&self.stream, Some(std::time::Duration::ZERO)).unwrap();
    }

    /// Answers with this text; a client that is gone does not mind.
    pub fn answer(&mut self, text: &str) {
        let _ = self.stream.write_all(format!("${}\r\n{text}\r\n", text.len()).as_bytes());
    }
}

/// Listens, and gives each connection to `serve`; what that returns is sent to the test.
pub fn listen<T: Send + 'static>(
    mut serve: impl FnMut(Peer) -> T + Send + 'static,
) -> (SocketAddr, mpsc::Receiver<T>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (tx, rx) = mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let peer = Peer { stream: stream.unwrap(), parser: Parser::default() };
            if tx.send(serve(peer)).is_err() {
                return;
            }
        }
    });
    (address, rx)
}
