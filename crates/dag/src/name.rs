//! `Name`: what a node is called. Text for people, numbers for graphs that a program makes by the million.

use std::fmt;
use std::sync::Arc;

/// What a node is called.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Name {
    /// A number. Nodes named 0, 1, 2 … in the order they are added are found without a look-up.
    Number(u64),
    /// A text.
    Text(Arc<str>),
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Name::Number(number) => write!(f, "{number}"),
            Name::Text(text) => f.write_str(text),
        }
    }
}

impl From<&str> for Name {
    fn from(text: &str) -> Name {
        Name::Text(text.into())
    }
}

impl From<String> for Name {
    fn from(text: String) -> Name {
        Name::Text(text.into())
    }
}

impl From<&String> for Name {
    fn from(text: &String) -> Name {
        Name::Text(text.as_str().into())
    }
}

impl From<u32> for Name {
    fn from(number: u32) -> Name {
        Name::Number(number.into())
    }
}

impl From<u64> for Name {
    fn from(number: u64) -> Name {
        Name::Number(number)
    }
}

impl From<&Name> for Name {
    fn from(name: &Name) -> Name {
        name.clone()
    }
}
