//! GETs of a short value from a redis-server of this process's own, so many in flight: commands a second. Ours and
//! redis-rs have one connection and one thread; the pool has a thread and a connection for each of eight.

use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use dag::redis as ours;
use evloop::EventLoop;

use crate::params::Params;
use crate::report::{Outcome, Report, cpu_time};

const VALUE: &str = "sixteen bytes...";
const THREADS: usize = 8;

/// A redis-server with a Unix socket in a directory of its own.
struct Server {
    child: Child,
    directory: std::path::PathBuf,
}

impl Server {
    fn start() -> Result<Server, String> {
        let directory = std::env::temp_dir().join(format!("bench-dag-{}", std::process::id()));
        std::fs::create_dir(&directory).map_err(|error| error.to_string())?;
        let child = Command::new("redis-server")
            .args(["--port", "0", "--unixsocket", "redis.sock", "--save", ""])
            .current_dir(&directory)
            .stdout(Stdio::null())
            .spawn()
            .map_err(|error| format!("redis-server: {error}"))?;
        let server = Server { child, directory };
        let deadline = Instant::now() + Duration::from_secs(30);
        while std::os::unix::net::UnixStream::connect(server.path()).is_err() {
            if Instant::now() > deadline {
                return Err("redis-server does not listen".to_owned());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let mut connection = server.client().get_connection().map_err(|error| error.to_string())?;
        redis::cmd("SET").arg("key").arg(VALUE).exec(&mut connection).map_err(|error| error.to_string())?;
        Ok(server)
    }

    fn path(&self) -> std::path::PathBuf {
        self.directory.join("redis.sock")
    }

    fn client(&self) -> redis::Client {
        redis::Client::open(format!("unix://{}", self.path().display())).unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

pub(crate) fn run(arm: &str, params: &mut Params) -> Outcome {
    let in_flight = params.take("in_flight", 100_usize)?;
    let commands = params.take("commands", 200_000_usize)?;
    params.finish()?;
    let server = Server::start()?;
    let measure = match arm {
        "dag" => with_dag,
        "redis-rs" => with_redis_rs,
        "pool" => with_pool,
        other => return Err(format!("no such arm: {other}")),
    };
    let cpu = cpu_time();
    let taken = measure(&server, in_flight, commands);
    let cpu = cpu_time() - cpu;
    Ok(Report {
        topic: "redis",
        row: format!("{in_flight} in flight"),
        arm: arm.to_owned(),
        value: commands as f64 / taken.as_secs_f64(),
        unit: "commands/s",
        cpu_seconds: cpu.as_secs_f64(),
        also: vec![("cpu_us", cpu.as_secs_f64() * 1e6 / commands as f64)],
    })
}

/// Gives out so many commands.
struct Budget(AtomicUsize);

impl Budget {
    fn leak(commands: usize) -> &'static Budget {
        Box::leak(Box::new(Budget(AtomicUsize::new(commands))))
    }

    fn take(&self) -> bool {
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
    }
}

fn with_dag(server: &Server, in_flight: usize, commands: usize) -> Duration {
    let events = EventLoop::new();
    events.start(evloop::Config::named("io")).unwrap();
    let mut config = ours::Config::new(ours::Address::Unix(server.path()));
    config.in_flight = in_flight;
    let client = ours::Client::new(&events, config).unwrap();
    let budget = Budget::leak(commands);
    let (tx, rx) = mpsc::channel();
    let begin = async move {
        client.call(ours::Command::new("PING")).await.unwrap();
        let start = Instant::now();
        let workers: Vec<_> = (0..in_flight)
            .map(|_| {
                let client = client.clone();
                let work = async move {
                    while budget.take() {
                        let reply = client.call(ours::Command::new("GET").arg("key")).await.unwrap();
                        assert_eq!(reply.bytes(), Some(VALUE.as_bytes()));
                    }
                };
                evloop::Local::current().unwrap().spawn(work).unwrap()
            })
            .collect();
        for worker in workers {
            worker.await.unwrap();
        }
        tx.send(start.elapsed()).unwrap();
    };
    events.spawn_with(move || begin).unwrap();
    rx.recv().unwrap()
}

fn with_redis_rs(server: &Server, in_flight: usize, commands: usize) -> Duration {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let tasks = tokio::task::LocalSet::new();
    let budget = Budget::leak(commands);
    let client = server.client();
    tasks.block_on(&runtime, async move {
        let connection = client.get_multiplexed_async_connection().await.unwrap();
        let start = Instant::now();
        let workers: Vec<_> = (0..in_flight)
            .map(|_| {
                let mut connection = connection.clone();
                tokio::task::spawn_local(async move {
                    while budget.take() {
                        let reply: Vec<u8> =
                            redis::cmd("GET").arg("key").query_async(&mut connection).await.unwrap();
                        assert_eq!(reply, VALUE.as_bytes());
                    }
                })
            })
            .collect();
        for worker in workers {
            worker.await.unwrap();
        }
        start.elapsed()
    })
}

fn with_pool(server: &Server, in_flight: usize, commands: usize) -> Duration {
    let budget = Budget::leak(commands);
    let connections: Vec<_> =
        (0..THREADS.min(in_flight)).map(|_| server.client().get_connection().unwrap()).collect();
    let start = Instant::now();
    let threads: Vec<_> = connections
        .into_iter()
        .map(|mut connection| {
            std::thread::spawn(move || {
                while budget.take() {
                    let reply: Vec<u8> = redis::cmd("GET").arg("key").query(&mut connection).unwrap();
                    assert_eq!(reply, VALUE.as_bytes());
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    start.elapsed()
}
