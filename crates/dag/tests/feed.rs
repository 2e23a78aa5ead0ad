//! The feed of the example: it is the same however its commands are asked.
#![allow(clippy::unwrap_used)]

#[path = "../examples/feed/blocking.rs"]
mod blocking;
#[path = "../examples/feed/data.rs"]
#[allow(dead_code, reason = "what the example says of it")]
mod data;
#[path = "../examples/feed/plan.rs"]
mod plan;

use std::sync::Arc;

use dag::redis::{Client, Config};
use dag::{Pool, PoolConfig, Scheduler};
use evloop::EventLoop;

#[test]
fn the_graph_its_blocking_twin_and_a_thread_that_does_it_all_make_the_same_feed() {
    let server = data::Server::start(&std::env::temp_dir()).unwrap();
    data::load(&server).unwrap();
    let events = EventLoop::new();
    events.start(evloop::Config::default()).unwrap();
    let scheduler =
        |threads| Scheduler::new(Pool::new(PoolConfig::threads(threads)).unwrap(), events.clone());
    let client = Client::new(&events, Config::new(server.address())).unwrap();
    let (on_loop, on_pool) = (scheduler(2), scheduler(8));
    let graph = Arc::new(plan::graph(&plan::OnLoop(client)).compile().unwrap());
    let twin = Arc::new(plan::graph(&blocking::OnPool(server.socket().clone())).compile().unwrap());
    let threads = blocking::Threads::start(&server, 1).unwrap();
    let mut feeds = Vec::new();
    for viewer in [0, 1, data::VIEWERS / 2, data::VIEWERS - 1] {
        let feed = threads.request(viewer).unwrap();
        assert_eq!(feed.len(), data::TAKEN);
        assert!(feed.is_sorted_by(|one, next| one.score >= next.score), "{feed:?}");
        assert!(feed.iter().all(|item| !item.blocked));
        assert_eq!(plan::request(&on_loop, &graph, viewer).unwrap(), feed);
        assert_eq!(plan::request(&on_pool, &twin, viewer).unwrap(), feed);
        feeds.push(feed);
    }
    feeds.dedup();
    assert!(feeds.len() > 1, "all viewers see the same");
}
