//! One connection: made, spoken over, and made again after a wait when it is lost. A future on the loop.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use evloop::net::{TcpStream, UnixStream};
use evloop::{sleep, timeout};
use futures_io::{AsyncRead, AsyncWrite};

use super::Error;
use super::client::Shared;
use super::command::Command;
use super::config::{Address, Config, Protocol};
use super::parser::Parser;
use super::value::Value;
use crate::lock;

/// How often a connection is read before others get their turn.
const READS: u32 = 16;

trait Stream: AsyncRead + AsyncWrite + Unpin {}

impl<T: AsyncRead + AsyncWrite + Unpin> Stream for T {}

/// A connection and what has been read from it.
struct Wire {
    stream: Box<dyn Stream>,
    parser: Parser,
    /// What is being written, and how much of it has been.
    writing: Vec<u8>,
    written: usize,
    /// What has been read and is to be handed out.
    replies: Vec<Value>,
    /// Whether the server has said anything.
    heard: bool,
}

/// However it ends, with its loop too, nobody waits in vain.
struct Driving {
    shared: Arc<Shared>,
    index: usize,
}

impl Drop for Driving {
    fn drop(&mut self) {
        self.shared.close(Some(self.index));
    }
}

pub(super) async fn drive(shared: Arc<Shared>, index: usize) {
    let driving = Driving { shared, index };
    let shared = &driving.shared;
    let mut backoff = Backoff::new(shared.config.backoff);
    while !lock(&shared.state).closed {
        match within(shared.config.connect_timeout, connect(&shared.config)).await {
            Ok(mut wire) => {
                shared.connected(index);
                let error = poll_fn(|cx| wire.serve(shared, index, cx)).await;
                shared.lost(index, &error);
                // One that lets us in and says nothing is no better than one that does not.
                if wire.heard {
                    backoff.start_over();
                }
            }
            Err(error) => shared.unavailable(&error),
        }
        pause(shared, index, backoff.wait()).await;
    }
}

/// How long to wait before the next attempt to connect: longer each time.
struct Backoff {
    first: Duration,
    longest: Duration,
    next: Duration,
}

impl Backoff {
    fn new((first, longest): (Duration, Duration)) -> Backoff {
        Backoff { first, longest, next: first.min(longest) }
    }

    fn wait(&mut self) -> Duration {
        let doubled = self.next.saturating_mul(2).min(self.longest);
        std::mem::replace(&mut self.next, doubled)
    }

    fn start_over(&mut self) {
        self.next = self.first.min(self.longest);
    }
}

/// Waits, unless the client is closed meanwhile.
async fn pause(shared: &Shared, index: usize, time: Duration) {
    let mut sleep = sleep(time);
    poll_fn(|cx| {
        let mut state = lock(&shared.state);
        if state.closed {
            return Poll::Ready(());
        }
        if let Some(link) = state.links.get_mut(index) {
            link.waker = Some(cx.waker().clone());
        }
        drop(state);
        Pin::new(&mut sleep).poll(cx).map(drop)
    })
    .await;
}

async fn within<T>(time: Duration, future: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    match timeout(time, future).await {
        Ok(Ok(result)) => result,
        Ok(Err(_)) => Err(Error::Unavailable(format!("no connection within {time:?}").into())),
        Err(error) => Err(Error::Unavailable(error.to_string().into())),
    }
}

fn unavailable(error: &std::io::Error) -> Error {
    Error::Unavailable(error.to_string().into())
}

/// A connection on which the protocol is agreed.
async fn connect(config: &Config) -> Result<Wire, Error> {
    let stream: Box<dyn Stream> = match &config.address {
        Address::Tcp(address) => {
            let stream = TcpStream::connect(*address).await.map_err(|error| unavailable(&error))?;
            stream.set_nodelay(true).map_err(|error| unavailable(&error))?;
            Box::new(stream)
        }
        Address::Unix(path) => {
            Box::new(UnixStream::connect(path).await.map_err(|error| unavailable(&error))?)
        }
    };
    let mut wire = Wire {
        stream,
        parser: Parser::default(),
        writing: Vec::new(),
        written: 0,
        replies: Vec::new(),
        heard: false,
    };
    let auth = |command: Command, (user, password): &(String, String)| command.arg(user).arg(password);
    let greeting = match (config.protocol, &config.auth) {
        (Protocol::Resp3, None) => Some(Command::new("HELLO").arg("3")),
        (Protocol::Resp3, Some(who)) => Some(auth(Command::new("HELLO").arg("3").arg("AUTH"), who)),
        (Protocol::Resp2, Some(who)) => Some(auth(Command::new("AUTH"), who)),
        (Protocol::Resp2, None) => None,
    };
    if let Some(greeting) = greeting {
        greeting.write(&mut wire.writing);
        match poll_fn(|cx| wire.ask(cx)).await? {
            Value::Error(error) => return Err(Error::Unavailable(error.into())),
            _ => return Ok(wire),
        }
    }
    Ok(wire)
}

/// What has happened to a connection.
fn lost(error: &std::io::Error) -> Error {
    Error::Lost(error.to_string().into())
}

impl Wire {
    /// Writes what is there to be written.
    fn write(&mut self, cx: &mut Context<'_>) -> Result<bool, Error> {
        while let Some(rest) = self.writing.get(self.written..).filter(|rest| !rest.is_empty()) {
            match Pin::new(&mut self.stream).poll_write(cx, rest) {
                Poll::Ready(Ok(bytes)) => self.written += bytes,
                Poll::Ready(Err(error)) => return Err(lost(&error)),
                Poll::Pending => return Ok(false),
            }
        }
        self.writing.clear();
        self.written = 0;
        Ok(true)
    }

    /// Reads what is there to be read; whether there was something.
    fn read(&mut self, cx: &mut Context<'_>) -> Result<bool, Error> {
        match Pin::new(&mut self.stream).poll_read(cx, self.parser.space()) {
            Poll::Pending => Ok(false),
            Poll::Ready(Ok(0)) => Err(Error::Lost("the server closed it".into())),
            Poll::Ready(Ok(bytes)) => {
                self.parser.filled(bytes);
                self.heard = true;
                Ok(true)
            }
            Poll::Ready(Err(error)) => Err(lost(&error)),
        }
    }

    /// Sends what is there to be written, and takes one reply.
    fn ask(&mut self, cx: &mut Context<'_>) -> Poll<Result<Value, Error>> {
        loop {
            match self.parser.reply() {
                Ok(Some(reply)) => return Poll::Ready(Ok(reply)),
                Ok(None) => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
            let moved = self.write(cx).and_then(|_| self.read(cx));
            match moved {
                Ok(true) => {}
                Ok(false) => return Poll::Pending,
                Err(Error::Lost(error)) => return Poll::Ready(Err(Error::Unavailable(error))),
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }

    /// Sends commands and takes replies until the connection is lost.
    fn serve(&mut self, shared: &Shared, index: usize, cx: &mut Context<'_>) -> Poll<Error> {
        let Err(error) = self.turn(shared, index, cx) else { return Poll::Pending };
        // What was read is there, whatever has become of the connection.
        while !self.replies.is_empty() && shared.replies(index, &mut self.replies).is_ok() {}
        Poll::Ready(match error {
            Error::Protocol(_) => Error::Lost(error.to_string().into()),
            error => error,
        })
    }

    fn turn(&mut self, shared: &Shared, index: usize, cx: &mut Context<'_>) -> Result<(), Error> {
        if !self.replies.is_empty() {
            self.send(shared, index, cx)?;
            shared.replies(index, &mut self.replies)?;
        }
        for _ in 0..READS {
            if !self.replies.is_empty() {
                break;
            }
            let more = self.read(cx)?;
            while let Some(reply) = self.parser.reply()? {
                self.replies.push(reply);
            }
            if !self.replies.is_empty() {
                shared.replies(index, &mut self.replies)?;
            }
            if !more {
                return self.send(shared, index, cx);
            }
        }
        self.send(shared, index, cx)?;
        // Behind those who were told.
        cx.waker().wake_by_ref();
        Ok(())
    }

    /// Writes until everything is written or the kernel has enough.
    fn send(&mut self, shared: &Shared, index: usize, cx: &mut Context<'_>) -> Result<(), Error> {
        loop {
            let mut state = lock(&shared.state);
            if state.closed {
                return Err(Error::Closed);
            }
            if shared.is_given_up(&state, index) {
                return Err(Error::Lost("too many replies that nobody waits for are outstanding".into()));
            }
            let Some(link) = state.links.get_mut(index) else { return Ok(()) };
            link.waker = Some(cx.waker().clone());
            if self.writing.is_empty() {
                if link.out.is_empty() {
                    return Ok(());
                }
                std::mem::swap(&mut self.writing, &mut link.out);
            }
            drop(state);
            if !self.write(cx)? {
                return Ok(());
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_longest_and_start_over_when_told() {
        let millis = Duration::from_millis;
        let mut backoff = Backoff::new((millis(10), millis(70)));
        let waits = |backoff: &mut Backoff| [(); 5].map(|()| backoff.wait().as_millis());
        assert_eq!(waits(&mut backoff), [10, 20, 40, 70, 70]);
        backoff.start_over();
        assert_eq!(waits(&mut backoff), [10, 20, 40, 70, 70]);
        assert_eq!(Backoff::new((millis(9), millis(5))).wait(), millis(5));
    }
}
