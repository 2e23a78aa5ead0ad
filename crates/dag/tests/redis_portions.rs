//! Replies that come all at once are handed out in portions, so that the server works meanwhile.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

mod common;

use std::future::Future;
use std::sync::mpsc;
use std::time::Duration;

use common::redis::{bytes, events, get, on_loop, plain};
use common::servers::{Peer, listen};
use dag::redis::{Client, Error};
use evloop::EventLoop;

/// So many at once are handed out in portions.
const MANY: usize = 100;
/// What never comes fails a test instead of hanging it.
const NEVER: Duration = Duration::from_secs(60);

fn commands(peer: &mut Peer) -> Vec<String> {
    (0..MANY).map(|_| peer.command().unwrap()).collect()
}

/// Runs so many tasks on the loop and waits for all of them.
fn each<F: Future<Output = ()> + Send + 'static>(events: &EventLoop, task: impl FnMut(usize) -> F) {
    let tasks: Vec<_> = (0..MANY).map(task).map(|task| events.spawn(task).unwrap()).collect();
    on_loop(events, async move {
        for task in tasks {
            task.await.unwrap();
        }
    });
}

#[test]
fn the_server_has_work_again_before_the_last_reply_is_handed_out() {
    let (tx, has_work) = mpsc::channel();
    let (address, _served) = listen(move |mut peer| {
        let first = commands(&mut peer);
        peer.answer_all(&first);
        while let Some(command) = peer.command() {
            let _ = tx.send(());
            peer.answer(&command);
        }
    });
    let events = events();
    let client = Client::new(&events, plain(address)).unwrap();
    let mut has_work = Some(has_work);
    each(&events, |i| {
        let client = client.clone();
        let last = if i == MANY - 1 { has_work.take() } else { None };
        async move {
            assert_eq!(client.call(get(&i.to_string())).await, Ok(bytes(&i.to_string())));
            if let Some(has_work) = last {
                // The loop stands still: what the others ask next is on its way, or will never be.
                has_work.recv_timeout(NEVER).unwrap();
            }
            assert_eq!(client.call(get("next")).await, Ok(bytes("next")));
        }
    });
    assert_eq!(client.counters().most_in_flight, MANY);
    assert_eq!((client.counters().in_flight, client.counters().waiting), (0, 0));
}

#[test]
fn what_was_read_is_handed_out_though_the_connection_is_lost_meanwhile() {
    let (tx, is_gone) = mpsc::channel();
    let (address, _served) = listen(move |mut peer| {
        let first = commands(&mut peer);
        peer.answer_all(&first);
        peer.reset();
        let _ = tx.send(());
    });
    let events = events();
    let client = Client::new(&events, plain(address)).unwrap();
    let mut is_gone = Some(is_gone);
    each(&events, |i| {
        let (client, first) = (client.clone(), is_gone.take());
        async move {
            assert_eq!(client.call(get(&i.to_string())).await, Ok(bytes(&i.to_string())));
            if let Some(is_gone) = first {
                is_gone.recv_timeout(NEVER).unwrap();
                assert!(matches!(client.call(get("next")).await, Err(Error::Lost(_))));
            }
        }
    });
}
