//! The Redis of the example, and what is in it.

use std::error::Error;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use dag::redis::{Address, Command, Parser, Value};

pub(crate) const VIEWERS: i64 = 50;
const USERS: i64 = 400;
const FOLLOWS: i64 = 20;
const RECOMMENDED: i64 = 30;
const MEDIA: i64 = 5;
/// How long a feed is.
pub(crate) const TAKEN: usize = 20;
/// How many commands a request takes.
#[allow(dead_code, reason = "the benchmark, which has this file too, does not say it")]
pub(crate) const COMMANDS: i64 = 2 + (FOLLOWS + RECOMMENDED) * (1 + MEDIA);

/// Where it listens.
#[derive(Clone)]
pub(crate) struct Socket(PathBuf);

impl Socket {
    pub(crate) fn connect(&self) -> Result<Connection, Box<dyn Error>> {
        Ok(Connection { stream: UnixStream::connect(&self.0)?, parser: Parser::default() })
    }
}

/// A redis-server of the example's own.
pub(crate) struct Server {
    child: Child,
    socket: Socket,
}

impl Server {
    pub(crate) fn start(directory: &Path) -> Result<Server, Box<dyn Error>> {
        let socket = std::env::temp_dir().join(format!("feed-{}.sock", std::process::id()));
        let path = socket.display().to_string();
        let child = std::process::Command::new("redis-server")
            .args(["--port", "0", "--unixsocket", &path, "--save", "", "--dir"])
            .arg(directory)
            .stdout(Stdio::null())
            .spawn()
            .map_err(|error| format!("redis-server: {error}; make setup installs it"))?;
        let server = Server { child, socket: Socket(socket) };
        let deadline = Instant::now() + Duration::from_secs(30);
        while server.socket.connect().is_err() {
            if Instant::now() > deadline {
                return Err("redis-server does not listen".into());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(server)
    }

    pub(crate) fn address(&self) -> Address {
        Address::Unix(self.socket.0.clone())
    }

    pub(crate) fn socket(&self) -> &Socket {
        &self.socket
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_file(&self.socket.0);
    }
}

/// A connection that blocks.
pub(crate) struct Connection {
    stream: UnixStream,
    parser: Parser,
}

impl Connection {
    /// Sends commands at once and waits for all of their replies.
    pub(crate) fn ask(&mut self, commands: &[Command]) -> Result<Vec<Value>, Box<dyn Error>> {
        let mut out = Vec::new();
        commands.iter().for_each(|command| command.write(&mut out));
        self.stream.write_all(&out)?;
        let mut replies = Vec::with_capacity(commands.len());
        while replies.len() < commands.len() {
            match self.parser.reply()? {
                Some(reply) => replies.push(reply),
                None => {
                    let bytes = self.stream.read(self.parser.space())?;
                    if bytes == 0 {
                        return Err("the server is gone".into());
                    }
                    self.parser.filled(bytes);
                }
            }
        }
        Ok(replies)
    }
}

/// Loads the data, always the same; how many keys there are.
pub(crate) fn load(server: &Server) -> Result<usize, Box<dyn Error>> {
    let mut commands = Vec::new();
    let mut list = |key: String, items: &mut dyn Iterator<Item = i64>| {
        commands.push(items.fold(Command::new("RPUSH").arg(key), Command::int));
    };
    for viewer in 0..VIEWERS {
        list(format!("follow:{viewer}"), &mut (0..FOLLOWS).map(|i| (viewer * 31 + i * 7) % USERS));
        list(
            format!("recommend:{viewer}"),
            &mut (0..RECOMMENDED).map(|i| (viewer * 17 + i * 11 + 3) % USERS),
        );
    }
    for user in 0..USERS {
        list(format!("media:{user}"), &mut (0..MEDIA).map(|i| user * MEDIA + i));
    }
    for media in 0..USERS * MEDIA {
        let likes = media * 7919 % 1_000;
        let blocked = i64::from(media % 13 == 0);
        commands.push(
            Command::new("HSET")
                .arg(format!("meta:{media}"))
                .arg("likes")
                .int(likes)
                .arg("blocked")
                .int(blocked),
        );
    }
    let replies = server.socket().connect()?.ask(&commands)?;
    match replies.iter().find(|reply| matches!(reply, Value::Error(_))) {
        Some(error) => Err(format!("{error:?}").into()),
        None => Ok(replies.len()),
    }
}
