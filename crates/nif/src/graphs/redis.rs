//! Redis commands made of the values of a node's inputs, and replies as terms. Nil is `none`, and differs from empty.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use dag::redis::{Address, Client, Command, Config, Protocol, Value as Reply};
use evloop::EventLoop;
use rustler::types::tuple::get_tuple;
use rustler::{Encoder, Env, Term};

use super::value::{Failure, Value, failure, made};
use crate::atoms;
use crate::convert::{slice, text_of};
use crate::terms::Saved;

/// One part of a command.
pub(super) enum Part {
    Bytes(Vec<u8>),
    /// The value of an input, counted from one. A list is as many arguments.
    Input(usize),
}

impl Part {
    /// A binary, or `{input, Place}`.
    pub(super) fn decode(term: Term<'_>) -> Option<Self> {
        if let Some(bytes) = slice(term) {
            return Some(Self::Bytes(bytes.to_vec()));
        }
        match get_tuple(term).ok()?.as_slice() {
            [tag, place] if atoms::input() == *tag => Some(Self::Input(place.decode().ok()?)),
            _ => None,
        }
    }
}

/// A client of a server: `{Address, Connections, InFlight, Protocol, Auth, Timeout}`, with an address of `{tcp, Text}` or `{unix, Path}`.
pub(super) fn client(events: &EventLoop, term: Term<'_>) -> Option<Client> {
    let parts = get_tuple(term).ok()?;
    let [address, connections, in_flight, protocol, auth, timeout] = parts.as_slice() else { return None };
    let (kind, at): (rustler::Atom, String) = address.decode().ok()?;
    let address = if kind == atoms::unix() {
        Address::Unix(PathBuf::from(at))
    } else {
        Address::Tcp(at.parse::<SocketAddr>().ok()?)
    };
    let mut config = Config::new(address);
    config.connections = connections.decode().ok()?;
    config.in_flight = in_flight.decode().ok()?;
    config.protocol = if protocol.decode::<u8>().ok()? == 2 { Protocol::Resp2 } else { Protocol::Resp3 };
    config.auth = auth.decode::<(String, String)>().ok();
    config.timeout = timeout.decode().ok().map(Duration::from_millis);
    Client::new(events, config).ok()
}

/// The command for a list of values.
pub(super) fn command(parts: &[Part], args: &Saved) -> Result<Command, Failure> {
    let values: Vec<Term<'_>> = args.get().decode().map_err(|_| failure(atoms::not_a_list()))?;
    let mut words: Vec<Vec<u8>> = Vec::with_capacity(parts.len());
    for part in parts {
        match part {
            Part::Bytes(bytes) => words.push(bytes.clone()),
            Part::Input(place) => match place.checked_sub(1).and_then(|place| values.get(place)) {
                Some(value) => spell(*value, &mut words)?,
                None => return Err(failure((atoms::no_input(), *place))),
            },
        }
    }
    let mut words = words.into_iter();
    let name = words.next().and_then(|name| String::from_utf8(name).ok());
    let name = name.ok_or_else(|| failure(atoms::bad_command()))?;
    Ok(words.fold(Command::new(&name), Command::arg))
}

/// A value as arguments: text, a number, or a list of those.
fn spell(value: Term<'_>, words: &mut Vec<Vec<u8>>) -> Result<(), Failure> {
    if let Some(bytes) = slice(value) {
        words.push(bytes.to_vec());
    } else if let Ok(items) = value.decode::<Vec<Term<'_>>>() {
        for item in items {
            spell(item, words)?;
        }
    } else if let Ok(number) = value.decode::<i64>() {
        words.push(number.to_string().into_bytes());
    } else if let Ok(number) = value.decode::<f64>() {
        words.push(number.to_string().into_bytes());
    } else if value.is_atom() {
        words.push(text_of(value).unwrap_or_default().into_bytes());
    } else {
        return Err(failure((atoms::bad_argument(), format!("{value:?}"))));
    }
    Ok(())
}

/// A reply as a term.
pub(super) fn value(reply: Reply) -> Value {
    Arc::new(made(|env| term(env, &reply)))
}

fn term<'a>(env: Env<'a>, reply: &Reply) -> Term<'a> {
    let list = |items: &[Reply]| {
        let empty = Term::list_new_empty(env);
        items.iter().rev().fold(empty, |list, item| list.list_prepend(term(env, item)))
    };
    match reply {
        Reply::Nil => atoms::none().encode(env),
        Reply::Bool(truth) => truth.encode(env),
        Reply::Int(number) => number.encode(env),
        Reply::Double(number) => number.encode(env),
        Reply::Big(text) | Reply::Status(text) => text.encode(env),
        Reply::Bytes(bytes) | Reply::Verbatim(_, bytes) => binary(env, bytes),
        Reply::Error(text) => (atoms::error(), text).encode(env),
        Reply::Array(items) | Reply::Set(items) | Reply::Push(items) => list(items),
        Reply::Map(pairs) => {
            let pairs: Vec<_> = pairs.iter().map(|(key, value)| (term(env, key), term(env, value))).collect();
            // Redis has no key twice.
            Term::map_from_pairs(env, &pairs).unwrap_or_else(|_| pairs.encode(env))
        }
    }
}

fn binary<'a>(env: Env<'a>, bytes: &[u8]) -> Term<'a> {
    let mut binary = rustler::NewBinary::new(env, bytes.len());
    binary.as_mut_slice().copy_from_slice(bytes);
    rustler::Binary::from(binary).to_term(env)
}
