//! The `key=value` arguments of a measurement. A key nobody asked for is an error: a typo must not measure
//! something else.

use std::collections::BTreeMap;
use std::str::FromStr;

pub(crate) struct Params(BTreeMap<String, String>);

impl Params {
    pub(crate) fn parse(args: impl Iterator<Item = String>) -> Result<Params, String> {
        args.map(|arg| match arg.split_once('=') {
            Some((key, value)) => Ok((key.to_owned(), value.to_owned())),
            None => Err(format!("not key=value: {arg}")),
        })
        .collect::<Result<_, _>>()
        .map(Params)
    }

    /// Takes one parameter out, or its default.
    pub(crate) fn take<T: FromStr>(&mut self, key: &str, default: T) -> Result<T, String> {
        match self.0.remove(key) {
            Some(value) => value.parse().map_err(|_| format!("{key} cannot be {value}")),
            None => Ok(default),
        }
    }

    pub(crate) fn finish(&self) -> Result<(), String> {
        match self.0.keys().next() {
            Some(key) => Err(format!("no such parameter: {key}")),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn params(args: &[&str]) -> Result<Params, String> {
        Params::parse(args.iter().map(|arg| (*arg).to_owned()))
    }

    #[test]
    fn a_parameter_nobody_takes_is_an_error() {
        let mut params = params(&["posts=3", "prodcers=2"]).unwrap();
        assert_eq!(params.take("posts", 1_u64), Ok(3));
        assert_eq!(params.take("producers", 1_u64), Ok(1));
        assert!(params.finish().is_err());
    }

    #[test]
    fn an_argument_without_a_key_is_an_error() {
        assert!(params(&["posts"]).is_err());
    }
}
