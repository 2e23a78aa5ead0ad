//! The same feed on threads that block: each has a connection of its own and sends one command at a time, as the nodes
//! of the first architecture did.

use std::error::Error;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

use crate::data::{Connection, Server, TAKEN};
use crate::plan::{Item, filter, list, meta, read_list, read_meta, score, sort};

type Job = (i64, Sender<Result<usize, String>>);

/// So many threads that take requests.
pub(crate) struct Pool {
    jobs: Mutex<Sender<Job>>,
}

impl Pool {
    pub(crate) fn start(server: &Server, threads: usize) -> Result<Pool, Box<dyn Error>> {
        let (tx, rx) = channel::<Job>();
        let jobs = Arc::new(Mutex::new(rx));
        for _ in 0..threads {
            let (jobs, mut connection) = (jobs.clone(), server.connect()?);
            std::thread::spawn(move || {
                while let Ok((viewer, answer)) =
                    { jobs.lock().unwrap_or_else(PoisonError::into_inner).recv() }
                {
                    let _ = answer.send(feed(&mut connection, viewer).map_err(|error| error.to_string()));
                }
            });
        }
        Ok(Pool { jobs: Mutex::new(tx) })
    }

    pub(crate) fn request(&self, viewer: i64) -> Result<usize, Box<dyn Error>> {
        let (tx, rx) = channel();
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner).send((viewer, tx))?;
        Ok(rx.recv()??)
    }
}

fn feed(connection: &mut Connection, viewer: i64) -> Result<usize, Box<dyn Error>> {
    let mut all: Vec<Item> = Vec::new();
    for branch in ["follow", "recommend"] {
        let mut known = Vec::new();
        for user in read_list(one(connection, list(branch, viewer))?)?.iter() {
            for medium in read_list(one(connection, list("media", user.id))?)?.iter() {
                known.extend(read_meta(one(connection, meta(medium.id))?)?.iter().cloned());
            }
        }
        all.extend(filter(&score(&known)));
    }
    Ok(sort(all).into_iter().take(TAKEN).count())
}

fn one(
    connection: &mut Connection,
    command: dag::redis::Command,
) -> Result<dag::redis::Value, Box<dyn Error>> {
    connection.ask(&[command])?.pop().ok_or_else(|| "no reply".into())
}
