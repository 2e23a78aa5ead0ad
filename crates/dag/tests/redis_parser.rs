//! The parser of replies: whatever the pieces they come in, the same as `redis-protocol` says; and never a panic.
// One thread: for ThreadSanitizer there is nothing to see.
#![cfg(not(tsan))]
#![allow(clippy::indexing_slicing, clippy::unwrap_used)]

use dag::redis::{Error, Parser, Value};
use proptest::prelude::*;
use redis_protocol::resp2::types::OwnedFrame as Frame2;
use redis_protocol::resp3::types::OwnedFrame as Frame3;

fn values(resp3: bool) -> impl Strategy<Value = Value> {
    let text = "[a-zA-Z0-9 ]{0,20}";
    let string = prop::collection::vec(any::<u8>(), 0..40);
    let mut leaves = vec![
        Just(Value::Nil).boxed(),
        any::<i64>().prop_map(Value::Int).boxed(),
        text.prop_map(Value::Status).boxed(),
        "ERR [a-z]{0,20}".prop_map(Value::Error).boxed(),
        string.prop_map(Value::Bytes).boxed(),
    ];
    if resp3 {
        leaves.extend([
            any::<bool>().prop_map(Value::Bool).boxed(),
            any::<f64>().prop_filter("finite", |x| x.is_finite()).prop_map(Value::Double).boxed(),
            "[1-9][0-9]{20,40}".prop_map(Value::Big).boxed(),
            text.prop_map(|text| Value::Verbatim("txt".into(), text.into_bytes())).boxed(),
        ]);
    }
    let leaf = prop::strategy::Union::new(leaves);
    leaf.prop_recursive(4, 60, 8, move |inner| {
        let list = prop::collection::vec(inner.clone(), 0..8);
        let mut kinds = vec![list.clone().prop_map(Value::Array).boxed()];
        if resp3 {
            // In `redis-protocol` a map has no order, and keys and members are plain: one of each, then.
            let key = || prop::collection::vec(any::<u8>(), 0..9).prop_map(Value::Bytes);
            kinds.push(prop::collection::vec((key(), inner), 0..2).prop_map(Value::Map).boxed());
            kinds.push(prop::collection::vec(key(), 0..2).prop_map(Value::Set).boxed());
        }
        prop::strategy::Union::new(kinds)
    })
}

/// As the protocol's description has it.
fn encode(value: &Value, resp3: bool, out: &mut Vec<u8>) {
    let line =
        |out: &mut Vec<u8>, prefix: char, text: &str| out.extend(format!("{prefix}{text}\r\n").bytes());
    let string = |out: &mut Vec<u8>, prefix: char, bytes: &[u8]| {
        out.extend(format!("{prefix}{}\r\n", bytes.len()).bytes());
        out.extend(bytes);
        out.extend(b"\r\n");
    };
    match value {
        Value::Nil if resp3 => line(out, '_', ""),
        Value::Nil => line(out, '$', "-1"),
        Value::Bool(value) => line(out, '#', if *value { "t" } else { "f" }),
        Value::Int(number) => line(out, ':', &number.to_string()),
        Value::Double(number) => line(out, ',', &format!("{number:?}")),
        Value::Big(digits) => line(out, '(', digits),
        Value::Status(text) => line(out, '+', text),
        Value::Error(text) => line(out, '-', text),
        Value::Bytes(bytes) => string(out, '$', bytes),
        Value::Verbatim(format, bytes) => string(out, '=', &[format.as_bytes(), b":", bytes].concat()),
        Value::Array(items) => {
            line(out, '*', &items.len().to_string());
            items.iter().for_each(|item| encode(item, resp3, out));
        }
        Value::Set(items) => {
            line(out, '~', &items.len().to_string());
            items.iter().for_each(|item| encode(item, resp3, out));
        }
        Value::Push(items) => {
            line(out, '>', &items.len().to_string());
            items.iter().for_each(|item| encode(item, resp3, out));
        }
        Value::Map(pairs) => {
            line(out, '%', &pairs.len().to_string());
            for (key, value) in pairs {
                encode(key, resp3, out);
                encode(value, resp3, out);
            }
        }
    }
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap()
}

fn from2(frame: Frame2) -> Value {
    match frame {
        Frame2::SimpleString(text_) => Value::Status(text(text_)),
        Frame2::Error(text) => Value::Error(text),
        Frame2::Integer(number) => Value::Int(number),
        Frame2::BulkString(bytes) => Value::Bytes(bytes),
        Frame2::Array(items) => Value::Array(items.into_iter().map(from2).collect()),
        Frame2::Null => Value::Nil,
    }
}

fn from3(frame: Frame3) -> Value {
    let all = |items: Vec<Frame3>| items.into_iter().map(from3).collect();
    match frame {
        Frame3::BlobString { data, .. } => Value::Bytes(data),
        Frame3::SimpleString { data, .. } => Value::Status(text(data)),
        Frame3::SimpleError { data, .. } => Value::Error(data),
        Frame3::Boolean { data, .. } => Value::Bool(data),
        Frame3::Null => Value::Nil,
        Frame3::Number { data, .. } => Value::Int(data),
        Frame3::Double { data, .. } => Value::Double(data),
        Frame3::BigNumber { data, .. } => Value::Big(text(data)),
        Frame3::VerbatimString { data, .. } => Value::Verbatim("txt".into(), data),
        Frame3::Array { data, .. } => Value::Array(all(data)),
        Frame3::Map { data, .. } => {
            Value::Map(data.into_iter().map(|(key, value)| (from3(key), from3(value))).collect())
        }
        Frame3::Set { data, .. } => Value::Set(all(data.into_iter().collect())),
        other => Value::Error(format!("{other:?}")),
    }
}

/// Feeds bytes in pieces of these lengths, over and over, and takes what comes out.
fn feed(bytes: &[u8], pieces: &[usize]) -> Result<Vec<Value>, Error> {
    let mut parser = Parser::default();
    let (mut rest, mut found) = (bytes, Vec::new());
    for piece in pieces.iter().cycle() {
        if rest.is_empty() {
            break;
        }
        let space = parser.space();
        let length = (*piece).min(rest.len()).min(space.len());
        let (piece, after) = rest.split_at(length);
        space.iter_mut().zip(piece).for_each(|(to, from)| *to = *from);
        parser.filled(length);
        rest = after;
        while let Some(value) = parser.reply()? {
            found.push(value);
        }
    }
    Ok(found)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn replies_are_the_same_in_whatever_pieces_they_come_and_as_another_parser_has_them(
        two in prop::collection::vec(values(false), 1..4),
        three in prop::collection::vec(values(true), 1..4),
        pieces in prop::collection::vec(1usize..50, 1..5),
    ) {
        let mut bytes = Vec::new();
        two.iter().for_each(|value| encode(value, false, &mut bytes));
        prop_assert_eq!(feed(&bytes, &pieces).unwrap(), two.clone());
        let (first, _) = redis_protocol::resp2::decode::decode(&bytes).unwrap().unwrap();
        prop_assert_eq!(from2(first), two[0].clone());
        bytes.clear();
        three.iter().for_each(|value| encode(value, true, &mut bytes));
        prop_assert_eq!(feed(&bytes, &pieces).unwrap(), three.clone());
        let (first, _) = redis_protocol::resp3::decode::complete::decode(&bytes).unwrap().unwrap();
        prop_assert_eq!(from3(first), three[0].clone());
    }

    #[test]
    fn whatever_is_sent_is_a_reply_an_error_or_not_complete(
        bytes in prop::collection::vec(
            prop_oneof![any::<u8>(), prop::sample::select(b"+-:$*_#,(=!~>%|\r\n0123456789".to_vec())], 0..200),
        pieces in prop::collection::vec(1usize..50, 1..5),
    ) {
        let _ = feed(&bytes, &pieces);
    }
}

#[test]
fn maps_keep_their_order_and_attributes_count_for_nothing() {
    let replies =
        feed(b"%2\r\n+b\r\n:1\r\n+a\r\n|1\r\n+ttl\r\n:3\r\n:2\r\n|1\r\n+x\r\n*0\r\n$2\r\nok\r\n", &[1])
            .unwrap();
    let status = |text: &str| Value::Status(text.into());
    let map = Value::Map(vec![(status("b"), Value::Int(1)), (status("a"), Value::Int(2))]);
    assert_eq!(replies, [map, Value::Bytes(b"ok".to_vec())]);
}

#[test]
fn nothing_and_empty_are_two_things_and_pushes_are_told_apart() {
    let replies = feed(b"$-1\r\n*-1\r\n_\r\n$0\r\n\r\n*0\r\n>1\r\n+m\r\n!3\r\nERR\r\n", &[3]).unwrap();
    let push = Value::Push(vec![Value::Status("m".into())]);
    let empty = [Value::Bytes(vec![]), Value::Array(vec![]), push, Value::Error("ERR".into())];
    assert_eq!(replies[..3], [Value::Nil, Value::Nil, Value::Nil]);
    assert_eq!(replies[3..], empty);
}

#[test]
fn what_is_nested_too_deep_or_impossibly_long_is_refused() {
    assert_eq!(feed(&b"*1\r\n".repeat(100_000), &[64]), Err(Error::Protocol("nested too deep")));
    assert_eq!(feed(b"*1\r\n+deep\r\n", &[64]).unwrap(), [Value::Array(vec![Value::Status("deep".into())])]);
    for bad in
        [&b"$-2\r\n"[..], b"$99999999999\r\n", b"*-7\r\n", b"$3\r\nabcd\r\n", b"+a\n", b"?\r\n", b"\r\n"]
    {
        assert!(feed(bad, &[64]).is_err(), "{bad:?}");
    }
    // A length is only a promise: nothing is set aside for two thousand million items.
    assert_eq!(feed(b"*2147483647\r\n", &[64]).unwrap(), []);
}
