//! The plan of the feed, and the pure parts of it, which the threads that block use too.

use std::error::Error;
use std::sync::Arc;

use dag::redis::{Client, Command, Value, command, each};
use dag::{Each, Graph, Inputs, Plan, RunOptions, Scheduler};

use super::data::TAKEN;

/// A medium, what is known of it, and what it is worth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Item {
    pub(crate) id: i64,
    pub(crate) likes: i64,
    pub(crate) blocked: bool,
    pub(crate) score: i64,
}

/// What goes along the edges: many, shared by all who take them, or one of many.
#[derive(Clone, Debug)]
pub(crate) enum Data {
    Many(Arc<Vec<Item>>),
    One(Item),
}

impl Data {
    pub(crate) fn items(&self) -> &[Item] {
        match self {
            Data::Many(items) => items,
            Data::One(item) => std::slice::from_ref(item),
        }
    }
}

impl From<Vec<Item>> for Data {
    fn from(items: Vec<Item>) -> Data {
        Data::Many(Arc::new(items))
    }
}

pub(crate) fn one(id: i64) -> Item {
    Item { id, ..Item::default() }
}

pub(crate) fn first(data: &Data) -> i64 {
    data.items().first().map_or(0, |item| item.id)
}

fn number(value: &Value) -> Result<i64, String> {
    let text = value.bytes().and_then(|bytes| std::str::from_utf8(bytes).ok());
    text.and_then(|text| text.parse().ok()).ok_or_else(|| format!("not a number: {value:?}"))
}

/// The whole list under this key.
pub(crate) fn list(kind: &str, id: i64) -> Command {
    Command::new("LRANGE").arg(format!("{kind}:{id}")).arg("0").arg("-1")
}

pub(crate) fn read_list(reply: Value) -> Result<Vec<Item>, String> {
    let items = reply.items().ok_or("not a list")?;
    items.iter().map(|item| number(item).map(one)).collect()
}

pub(crate) fn meta(id: i64) -> Command {
    Command::new("HMGET").arg(format!("meta:{id}")).arg("likes").arg("blocked").arg("nothing")
}

/// What is known of a medium; of the field that is not there Redis says nil.
pub(crate) fn read_meta(reply: Value) -> Result<Item, String> {
    match reply.items() {
        Some([likes, blocked, Value::Nil]) => {
            Ok(Item { likes: number(likes)?, blocked: number(blocked)? == 1, ..Item::default() })
        }
        _ => Err(format!("not what was asked for: {reply:?}")),
    }
}

/// The program that says what a medium is worth: some work for the processor.
pub(crate) fn score(items: &[Item]) -> Vec<Item> {
    let worth = |item: &Item| (0..200).fold(item.likes, |sum, round| (sum * 31 + round) % 1_000_003);
    items.iter().map(|item| Item { score: worth(item), ..*item }).collect()
}

pub(crate) fn filter(items: &[Item]) -> Vec<Item> {
    items.iter().filter(|item| !item.blocked).copied().collect()
}

pub(crate) fn sort(mut items: Vec<Item>) -> Vec<Item> {
    items.sort_by_key(|item| std::cmp::Reverse(item.score));
    items
}

pub(crate) type Answer = Result<Data, String>;
/// Which command an id calls for, and what its reply means.
pub(crate) type Make = Box<dyn Fn(i64) -> Command + Send + Sync>;
pub(crate) type Read = fn(Value) -> Answer;

/// How the Redis nodes of the plan are done.
pub(crate) trait Redis {
    fn node(&self, graph: &mut Graph<Data>, name: &str, input: &str, make: Make, read: Read);
    fn each(&self, make: Make, read: Read) -> Each<Data>;
}

/// As coroutines on the loop of a client.
pub(crate) struct OnLoop(pub(crate) Client);

impl Redis for OnLoop {
    fn node(&self, graph: &mut Graph<Data>, name: &str, input: &str, make: Make, read: Read) {
        let make = move |inputs: Vec<Data>| make(inputs.first().map_or(0, first));
        graph.task(name, command(&self.0, make, read)).inputs([input]);
    }

    fn each(&self, make: Make, read: Read) -> Each<Data> {
        each(&self.0, move |item| Ok::<_, String>(make(first(&item))), read)
    }
}

/// One request, and its feed.
pub(crate) fn request(
    scheduler: &Scheduler,
    plan: &Arc<Plan<Data>>,
    viewer: i64,
) -> Result<Vec<Item>, Box<dyn Error>> {
    let given = vec![("viewer".into(), Data::One(one(viewer)))];
    let outputs = scheduler.start(plan, RunOptions::default(), given)?.wait()?;
    Ok(outputs.get("take").and_then(Result::ok).map(|feed| feed.items().to_vec()).unwrap_or_default())
}

fn flat<'a>(parts: impl IntoIterator<Item = &'a Data>) -> Vec<Item> {
    parts.into_iter().fold(Vec::new(), |mut all, part| {
        all.extend_from_slice(part.items());
        all
    })
}

/// One piece of work for each item of the input.
fn split(inputs: Inputs<'_, Data>) -> Result<Vec<Data>, String> {
    Ok(inputs.iter().flat_map(Data::items).copied().map(Data::One).collect())
}

fn join(parts: Vec<Data>) -> Answer {
    Ok(flat(&parts).into())
}

/// The only input.
fn only<'a>(inputs: Inputs<'a, Data>) -> &'a [Item] {
    inputs.get(0).map(Data::items).unwrap_or_default()
}

fn many(reply: Value) -> Answer {
    read_list(reply).map(Data::from)
}

pub(crate) fn graph(redis: &impl Redis) -> Graph<Data> {
    let mut graph = Graph::new();
    graph.input("viewer");
    for branch in ["follow", "recommend"] {
        let name = |step: &str| format!("{branch}.{step}");
        let users = Box::new(move |viewer| list(branch, viewer));
        redis.node(&mut graph, branch, "viewer", users, many);
        let media = redis.each(Box::new(|user| list("media", user)), many);
        graph.map(name("media"), 100, split, media, join).inputs([branch]);
        let known = redis.each(Box::new(meta), |reply| read_meta(reply).map(Data::One));
        graph.map(name("meta"), 100, split, known, join).inputs([name("media")]);
        let scored = |inputs: Inputs<'_, Data>| Answer::Ok(score(only(inputs)).into());
        graph.cpu(name("score"), scored).inputs([name("meta")]);
        let filtered = |inputs: Inputs<'_, Data>| Answer::Ok(filter(only(inputs)).into());
        graph.cpu(name("filter"), filtered).inputs([name("score")]);
    }
    let concat = |inputs: Inputs<'_, Data>| Answer::Ok(flat(inputs.iter()).into());
    graph.cpu("concat", concat).inputs(["follow.filter", "recommend.filter"]);
    let sorted = |inputs: Inputs<'_, Data>| Answer::Ok(sort(only(inputs).to_vec()).into());
    graph.cpu("sort", sorted).inputs(["concat"]);
    let taken = |inputs: Inputs<'_, Data>| {
        Answer::Ok(only(inputs).iter().copied().take(TAKEN).collect::<Vec<_>>().into())
    };
    graph.cpu("take", taken).inputs(["sort"]);
    graph
}
