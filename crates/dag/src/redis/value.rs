//! `Value`: a reply. Nil is not empty, an error inside of a reply is not the reply's, and maps keep their order.

/// A reply, of RESP2 or RESP3.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Nothing: a key that is not there.
    Nil,
    /// True or false.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A floating-point number.
    Double(f64),
    /// An integer of any size, in digits.
    Big(String),
    /// A short text such as OK.
    Status(String),
    /// Bytes, be they none.
    Bytes(Vec<u8>),
    /// A text with its format (`txt`, `mkd`).
    Verbatim(String, Vec<u8>),
    /// An error within a reply.
    Error(String),
    /// A list.
    Array(Vec<Value>),
    /// Pairs, in the server's order.
    Map(Vec<(Value, Value)>),
    /// A list without order.
    Set(Vec<Value>),
    /// A message that is no reply.
    Push(Vec<Value>),
}

impl Value {
    /// The bytes of a string of any kind.
    pub fn bytes(&self) -> Option<&[u8]> {
        match self {
            Value::Bytes(bytes) | Value::Verbatim(_, bytes) => Some(bytes),
            Value::Status(text) => Some(text.as_bytes()),
            _ => None,
        }
    }

    /// The items of an array, a set or a push.
    pub fn items(&self) -> Option<&[Value]> {
        match self {
            Value::Array(items) | Value::Set(items) | Value::Push(items) => Some(items),
            _ => None,
        }
    }
}
