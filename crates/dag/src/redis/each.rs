//! A map over Redis commands, without a future for each: a lane is handed the reply to its command, and sends the next.

use std::sync::{Arc, Mutex};

use slotmap::Key;

use super::Error;
use super::client::{Client, RequestKey};
use super::command::Command;
use super::listener::Receive;
use super::value::Value;
use crate::error::BoxError;
use crate::lock;
use crate::map::{Each, Lane, MapRun};
use crate::run::contained;

type Make<V> = Box<dyn Fn(V) -> Result<Command, BoxError> + Send + Sync>;
type Read<V> = Box<dyn Fn(Value) -> Result<V, BoxError> + Send + Sync>;

/// What is asked for each item.
pub(crate) struct Asks<V> {
    client: Client,
    make: Make<V>,
    read: Read<V>,
}

/// For [`Graph::map`](crate::Graph::map): `make` says which command an item calls for, `read` what its reply means. Both
/// run wherever that is known first, the pool or the client's loop. The time of a command is the client's.
pub fn each<V, M, R, A, B>(client: &Client, make: M, read: R) -> Each<V>
where
    V: 'static,
    M: Fn(V) -> Result<Command, A> + Send + Sync + 'static,
    R: Fn(Value) -> Result<V, B> + Send + Sync + 'static,
    A: Into<BoxError> + 'static,
    B: Into<BoxError> + 'static,
{
    if client.has_timeout() {
        let (client, calls) = (client.clone(), Arc::new((make, read)));
        return Each::task(move |item| {
            let (client, calls) = (client.clone(), calls.clone());
            async move {
                let reply = client.call(calls.0(item).map_err(Into::into)?).await?;
                calls.1(reply).map_err(Into::<BoxError>::into)
            }
        });
    }
    Each::asks(Asks {
        client: client.clone(),
        make: Box::new(move |item| make(item).map_err(Into::into)),
        read: Box::new(move |reply| read(reply).map_err(Into::into)),
    })
}

/// The commands of one map in flight, by lane. The key of one that was answered finds nothing.
#[derive(Default)]
pub(crate) struct Asked(Mutex<Vec<RequestKey>>);

/// A lane: owned by the client while its command is in flight.
struct Asking<V: Clone + Send + Sync + 'static> {
    lane: Lane<V>,
    number: usize,
    /// The item that was asked about.
    place: usize,
}

impl<V: Clone + Send + Sync + 'static> Asking<V> {
    /// The command for the next item. Without one the lane is through.
    fn next(mut self: Box<Self>, asks: &Asks<V>) -> Option<(Command, Box<dyn Receive>)> {
        loop {
            let (place, item) = self.lane.0.take()?;
            match contained(|| (asks.make)(item.clone())) {
                Ok(command) => {
                    self.place = place;
                    return Some((command, self));
                }
                Err(error) => self.lane.0.put(place, Err(error)),
            }
        }
    }
}

impl<V: Clone + Send + Sync + 'static> Receive for Asking<V> {
    fn replied(self: Box<Self>, result: Result<Value, Error>) {
        let (map, number) = (self.lane.0.clone(), self.number);
        let Some(asks) = map.asks() else { return };
        map.put(self.place, contained(|| (asks.read)(result?)));
        let Some((command, receiver)) = self.next(asks) else { return };
        let key = asks.client.send(command, receiver);
        if let Some(asked) = lock(&map.asked.0).get_mut(number) {
            *asked = key;
        }
        if map.is_stopped() {
            asks.client.give_up(&[key]);
        }
    }
}

impl<V: Clone + Send + Sync + 'static> MapRun<V> {
    /// Sends the first command of each lane, all at once.
    pub(crate) fn ask(self: &Arc<Self>, asks: &Asks<V>, lanes: usize) {
        *lock(&self.asked.0) = vec![RequestKey::null(); lanes];
        let lane = |number| Box::new(Asking { lane: Lane(self.clone()), number, place: 0 });
        let first: Vec<_> = (0..lanes)
            .filter_map(|number| lane(number).next(asks).map(|(command, lane)| (number, command, lane)))
            .collect();
        let keys = asks.client.send_all(first);
        let mut asked = lock(&self.asked.0);
        for (number, key) in keys {
            // Unless the lane is further already.
            if let Some(asked) = asked.get_mut(number).filter(|asked| asked.is_null()) {
                *asked = key;
            }
        }
        drop(asked);
        if self.is_stopped() {
            self.give_up(asks);
        }
    }

    /// Gives up what is in flight.
    pub(crate) fn give_up(&self, asks: &Asks<V>) {
        let asked = std::mem::take(&mut *lock(&self.asked.0));
        asks.client.give_up(&asked);
    }
}
