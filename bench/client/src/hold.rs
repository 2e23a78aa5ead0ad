//! Opens connections and keeps them idle: each has sent one byte and got it back, so the server has it.

use std::io::{Read, Write};

use crate::Outcome;
use crate::link::tcp;
use crate::params::Params;

pub(crate) fn run(params: &mut Params) -> Outcome {
    let address: String = params.take("at", String::new())?;
    let conns: usize = params.take("conns", 1)?;
    params.finish()?;
    let mut held = Vec::with_capacity(conns);
    for index in 0..conns {
        let mut stream = tcp(&address).map_err(|why| format!("connection {index}: {why}"))?;
        let mut byte = [0_u8];
        stream.write_all(b"x").and_then(|()| stream.read_exact(&mut byte)).map_err(|why| why.to_string())?;
        if byte != *b"x" {
            return Err(format!("connection {index}: another byte came back"));
        }
        held.push(stream);
    }
    println!(r#"{{"held":{}}}"#, held.len());
    std::io::stdin().read_to_end(&mut Vec::new()).map_err(|why| why.to_string())?;
    Ok(r#"{"held":0}"#.to_owned())
}
