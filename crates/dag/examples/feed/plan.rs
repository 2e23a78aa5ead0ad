//! The plan of the feed, and the pure parts of it, which the threads that block use too.

use std::sync::Arc;

use dag::redis::{Client, Command, Value, command};
use dag::{Each, Graph, Inputs};

use crate::data::TAKEN;

/// A medium, what is known of it, and what it is worth.
#[derive(Clone, Debug, Default)]
pub(crate) struct Item {
    pub(crate) id: i64,
    pub(crate) likes: i64,
    pub(crate) blocked: bool,
    pub(crate) score: i64,
}

/// What goes along the edges.
pub(crate) type Data = Arc<Vec<Item>>;

pub(crate) fn ids(ids: &[i64]) -> Data {
    Arc::new(ids.iter().map(|id| Item { id: *id, ..Item::default() }).collect())
}

fn first(data: &Data) -> i64 {
    data.first().map_or(0, |item| item.id)
}

fn number(value: &Value) -> Result<i64, String> {
    let text = value.bytes().and_then(|bytes| std::str::from_utf8(bytes).ok());
    text.and_then(|text| text.parse().ok()).ok_or_else(|| format!("not a number: {value:?}"))
}

/// The whole list under this key.
pub(crate) fn list(kind: &str, id: i64) -> Command {
    Command::new("LRANGE").arg(format!("{kind}:{id}")).arg("0").arg("-1")
}

pub(crate) fn read_list(reply: Value) -> Result<Data, String> {
    let items = reply.items().ok_or("not a list")?;
    Ok(ids(&items.iter().map(number).collect::<Result<Vec<_>, _>>()?))
}

pub(crate) fn meta(id: i64) -> Command {
    Command::new("HMGET").arg(format!("meta:{id}")).arg("likes").arg("blocked").arg("nothing")
}

/// What is known of a medium; of the field that is not there Redis says nil.
pub(crate) fn read_meta(reply: Value) -> Result<Data, String> {
    match reply.items() {
        Some([likes, blocked, Value::Nil]) => Ok(Arc::new(vec![Item {
            likes: number(likes)?,
            blocked: number(blocked)? == 1,
            ..Item::default()
        }])),
        _ => Err(format!("not what was asked for: {reply:?}")),
    }
}

/// The program that says what a medium is worth: some work for the processor.
pub(crate) fn score(items: &[Item]) -> Vec<Item> {
    let worth = |item: &Item| (0..200).fold(item.likes, |sum, round| (sum * 31 + round) % 1_000_003);
    items.iter().map(|item| Item { score: worth(item), ..item.clone() }).collect()
}

pub(crate) fn filter(items: &[Item]) -> Vec<Item> {
    items.iter().filter(|item| !item.blocked).cloned().collect()
}

pub(crate) fn sort(mut items: Vec<Item>) -> Vec<Item> {
    items.sort_by_key(|item| std::cmp::Reverse(item.score));
    items
}

type Answer = Result<Data, String>;

fn flat<'a>(parts: impl IntoIterator<Item = &'a Data>) -> Vec<Item> {
    parts.into_iter().flat_map(|part| part.iter().cloned()).collect()
}

/// One piece of work for each item of the input.
fn split(inputs: Inputs<'_, Data>) -> Result<Vec<Data>, String> {
    Ok(flat(inputs.iter()).into_iter().map(|item| Arc::new(vec![item])).collect())
}

fn join(parts: Vec<Data>) -> Answer {
    Ok(Arc::new(flat(&parts)))
}

pub(crate) fn graph(client: &Client) -> Graph<Data> {
    let mut graph = Graph::new();
    graph.input("viewer");
    for branch in ["follow", "recommend"] {
        let name = |step: &str| format!("{branch}.{step}");
        let users = move |inputs: Vec<Data>| list(branch, inputs.first().map_or(0, first));
        graph.task(branch, command(client, users, read_list)).inputs(["viewer"]);
        let media = Each::task(command(client, |user: Data| list("media", first(&user)), read_list));
        graph.map(name("media"), 100, split, media, join).inputs([branch]);
        let known = Each::task(command(client, |medium: Data| meta(first(&medium)), read_meta));
        graph.map(name("meta"), 100, split, known, join).inputs([name("media")]);
        let scored = |inputs: Inputs<'_, Data>| Answer::Ok(Arc::new(score(&flat(inputs.iter()))));
        graph.cpu(name("score"), scored).inputs([name("meta")]);
        let filtered = |inputs: Inputs<'_, Data>| Answer::Ok(Arc::new(filter(&flat(inputs.iter()))));
        graph.cpu(name("filter"), filtered).inputs([name("score")]);
    }
    let concat = |inputs: Inputs<'_, Data>| Answer::Ok(Arc::new(flat(inputs.iter())));
    graph.cpu("concat", concat).inputs(["follow.filter", "recommend.filter"]);
    let sorted = |inputs: Inputs<'_, Data>| Answer::Ok(Arc::new(sort(flat(inputs.iter()))));
    graph.cpu("sort", sorted).inputs(["concat"]);
    let taken = |inputs: Inputs<'_, Data>| {
        Answer::Ok(Arc::new(flat(inputs.iter()).into_iter().take(TAKEN).collect()))
    };
    graph.cpu("take", taken).inputs(["sort"]);
    graph
}
