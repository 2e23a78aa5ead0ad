//! The same feed on threads that block, each with a connection of its own and one command at a time: as nodes of the same
//! plan, which is how the first architecture had it, or a whole request to a thread, which spares it all hand-overs.

use std::cell::RefCell;
use std::error::Error;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

use dag::redis::{Command, Value};
use dag::{Each, Graph, Inputs};

use super::data::{Connection, Server, Socket, TAKEN};
use super::plan::{
    Data, Item, Make, Read, Redis, filter, first, list, meta, read_list, read_meta, score, sort,
};

thread_local! {
    static CONNECTION: RefCell<Option<Connection>> = const { RefCell::new(None) };
}

/// Redis nodes that block the thread of the pool they run on.
pub(crate) struct OnPool(pub(crate) Socket);

/// Asks by the connection of this thread.
fn ask(socket: &Socket, command: Command) -> Result<Value, String> {
    CONNECTION.with_borrow_mut(|connection| {
        let connection = match connection {
            Some(connection) => connection,
            None => connection.insert(socket.connect().map_err(|error| error.to_string())?),
        };
        one(connection, command).map_err(|error| error.to_string())
    })
}

impl Redis for OnPool {
    fn node(&self, graph: &mut Graph<Data>, name: &str, input: &str, make: Make, read: Read) {
        let socket = self.0.clone();
        let work = move |inputs: Inputs<'_, Data>| read(ask(&socket, make(inputs.get(0).map_or(0, first)))?);
        graph.cpu(name, work).inputs([input]);
    }

    fn each(&self, make: Make, read: Read) -> Each<Data> {
        let socket = self.0.clone();
        Each::cpu(move |item: &Data| read(ask(&socket, make(first(item)))?))
    }
}

type Job = (i64, Sender<Result<Vec<Item>, String>>);

/// So many threads that take requests.
pub(crate) struct Threads {
    jobs: Mutex<Sender<Job>>,
}

impl Threads {
    pub(crate) fn start(server: &Server, threads: usize) -> Result<Threads, Box<dyn Error>> {
        let (tx, rx) = channel::<Job>();
        let jobs = Arc::new(Mutex::new(rx));
        for _ in 0..threads {
            let (jobs, mut connection) = (jobs.clone(), server.socket().connect()?);
            std::thread::spawn(move || {
                while let Ok((viewer, answer)) =
                    { jobs.lock().unwrap_or_else(PoisonError::into_inner).recv() }
                {
                    let _ = answer.send(feed(&mut connection, viewer).map_err(|error| error.to_string()));
                }
            });
        }
        Ok(Threads { jobs: Mutex::new(tx) })
    }

    pub(crate) fn request(&self, viewer: i64) -> Result<Vec<Item>, Box<dyn Error>> {
        let (tx, rx) = channel();
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner).send((viewer, tx))?;
        Ok(rx.recv()??)
    }
}

fn feed(connection: &mut Connection, viewer: i64) -> Result<Vec<Item>, Box<dyn Error>> {
    let mut all: Vec<Item> = Vec::new();
    for branch in ["follow", "recommend"] {
        let mut known = Vec::new();
        for user in read_list(one(connection, list(branch, viewer))?)?.iter() {
            for medium in read_list(one(connection, list("media", user.id))?)?.iter() {
                known.push(read_meta(one(connection, meta(medium.id))?)?);
            }
        }
        all.extend(filter(&score(&known)));
    }
    Ok(sort(all).into_iter().take(TAKEN).collect())
}

fn one(connection: &mut Connection, command: Command) -> Result<Value, Box<dyn Error>> {
    connection.ask(&[command])?.pop().ok_or_else(|| "no reply".into())
}
