//! A tour of the event loop: everything it does, shown live, each step with what came of it. Ends by itself.

use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use evloop::net::{TcpListener, TcpStream};
use evloop::{Config, EventLoop, Local, os, sleep, timeout};
use futures_lite::future::block_on;
use futures_lite::io::{AsyncReadExt, AsyncWriteExt, copy, split};

type Tour = Result<(), Box<dyn Error>>;

fn main() -> Tour {
    // Panics of the tour are on purpose, and reported by the loop.
    std::panic::set_hook(Box::new(|_| ()));
    let events = EventLoop::new();
    step("start");
    let early = events.post(|| println!("never printed")).err().map(|rejected| rejected.to_string());
    show(&format!("a post before the start comes back: {}", early.unwrap_or_default()));
    events.start(Config::named("tour"))?;
    show(&format!("the loop is {:?}, on a thread of its own", events.state()));
    posts(&events)?;
    timers(&events)?;
    futures(&events)?;
    echo(&events)?;
    panics(&events)?;
    idle(&events);
    stop(&events)
}

fn posts(events: &EventLoop) -> Tour {
    step("100 000 posts from each of four threads");
    let sum = Arc::new(AtomicU64::new(0));
    let began = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for i in 0..100_000 {
                    let sum = sum.clone();
                    let add = move || {
                        sum.fetch_add(i, Ordering::Relaxed);
                    };
                    if let Err(rejected) = events.post(add) {
                        show(&rejected.to_string());
                    }
                }
            });
        }
    });
    block_on(events.spawn(async {})?)?;
    let (took, stats) = (began.elapsed(), events.stats());
    let rate = stats.executed as f64 / took.as_secs_f64() / 1e6;
    show(&format!("{} run, sum {}, {rate:.1} million a second", stats.executed, sum.load(Ordering::Relaxed)));
    show(&format!("woken {} times: a loop that is awake needs no wake-up", stats.wakeups));
    Ok(())
}

fn timers(events: &EventLoop) -> Tour {
    step("timers: a million made, all but ten cancelled");
    let made = events.spawn_with(|| async {
        let local = Local::current()?;
        let began = Instant::now();
        let mut kept = Vec::new();
        for i in 0..1_000_000u64 {
            let due = os::now() + 10_000_000 + i;
            let timer = local.call_at(due, || ())?;
            if i % 100_000 == 0 {
                kept.push(due);
            } else {
                local.cancel(timer)?;
            }
        }
        let each = began.elapsed().as_nanos() / 1_000_000;
        sleep(Duration::from_millis(15)).await?;
        Ok::<_, evloop::Error>((each, kept.len()))
    })?;
    let (each, kept) = block_on(made)??;
    show(&format!("{each} ns for each create and cancel; {kept} fired"));
    let late = events.spawn_with(|| async {
        let due = os::now() + 1_000_000;
        sleep(Duration::from_millis(1)).await?;
        Ok::<_, evloop::Error>((os::now() - due) / 1000)
    })?;
    show(&format!("a sleep of 1 ms ended {} µs after it was due, never before", block_on(late)??));
    Ok(())
}

fn futures(events: &EventLoop) -> Tour {
    step("futures: 1 000 sleeps of 20 ms at once");
    let began = Instant::now();
    let tasks: Result<Vec<_>, _> =
        (0..1000).map(|_| events.spawn(sleep(Duration::from_millis(20)))).collect();
    for task in tasks? {
        block_on(task)??;
    }
    show(&format!("all done after {} ms, on one thread", began.elapsed().as_millis()));
    let late = block_on(events.spawn(timeout(Duration::from_millis(5), std::future::pending::<()>()))?)??;
    show(&format!(
        "a future that never ends, with a timeout of 5 ms: {}",
        late.err().map_or_else(String::new, |e| e.to_string())
    ));
    Ok(())
}

async fn serve(mut listener: TcpListener) -> std::io::Result<()> {
    let mut stream = listener.accept().await?;
    let (reader, mut writer) = split(&mut stream);
    copy(reader, &mut writer).await?;
    writer.close().await
}

fn echo(events: &EventLoop) -> Tour {
    step("a TCP echo over loopback");
    let echoed = events.spawn_with(|| async {
        let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0)))?;
        let address = listener.local_addr()?;
        let server = Local::current()?.spawn(serve(listener)).map_err(evloop::Error::from)?;
        let mut stream = TcpStream::connect(address).await?;
        let began = Instant::now();
        let mut answer = [0; 1024];
        for _ in 0..10_000 {
            stream.write_all(&[7; 1024]).await?;
            stream.read_exact(&mut answer).await?;
        }
        let took = began.elapsed();
        stream.close().await?;
        server.await.map_err(std::io::Error::other)??;
        Ok::<_, std::io::Error>((address, took))
    })?;
    let (address, took) = block_on(echoed)??;
    show(&format!("10 000 round trips of 1 KiB at {address}: {:.1} µs each", took.as_secs_f64() * 100.0));
    Ok(())
}

#[allow(clippy::panic, reason = "the tour shows what becomes of one")]
fn panics(events: &EventLoop) -> Tour {
    step("a panic in a callback and one in a future");
    events.post(|| panic!("on purpose"))?;
    let failed = block_on(events.spawn(async { panic!("on purpose, too") })?);
    let text = failed.err().map_or_else(String::new, |error: evloop::JoinError| error.to_string());
    show(&format!("whoever waited is told: {text}"));
    show(&format!("{} contained, and the loop is {:?}", events.stats().panics, events.state()));
    Ok(())
}

fn idle(events: &EventLoop) {
    step("a second of nothing, with a timer an hour away");
    let far = events.call_later(Duration::from_secs(3600), || ());
    std::thread::sleep(Duration::from_millis(20));
    let before = events.stats().wakeups;
    std::thread::sleep(Duration::from_secs(1));
    show(&format!(
        "{} wake-ups; the timer is {}",
        events.stats().wakeups - before,
        if far.is_ok() { "still there" } else { "lost" }
    ));
}

fn stop(events: &EventLoop) -> Tour {
    step("stop");
    let report = events.stop().report().ok_or("the loop is still draining")?;
    show(&format!("accepted {}, executed {}", report.accepted, report.executed));
    show(&format!(
        "dropped: {} timers, {} futures; panics contained: {}",
        report.dropped_timers, report.dropped_tasks, report.panics
    ));
    let late = events.post(|| ()).err().map(|rejected| rejected.to_string());
    show(&format!("a post after the stop comes back: {}", late.unwrap_or_default()));
    if report.accepted == report.executed { Ok(()) } else { Err("accepted and executed differ".into()) }
}

fn step(what: &str) {
    println!("\n\u{25b8} {what}");
}

fn show(what: &str) {
    println!("    {what}");
}
