//! The Redis client against a real redis-server, and against one that does as it is told.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

mod common;

use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use common::redis::{bytes, events, get, on_loop, plain};
use common::servers::{Server, listen};
use common::{LONG, SHORT, eventually, plan, scheduler};
use dag::redis::{self, Address, Client, Command, Config, Error, Protocol, Value};
use dag::{Each, Graph, Inputs, RunOptions};

#[test]
fn replies_keep_their_kinds_and_nil_is_not_empty() {
    let server = Server::start();
    let events = events();
    for protocol in [Protocol::Resp2, Protocol::Resp3] {
        let mut config = Config::new(server.address());
        config.protocol = protocol;
        let client = Client::new(&events, config).unwrap();
        let resp3 = protocol == Protocol::Resp3;
        on_loop(&events, async move {
            let call = |words: &str| {
                let mut words = words.split(' ');
                let command = Command::new(words.next().unwrap());
                client.call(words.fold(command, |command, word| command.arg(word)))
            };
            assert_eq!(call("FLUSHALL").await, Ok(Value::Status("OK".into())));
            assert_eq!(call("GET nothing").await, Ok(Value::Nil));
            call("SET empty ").await.unwrap();
            assert_eq!(call("GET empty").await, Ok(bytes("")));
            assert_eq!(call("LRANGE nothing 0 -1").await, Ok(Value::Array(vec![])));
            assert_eq!(call("INCRBY n -7").await, Ok(Value::Int(-7)));
            call("HSET h b 1 a 2").await.unwrap();
            let pairs = [("b", "1"), ("a", "2")].map(|(key, value)| (bytes(key), bytes(value)));
            let flat = pairs.iter().flat_map(|(key, value)| [key.clone(), value.clone()]).collect();
            let expected = if resp3 { Value::Map(pairs.to_vec()) } else { Value::Array(flat) };
            assert_eq!(call("HGETALL h").await, Ok(expected));
            call("SADD s x").await.unwrap();
            let members = vec![bytes("x")];
            let expected = if resp3 { Value::Set(members) } else { Value::Array(members) };
            assert_eq!(call("SMEMBERS s").await, Ok(expected));
            call("ZADD z 1.5 m").await.unwrap();
            let expected = if resp3 { Value::Double(1.5) } else { bytes("1.5") };
            assert_eq!(call("ZSCORE z m").await, Ok(expected));
            assert!(
                matches!(call("INCR h").await, Err(Error::Server(text)) if text.starts_with("WRONGTYPE"))
            );
            let large = "x".repeat(5_000_000);
            client.call(Command::new("SET").arg("large").arg(&large)).await.unwrap();
            assert_eq!(client.call(get("large")).await, Ok(bytes(&large)));
            let nested = client.call(Command::new("EVAL").arg("return {1, {'a', {}}, false}").arg("0")).await;
            let inner = Value::Array(vec![bytes("a"), Value::Array(vec![])]);
            assert_eq!(nested, Ok(Value::Array(vec![Value::Int(1), inner, Value::Nil])));
            assert_eq!(client.counters().in_flight, 0);
        });
    }
}

#[test]
fn one_connection_has_ten_thousand_commands_in_flight_before_the_first_answer() {
    for count in [100, 1_000, 10_000usize] {
        let (address, _served) = listen(move |mut peer| {
            // Nothing is answered until all are outstanding.
            let commands: Vec<String> = (0..count).map(|_| peer.command().unwrap()).collect();
            commands.iter().for_each(|command| peer.answer(command));
            assert!(peer.command().is_none());
        });
        let events = events();
        let mut config = plain(address);
        config.in_flight = count;
        let client = Client::new(&events, config).unwrap();
        let inside = client.clone();
        on_loop(&events, async move {
            let calls: Vec<_> = (0..count).map(|i| (i, inside.call(get(&i.to_string())))).collect();
            for (i, call) in calls {
                assert_eq!(call.await, Ok(bytes(&i.to_string())));
            }
        });
        assert_eq!(client.counters().most_in_flight, count);
        assert_eq!(client.counters().connects, 1);
    }
}

#[test]
fn a_real_server_answers_ten_thousand_in_flight_over_one_connection_and_over_four() {
    let server = Server::start();
    let events = events();
    for connections in [1, 4] {
        let mut config = Config::new(server.address());
        config.in_flight = 10_000;
        config.connections = connections;
        let client = Client::new(&events, config).unwrap();
        let inside = client.clone();
        on_loop(&events, async move {
            for i in 0..100 {
                inside.call(Command::new("SET").arg(format!("k{i}")).int(i)).await.unwrap();
            }
            let calls: Vec<_> =
                (0..20_000).map(|i| (i % 100, inside.call(get(&format!("k{}", i % 100))))).collect();
            for (i, call) in calls {
                assert_eq!(call.await, Ok(bytes(&i.to_string())));
            }
        });
        assert_eq!(client.counters().most_in_flight, 10_000);
        assert_eq!((client.counters().in_flight, client.counters().waiting), (0, 0));
    }
}

#[test]
fn permits_are_never_above_the_limit_and_first_come_is_first_served() {
    const LIMIT: usize = 7;
    let (address, served) = listen(|mut peer| {
        let mut seen = Vec::new();
        while seen.len() < 200 {
            // As many as may come do come, and none of the others before one of these is answered.
            let from = seen.len();
            seen.extend((from..200).take(LIMIT).map(|_| peer.command().unwrap()));
            assert!(!peer.has_command(), "more than the limit");
            seen[from..].iter().for_each(|command| peer.answer(command));
        }
        seen
    });
    let events = events();
    let mut config = plain(address);
    config.in_flight = LIMIT;
    let client = Client::new(&events, config).unwrap();
    let inside = client.clone();
    on_loop(&events, async move {
        let calls: Vec<_> = (0..200).map(|i| inside.call(get(&i.to_string()))).collect();
        for call in calls {
            call.await.unwrap();
        }
    });
    let order: Vec<usize> = served.recv().unwrap().iter().map(|key| key.parse().unwrap()).collect();
    assert!(order.is_sorted(), "{order:?}");
    assert_eq!(client.counters().most_in_flight, LIMIT);
}

#[test]
fn a_deadline_frees_the_permit_and_the_connection_stays_in_step() {
    let (address, _served) = listen(|mut peer| {
        // The first is answered only after the second has come, which it can only when the first has given up.
        let (first, second) = (peer.command().unwrap(), peer.command().unwrap());
        peer.answer(&first);
        peer.answer(&second);
        while let Some(command) = peer.command() {
            peer.answer(&command);
        }
    });
    let events = events();
    let mut config = plain(address);
    config.in_flight = 1;
    let client = Client::new(&events, config).unwrap();
    let inside = client.clone();
    on_loop(&events, async move {
        let first = inside.call_within(get("first"), Duration::from_millis(20));
        let second = inside.call_within(get("second"), LONG);
        assert_eq!(first.await, Err(Error::TimedOut(Duration::from_millis(20))));
        assert_eq!(second.await, Ok(bytes("second")));
        assert_eq!(inside.call(get("third")).await, Ok(bytes("third")));
    });
    let counters = client.counters();
    assert_eq!((counters.late, counters.abandoned, counters.in_flight), (1, 0, 0));
    assert_eq!((counters.connects, counters.most_in_flight), (1, 1));
}

#[test]
fn what_was_in_flight_on_a_lost_connection_fails_and_is_never_sent_again() {
    let (address, served) = listen(|mut peer| {
        let first = peer.command().unwrap();
        if first == "0" {
            // Answers one and a half of three, and is gone.
            let seen = vec![first, peer.command().unwrap(), peer.command().unwrap()];
            peer.answer("0");
            return seen;
        }
        let mut seen = vec![first.clone()];
        peer.answer(&first);
        while seen.len() < 3 {
            let command = peer.command().unwrap();
            peer.answer(&command);
            seen.push(command);
        }
        seen
    });
    let events = events();
    let mut config = plain(address);
    config.in_flight = 3;
    let client = Client::new(&events, config).unwrap();
    on_loop(&events, async move {
        let calls: Vec<_> = (0..6).map(|i| client.call(get(&i.to_string()))).collect();
        let mut results = Vec::new();
        for call in calls {
            results.push(call.await);
        }
        let lost = |result: &Result<Value, Error>| matches!(result, Err(Error::Lost(_)));
        assert_eq!(results[0], Ok(bytes("0")));
        // The permit of the first may have let the fourth out before the connection was lost.
        assert!(lost(&results[1]) && lost(&results[2]), "{results:?}");
        assert!(lost(&results[3]) || results[3] == Ok(bytes("3")), "{results:?}");
        // Two more, so that the second connection gets its three in any case.
        if lost(&results[3]) {
            client.call(get("6")).await.unwrap();
        }
        assert_eq!(results[4..], [Ok(bytes("4")), Ok(bytes("5"))]);
    });
    let mut all: Vec<String> = served.recv().unwrap();
    all.extend(served.recv().unwrap());
    let count = all.len();
    all.sort();
    all.dedup();
    assert_eq!(all.len(), count, "a command came twice: {all:?}");
}

#[test]
fn without_a_server_commands_fail_and_with_one_they_go_on_by_themselves() {
    let directory = std::env::temp_dir().join(format!("dag-gone-{}", std::process::id()));
    let events = events();
    let mut config = Config::new(Address::Unix(directory.join("nobody.sock")));
    config.protocol = Protocol::Resp2;
    config.backoff = (SHORT, Duration::from_millis(5));
    let client = Client::new(&events, config).unwrap();
    let inside = client.clone();
    let error = on_loop(&events, async move { inside.call(get("a")).await }).unwrap_err();
    assert!(matches!(error, Error::Unavailable(_)), "{error}");
    std::fs::create_dir(&directory).unwrap();
    let listener = std::os::unix::net::UnixListener::bind(directory.join("nobody.sock")).unwrap();
    let server = std::thread::spawn(move || {
        use std::io::{Read, Write};
        let (mut stream, _) = listener.accept().unwrap();
        let mut command = [0; 64];
        let _ = stream.read(&mut command).unwrap();
        stream.write_all(b"+here\r\n").unwrap();
    });
    // It may still be told of the attempt that failed last.
    let answer = on_loop(&events, async move {
        loop {
            match client.call(get("a")).await {
                Err(Error::Unavailable(_)) => {}
                other => return other,
            }
        }
    });
    assert_eq!(answer, Ok(Value::Status("here".into())));
    server.join().unwrap();
    std::fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn a_server_that_lets_in_and_says_nothing_is_tried_less_and_less_often() {
    const CONNECTS: u32 = 9;
    // Its peers are dropped at once.
    let (address, served) = listen(drop);
    let events = events();
    let mut config = plain(address);
    config.backoff = (SHORT, LONG);
    let began = Instant::now();
    let client = Client::new(&events, config).unwrap();
    (0..CONNECTS).for_each(|_| served.recv().unwrap());
    // The waits were 1, 2, 4 … times the first.
    assert!(began.elapsed() >= SHORT * (2u32.pow(CONNECTS - 1) - 1));
    drop(client);
}

#[test]
fn ten_thousand_timeouts_on_a_silent_server_do_not_grow_any_queue() {
    let (address, _served) = listen(|mut peer| while peer.command().is_some() {});
    let events = events();
    let mut config = plain(address);
    config.in_flight = 50;
    config.abandoned = 100;
    config.backoff = (SHORT, SHORT);
    let client = Client::new(&events, config).unwrap();
    for _ in 0..100 {
        let inside = client.clone();
        on_loop(&events, async move {
            let calls: Vec<_> = (0..100).map(|_| inside.call_within(get("a"), SHORT)).collect();
            for call in calls {
                let error = call.await.unwrap_err();
                assert!(matches!(error, Error::TimedOut(_) | Error::Lost(_)), "{error}");
            }
        });
        let counters = client.counters();
        assert_eq!((counters.in_flight, counters.waiting), (0, 0));
        assert!(counters.abandoned <= 100 + 1 + 50, "{counters:?}");
    }
    assert!(client.counters().most_in_flight <= 50);
    eventually("no timer is left but a pause", || events.stats().timers <= 1);
}

#[test]
fn a_loop_that_stops_and_a_client_that_is_dropped_leave_nobody_waiting() {
    let (address, _served) = listen(|mut peer| while peer.command().is_some() {});
    let (first, second) = (events(), events());
    let client = Client::new(&first, plain(address)).unwrap();
    // Waits on another loop than the client's.
    let (tx, rx) = mpsc::channel();
    let call = client.call(get("a"));
    second.spawn(async move { drop(tx.send(call.await)) }).unwrap();
    eventually("it was sent", || client.counters().in_flight == 1);
    let _ = first.stop();
    assert_eq!(rx.recv().unwrap(), Err(Error::Closed));
    let after = client.clone();
    assert_eq!(on_loop(&second, async move { after.call(get("a")).await }), Err(Error::Closed));
    let client = Client::new(&second, plain(address)).unwrap();
    let call = client.call(get("a"));
    eventually("it was sent", || client.counters().in_flight == 1);
    drop(client);
    assert_eq!(on_loop(&second, call), Err(Error::Closed));
    eventually("its driver has ended", || second.stats().tasks == 0);
}

#[test]
fn redis_commands_are_nodes_of_a_graph() {
    let server = Server::start();
    let scheduler = scheduler(2);
    let client = Client::new(scheduler.events(), Config::new(server.address())).unwrap();
    let inside = client.clone();
    on_loop(scheduler.events(), async move {
        for id in 0..500 {
            inside.call(Command::new("RPUSH").arg("ids").int(id)).await.unwrap();
            inside.call(Command::new("SET").arg(format!("score:{id}")).int(id * 2)).await.unwrap();
        }
    });
    type Data = Arc<Vec<i64>>;
    fn number(value: &Value) -> Result<i64, String> {
        let text = value.bytes().ok_or_else(|| format!("no string: {value:?}"))?;
        std::str::from_utf8(text)
            .ok()
            .and_then(|text| text.parse().ok())
            .ok_or_else(|| "no number".to_owned())
    }
    let mut graph = Graph::<Data>::new();
    graph.input("list");
    let range = |_: Vec<Data>| Command::new("LRANGE").arg("ids").arg("0").arg("-1");
    let read = |reply: Value| -> Result<Data, String> {
        Ok(Arc::new(reply.items().unwrap().iter().map(number).collect::<Result<_, _>>()?))
    };
    graph.task("ids", redis::command(&client, range, read)).inputs(["list"]);
    let score = |id: Data| get(&format!("score:{}", id[0]));
    let each = redis::command(&client, score, |reply| number(&reply).map(|score| Arc::new(vec![score])));
    graph
        .map(
            "scores",
            100,
            |inputs: Inputs<'_, Data>| {
                Ok::<_, String>(inputs.get(0).unwrap().iter().map(|id| Arc::new(vec![*id])).collect())
            },
            Each::task(each),
            |scores| Ok(Arc::new(scores.iter().map(|score| score[0]).collect())),
        )
        .inputs(["ids"]);
    graph
        .cpu("sum", |inputs| Ok::<_, String>(Arc::new(vec![inputs.get(0).unwrap().iter().sum()])))
        .inputs(["scores"]);
    let mut runner = scheduler.runner(&plan(graph));
    for _ in 0..3 {
        let given = vec![("list".into(), Arc::new(vec![]))];
        let outputs = runner.run(RunOptions::default(), given).unwrap();
        assert_eq!(**outputs.get("sum").unwrap().unwrap(), [499 * 500]);
    }
    // The items of a map are in flight together.
    assert!(client.counters().most_in_flight > 1);
}

/// A graph with one map over GETs of the numbers below `count`.
fn asking(client: &Client, count: i64, in_flight: usize) -> Graph<i64> {
    let mut graph = Graph::<i64>::new();
    let make = |item: i64| Ok::<_, String>(get(&item.to_string()));
    let read = |reply: Value| match reply.bytes().and_then(|text| std::str::from_utf8(text).ok()) {
        Some("panic") => panic!("a reply to panic about"),
        Some(text) => text.parse::<i64>(),
        None => "nothing".parse(),
    };
    let split = move |_: Inputs<'_, i64>| Ok::<_, String>((0..count).map(|item| item * 100).collect());
    let join = |values: Vec<i64>| {
        assert!(values.is_sorted(), "{values:?}");
        Ok(values.iter().sum())
    };
    graph.map("each", in_flight, split, redis::each(client, make, read), join);
    graph
}

#[test]
fn a_map_over_commands_keeps_its_order_and_its_limit_with_a_time_and_without() {
    const LIMIT: usize = 7;
    for time in [None, Some(LONG)] {
        let (address, _served) = listen(|mut peer| {
            for from in (0..200).step_by(LIMIT) {
                let commands: Vec<_> = (from..200).take(LIMIT).map(|_| peer.command().unwrap()).collect();
                assert!(!peer.has_command(), "more than the limit");
                commands.iter().for_each(|command| peer.answer(command));
            }
            assert!(peer.command().is_none());
        });
        let scheduler = scheduler(2);
        let mut config = plain(address);
        config.timeout = time;
        let client = Client::new(scheduler.events(), config).unwrap();
        let mut runner = scheduler.runner(&plan(asking(&client, 200, LIMIT)));
        let outputs = runner.run(RunOptions::default(), vec![]).unwrap();
        assert_eq!(outputs.get("each").unwrap().unwrap(), &(199 * 200 / 2 * 100));
        let counters = client.counters();
        assert_eq!((counters.most_in_flight, counters.in_flight, counters.waiting), (LIMIT, 0, 0));
    }
}

#[test]
fn what_fails_in_a_map_over_commands_ends_it_and_gives_up_the_rest() {
    let (address, _served) = listen(|mut peer| {
        // Two are answered, one of them with something else; the others never.
        let (first, second) = (peer.command().unwrap(), peer.command().unwrap());
        peer.answer(&first);
        peer.answer(if second == "100" { "panic" } else { "no number" });
        while peer.command().is_some() {}
    });
    let scheduler = scheduler(2);
    let client = Client::new(scheduler.events(), plain(address)).unwrap();
    let mut runner = scheduler.runner(&plan(asking(&client, 50, 20)));
    let error = runner.run(RunOptions::default(), vec![]).unwrap_err().to_string();
    assert!(error.contains("each") && error.contains("a reply to panic about"), "{error}");
    eventually("nothing is in flight", || client.counters().in_flight == 0 && client.counters().waiting == 0);
    assert!(client.counters().abandoned >= 17, "{:?}", client.counters());

    // A command that cannot be made, and a map of nothing.
    let unlucky = |item: i64| if item == 13 { Err("unlucky") } else { Ok(get(&item.to_string())) };
    let mut graph = Graph::<i64>::new();
    let each = || redis::each(&client, unlucky, |_| Ok::<_, String>(0));
    let split = |_: Inputs<'_, i64>| Ok::<_, String>(vec![13, 14]);
    graph.map("unlucky", 1, split, each(), |_| Ok(0));
    let error = scheduler.runner(&plan(graph)).run(RunOptions::default(), vec![]).unwrap_err().to_string();
    assert!(error.contains("unlucky"), "{error}");
    let mut graph = Graph::<i64>::new();
    graph.map("nothing", 9, |_| Ok::<_, String>(vec![]), each(), |values| Ok(values.len() as i64 + 5));
    let mut runner = scheduler.runner(&plan(graph));
    let outputs = runner.run(RunOptions::default(), vec![]).unwrap();
    assert_eq!(outputs.get("nothing").unwrap().unwrap(), &5);
}

#[test]
fn a_map_over_commands_is_cancelled_expires_and_ends_with_its_client() {
    let (address, _served) = listen(|mut peer| while peer.command().is_some() {});
    let scheduler = scheduler(2);
    let client = Client::new(scheduler.events(), plain(address)).unwrap();
    let waits = plan(asking(&client, 100, 10));
    let run = scheduler.start(&waits, RunOptions::default(), vec![]).unwrap();
    eventually("ten are in flight", || client.counters().in_flight == 10);
    assert!(run.cancel());
    assert!(matches!(run.wait(), Err(dag::RunError::Cancelled)));
    eventually("none is in flight", || client.counters().in_flight == 0);

    let mut graph = asking(&client, 100, 10);
    graph.cpu("late", |inputs| Ok::<_, String>(*inputs.get(0).unwrap())).inputs(["slow"]);
    let split = |_: Inputs<'_, i64>| Ok::<_, String>(vec![1, 2, 3]);
    let each = redis::each(&client, |_| Ok::<_, String>(get("a")), |_| Ok::<_, String>(0));
    graph.map("slow", 2, split, each, |_| Ok(0)).timeout(SHORT).fallback(-1);
    let late = Arc::new(graph.compile().unwrap().only(["late"]).unwrap());
    let outputs = scheduler.start(&late, RunOptions::default(), vec![]).unwrap().wait().unwrap();
    assert_eq!(outputs.get("late").unwrap().unwrap(), &-1);
    eventually("none is in flight", || client.counters().in_flight == 0);

    // The loop of the client ends, which is not the loop of the run.
    let apart = events();
    let client = Client::new(&apart, plain(address)).unwrap();
    let waits = plan(asking(&client, 100, 10));
    let run = scheduler.start(&waits, RunOptions::default(), vec![]).unwrap();
    eventually("ten are in flight", || client.counters().in_flight == 10);
    let _ = apart.stop();
    let error = run.wait().unwrap_err().to_string();
    assert!(error.contains("closed"), "{error}");
    let error =
        scheduler.start(&waits, RunOptions::default(), vec![]).unwrap().wait().unwrap_err().to_string();
    assert!(error.contains("closed"), "{error}");
}
