//! Work that is handed to somebody else, who answers from any thread, later, at once, or never.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

mod common;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};

use common::{LONG, SHORT, eventually, plan, scheduler};
use dag::{GiveUp, Graph, Limit, Mode, Reply, RunError, RunOptions};

type Work = (Vec<u64>, Reply<u64>);

fn nothing() -> GiveUp {
    Box::new(|| ())
}

/// Adds a node whose work is sent away.
fn sent<'g>(
    graph: &'g mut Graph<u64>,
    name: &str,
    to: &mpsc::Sender<Work>,
    given_up: &Arc<AtomicUsize>,
) -> dag::NodeBuilder<'g, u64> {
    let (to, given_up) = (Mutex::new(to.clone()), given_up.clone());
    graph.hand(name, move |values, reply| {
        to.lock().unwrap().send((values, reply)).map_err(|_| "nobody takes it")?;
        let given_up = given_up.clone();
        Ok::<GiveUp, &str>(Box::new(move || {
            given_up.fetch_add(1, Ordering::SeqCst);
        }))
    })
}

#[test]
fn what_comes_next_begins_where_the_answer_was_given() {
    let scheduler = scheduler(1);
    let (tx, rx) = mpsc::channel();
    let mut graph = Graph::new();
    graph.input("a");
    let given_up = Arc::default();
    sent(&mut graph, "b", &tx, &given_up).inputs(["a"]);
    let thread = Arc::new(Mutex::new(None));
    let seen = thread.clone();
    graph
        .hand("c", move |values: Vec<u64>, reply| {
            *seen.lock().unwrap() = Some(std::thread::current().id());
            reply.send(Ok(values[0] + 1));
            Ok::<_, String>(nothing())
        })
        .inputs(["b"]);
    graph.cpu("d", |inputs| Ok::<_, String>(inputs.iter().sum())).inputs(["a", "b", "c"]);
    let run = scheduler.start(&plan(graph), RunOptions::default(), vec![("a".into(), 1)]).unwrap();
    let other = std::thread::spawn(move || {
        let (values, reply) = rx.recv().unwrap();
        assert_eq!(values, [1]);
        reply.send(Ok(10));
        std::thread::current().id()
    });
    let outputs = run.wait().unwrap();
    assert_eq!(outputs.get("d").unwrap().unwrap(), &22);
    assert_eq!(*thread.lock().unwrap(), Some(other.join().unwrap()));
    assert_eq!(given_up.load(Ordering::SeqCst), 0);
}

#[test]
fn a_failure_a_refusal_a_panic_and_a_dropped_reply_are_the_node_s() {
    let scheduler = scheduler(1);
    type Hand = fn(Vec<u64>, Reply<u64>) -> Result<GiveUp, String>;
    let cases: [(Hand, &str); 4] = [
        (
            |_, reply| {
                reply.send(Err("no".into()));
                Ok(nothing())
            },
            "no",
        ),
        (|_, _| Err("refused".to_owned()), "refused"),
        (|_, _| panic!("a panic"), "a panic"),
        (
            |_, reply| {
                drop(reply);
                Ok(nothing())
            },
            "nobody answers",
        ),
    ];
    for (hand, text) in cases {
        let mut graph = Graph::new();
        graph.hand("bad", hand);
        graph.cpu("after", |_| Ok::<_, String>(0)).inputs(["bad"]);
        let run = scheduler.start(&plan(graph), RunOptions::default(), vec![]).unwrap();
        let error = run.wait().unwrap_err();
        assert!(matches!(&error, RunError::Node { node, .. } if *node == "bad".into()), "{error}");
        assert!(error.to_string().contains(text), "{error}");
        let mut graph = Graph::new();
        graph.hand("bad", hand).fallback(7);
        let outputs = scheduler.start(&plan(graph), RunOptions::default(), vec![]).unwrap().wait().unwrap();
        assert_eq!(outputs.get("bad").unwrap().unwrap(), &7);
    }
    // Dropped by another thread, after it was taken.
    let (tx, rx) = mpsc::channel();
    let mut graph = Graph::new();
    sent(&mut graph, "bad", &tx, &Arc::default());
    let run = scheduler.start(&plan(graph), RunOptions::default(), vec![]).unwrap();
    std::thread::spawn(move || drop(rx.recv().unwrap())).join().unwrap();
    assert!(run.wait().unwrap_err().to_string().contains("nobody answers"));
}

#[test]
fn a_late_one_is_given_up_and_its_late_answer_is_dropped() {
    let scheduler = scheduler(1);
    let (tx, rx) = mpsc::channel();
    let given_up = Arc::<AtomicUsize>::default();
    let mut graph = Graph::new();
    sent(&mut graph, "late", &tx, &given_up).timeout(SHORT).fallback(3);
    let plan = plan(graph);
    let mut runner = scheduler.runner(&plan);
    for round in 1..=3 {
        let outputs = runner.run(RunOptions::default(), vec![]).unwrap();
        assert_eq!(outputs.get("late").unwrap().unwrap(), &3);
        let (_, reply) = rx.recv().unwrap();
        eventually("it is given up", || given_up.load(Ordering::SeqCst) == round);
        reply.send(Ok(4));
    }
}

#[test]
fn cancelling_gives_up_what_others_do_once_each() {
    let scheduler = scheduler(2);
    for mode in [Mode::FailFast, Mode::Drain, Mode::Collect] {
        let (tx, rx) = mpsc::channel();
        let given_up = Arc::<AtomicUsize>::default();
        let mut graph = Graph::new();
        for name in ["a", "b", "c"] {
            sent(&mut graph, name, &tx, &given_up);
        }
        sent(&mut graph, "never", &tx, &given_up).inputs(["a"]);
        let run = scheduler.start(&plan(graph), RunOptions::mode(mode).deadline(LONG), vec![]).unwrap();
        let mut replies: Vec<Reply<u64>> = (0..3).map(|_| rx.recv().unwrap().1).collect();
        assert!(run.cancel());
        assert!(matches!(run.wait().unwrap_err(), RunError::Cancelled));
        assert_eq!(given_up.load(Ordering::SeqCst), 3);
        replies.pop().unwrap().send(Ok(1));
        drop(replies);
        drop(tx);
        assert!(rx.recv().is_err(), "something was begun after the end");
    }
}

#[test]
fn answers_and_cancels_that_race_end_every_run_once() {
    let scheduler = scheduler(2);
    let (tx, rx) = mpsc::channel::<Work>();
    let worker = std::thread::spawn(move || {
        for (values, reply) in rx {
            reply.send(Ok(values.iter().sum::<u64>() + 1));
        }
    });
    let mut graph = Graph::new();
    graph.input("0");
    for node in 1..20 {
        sent(&mut graph, &node.to_string(), &tx, &Arc::default()).inputs([(node - 1).to_string()]);
    }
    drop(tx);
    let plan = plan(graph);
    let (mut finished, mut cancelled) = (0, 0);
    for round in 0..400u32 {
        let run = scheduler.start(&plan, RunOptions::default(), vec![("0".into(), 1)]).unwrap();
        for _ in 0..round % 40 * 20 {
            std::hint::spin_loop();
        }
        let won = round % 4 != 0 && run.cancel();
        match run.wait() {
            Ok(outputs) => {
                assert!(!won);
                assert_eq!(outputs.get("19").unwrap().unwrap(), &20);
                finished += 1;
            }
            Err(error) => {
                assert!(won && matches!(error, RunError::Cancelled), "{error}");
                cancelled += 1;
            }
        }
    }
    assert!(finished >= 100 && finished + cancelled == 400);
    drop(plan);
    worker.join().unwrap();
}

#[test]
fn a_chain_of_answers_given_later_does_not_recurse() {
    let scheduler = scheduler(1);
    let (tx, rx) = mpsc::channel::<Work>();
    let worker = std::thread::Builder::new().stack_size(256 << 10).spawn(move || {
        for (values, reply) in rx {
            reply.send(Ok(values[0] + 1));
        }
    });
    let mut graph = Graph::new();
    graph.input(0u32);
    let to = Arc::new(Mutex::new(tx));
    for node in 1..100_000u32 {
        let to = to.clone();
        let hand = move |values, reply| {
            to.lock().unwrap().send((values, reply)).map_err(|_| "nobody takes it")?;
            Ok::<_, &str>(nothing())
        };
        graph.hand(node, hand).inputs([node - 1]);
    }
    drop(to);
    let plan = plan(graph);
    let outputs =
        scheduler.start(&plan, RunOptions::default(), vec![(0u32.into(), 0)]).unwrap().wait().unwrap();
    assert_eq!(outputs.get(99_999u32).unwrap().unwrap(), &99_999);
    drop((plan, outputs));
    worker.unwrap().join().unwrap();
}

#[test]
fn the_nodes_of_a_run_have_its_number_and_no_other_run_has_it() {
    let scheduler = scheduler(1);
    let mut graph = Graph::new();
    for name in ["a", "b"] {
        graph.hand(name, |_, reply: Reply<u64>| {
            let number = reply.run();
            reply.send(Ok(number));
            Ok::<_, String>(nothing())
        });
    }
    let plan = plan(graph);
    let mut runner = scheduler.runner(&plan);
    let mut numbers = Vec::new();
    for _ in 0..2 {
        let outputs = scheduler.start(&plan, RunOptions::default(), vec![]).unwrap().wait().unwrap();
        let again = runner.run(RunOptions::default(), vec![]).unwrap();
        for outputs in [outputs, again] {
            let [a, b] = ["a", "b"].map(|name| *outputs.get(name).unwrap().unwrap());
            assert_eq!(a, b);
            assert!(!numbers.contains(&a));
            numbers.push(a);
        }
    }
}

#[test]
fn who_says_no_and_keeps_the_reply_can_still_answer() {
    let scheduler = scheduler(1);
    let (tx, rx) = mpsc::channel();
    let tx = Mutex::new(tx);
    let mut graph = Graph::new();
    graph.hand("a", move |_, reply: Reply<u64>| {
        tx.lock().unwrap().send(reply).unwrap();
        Err::<GiveUp, _>("not now")
    });
    let run = scheduler.start(&plan(graph), RunOptions::default(), vec![]).unwrap();
    rx.recv().unwrap().send(Ok(5));
    assert_eq!(run.wait().unwrap().get("a").unwrap().unwrap(), &5);
}

/// Adds nodes that are answered before they are handed over.
fn answered_at_once(graph: &mut Graph<u64>, node: u32) -> dag::NodeBuilder<'_, u64> {
    graph.hand(node, |values: Vec<u64>, reply| {
        reply.send(Ok(values.iter().sum::<u64>() + 1));
        Ok::<_, String>(nothing())
    })
}

#[test]
fn a_chain_of_a_million_that_are_answered_at_once_does_not_use_up_the_stack() {
    const NODES: u32 = if cfg!(tsan) { 10_000 } else { 1_000_000 };
    let scheduler = scheduler(1);
    let mut graph = Graph::new();
    answered_at_once(&mut graph, 0);
    for node in 1..NODES {
        answered_at_once(&mut graph, node).inputs([node - 1]);
    }
    let mut runner = scheduler.runner(&plan(graph));
    for _ in 0..2 {
        let outputs = runner.run(RunOptions::default(), vec![]).unwrap();
        assert_eq!(outputs.get(NODES - 1).unwrap().unwrap(), &u64::from(NODES));
    }
}

#[test]
fn a_long_queue_for_a_permit_that_comes_back_at_once_does_not_use_up_the_stack() {
    const NODES: u32 = if cfg!(tsan) { 10_000 } else { 100_000 };
    let scheduler = scheduler(1);
    let (tx, rx) = mpsc::channel();
    let limit = Limit::new(1);
    let mut graph = Graph::new();
    sent(&mut graph, "first", &tx, &Arc::default()).limit(&limit);
    for node in 0..NODES {
        answered_at_once(&mut graph, node).limit(&limit);
    }
    let run = scheduler.start(&plan(graph), RunOptions::default(), vec![]).unwrap();
    let (_, reply) = rx.recv().unwrap();
    eventually("all others wait", || limit.waiting() == NODES as usize);
    reply.send(Ok(0));
    let outputs = run.wait().unwrap();
    assert_eq!(outputs.iter().filter(|(_, value)| matches!(value, Ok(1))).count(), NODES as usize);
    assert_eq!((limit.most(), limit.in_flight(), limit.waiting()), (1, 0, 0));
}
