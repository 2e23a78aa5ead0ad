//! Who hears of a reply: a future that is woken, or somebody who is handed it. Told when the client's lock is free.

use std::task::Waker;

use super::Error;
use super::value::Value;

/// What is handed a reply. Dropped without one, it was given up.
pub(crate) trait Receive: Send {
    fn replied(self: Box<Self>, result: Result<Value, Error>);
}

#[derive(Default)]
pub(super) enum Listener {
    #[default]
    Nobody,
    Task(Waker),
    Receiver(Box<dyn Receive>),
}

/// What is to be told.
#[derive(Default)]
pub(super) struct Told {
    wakers: Vec<Waker>,
    replies: Vec<(Box<dyn Receive>, Result<Value, Error>)>,
    given_up: Vec<Box<dyn Receive>>,
}

impl Told {
    pub(super) fn wake(&mut self, waker: Option<Waker>) {
        self.wakers.extend(waker);
    }

    pub(super) fn hand(&mut self, receiver: Box<dyn Receive>, result: Result<Value, Error>) {
        self.replies.push((receiver, result));
    }

    /// Nobody waits for this reply any more.
    pub(super) fn give_up(&mut self, listener: Listener) {
        if let Listener::Receiver(receiver) = listener {
            self.given_up.push(receiver);
        }
    }

    /// Tells. What that leads to may come back to the client.
    pub(super) fn tell(self) {
        self.wakers.into_iter().for_each(Waker::wake);
        for (receiver, result) in self.replies {
            receiver.replied(result);
        }
    }
}
