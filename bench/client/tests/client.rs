//! The client against small servers of its own: honest ones are counted, the others end it with a reason.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "helpers of tests, outside of any #[test]")]

use std::io::{Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::os::unix::net::UnixListener;
use std::process::{Command, Output, Stdio};
use std::thread;

fn client(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_bench-client")).args(words).output().unwrap()
}

/// What comes in goes out, changed by `twist`; the connection ends when `twist` empties it.
fn serve<S: Read + Write + Send + 'static>(mut stream: S, twist: fn(&mut Vec<u8>)) {
    thread::spawn(move || {
        let mut buffer = vec![0; 65536];
        while let Ok(count @ 1..) = stream.read(&mut buffer) {
            let mut answer = buffer[..count].to_vec();
            twist(&mut answer);
            if answer.is_empty() || stream.write_all(&answer).is_err() {
                return;
            }
        }
    });
}

fn tcp_server(twist: fn(&mut Vec<u8>)) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || listener.incoming().flatten().for_each(|stream| serve(stream, twist)));
    format!("at={address}")
}

/// All echoes; the slice that is reported may have none, where most of the time was spent waiting for a lost one.
fn ops(output: &Output) -> u64 {
    let line = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let key = r#""all_ops":"#;
    let start = line.find(key).unwrap() + key.len();
    line[start..].split(',').next().unwrap().parse().unwrap()
}

#[test]
fn honest_echoes_are_counted_with_one_connection_and_with_many() {
    let at = tcp_server(|_| ());
    for (size, conns) in [("1", "1"), ("1024", "8"), ("300000", "1"), ("300000", "8")] {
        let words = ["echo", &at, &format!("size={size}"), &format!("conns={conns}"), "warm=5", "millis=50"];
        assert!(ops(&client(&words)) > 0, "{size} bytes, {conns} connections");
    }
}

#[test]
fn unix_sockets_are_spoken_to() {
    let path = std::env::temp_dir().join(format!("bench-client-{}", std::process::id()));
    let listener = UnixListener::bind(&path).unwrap();
    thread::spawn(move || listener.incoming().flatten().for_each(|stream| serve(stream, |_| ())));
    let output = client(&["echo", "net=unix", &format!("at={}", path.display()), "conns=4", "millis=30"]);
    std::fs::remove_file(&path).unwrap();
    assert!(ops(&output) > 0);
}

/// A server of frames that begin and end with a segment: it answers each without its mask.
fn websocket_server(first: u8) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = format!("at={}/ws", listener.local_addr().unwrap());
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            thread::spawn(move || {
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    let mut byte = [0];
                    stream.read_exact(&mut byte).unwrap();
                    head.push(byte[0]);
                }
                assert!(head.starts_with(b"GET /ws HTTP/1.1\r\n"));
                stream.write_all(b"HTTP/1.1 101 Switching Protocols\r\n\r\n").unwrap();
                let mut frame = [0; 106];
                while stream.read_exact(&mut frame).is_ok() {
                    assert_eq!(frame[..6], [0x82, 0x80 | 100, 0, 0, 0, 0]);
                    // In two parts, so that the client sees a frame that is not all there.
                    let answer = [&[first, 100], &frame[6..]].concat();
                    stream.write_all(&answer[..1]).unwrap();
                    stream.write_all(&answer[1..]).unwrap();
                }
            });
        }
    });
    at
}

#[test]
fn frames_of_websockets_are_put_on_and_taken_off() {
    for conns in ["conns=1", "conns=4"] {
        let words = ["echo", "net=websocket", &websocket_server(0x82), "size=100", conns, "millis=30"];
        assert!(ops(&client(&words)) > 0, "{conns}");
        let words = ["echo", "net=websocket", &websocket_server(0x81), "size=100", conns, "millis=30"];
        let output = client(&words);
        assert!(String::from_utf8_lossy(&output.stderr).contains("not one binary frame"), "{conns}");
    }
}

#[test]
fn a_lost_datagram_is_sent_again_and_counted() {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let at = format!("at={}", socket.local_addr().unwrap());
    thread::spawn(move || {
        let mut buffer = [0; 2048];
        // Every hundredth is dropped.
        for turn in 0_u64.. {
            let Ok((count, from)) = socket.recv_from(&mut buffer) else { return };
            if turn % 100 != 50 {
                socket.send_to(&buffer[..count], from).unwrap();
            }
        }
    });
    for conns in ["conns=1", "conns=4"] {
        let output = client(&["echo", "net=udp", &at, conns, "warm=0", "millis=400"]);
        assert!(ops(&output) > 0);
        assert!(!String::from_utf8_lossy(&output.stdout).contains(r#""lost":0"#), "{conns}");
    }
}

#[test]
fn a_changed_byte_ends_the_client() {
    let at = tcp_server(|answer| {
        if let Some(last) = answer.last_mut() {
            *last ^= 1;
        }
    });
    for conns in ["conns=1", "conns=4"] {
        let output = client(&["echo", &at, conns, "millis=30"]);
        assert!(!output.status.success());
        assert!(String::from_utf8_lossy(&output.stderr).contains("came back changed"));
    }
}

#[test]
fn a_surplus_byte_ends_the_client() {
    let at = tcp_server(|answer| answer.push(0));
    assert!(!client(&["echo", &at, "millis=30"]).status.success());
}

#[test]
fn a_closed_connection_ends_the_client() {
    let at = tcp_server(Vec::clear);
    let output = client(&["echo", &at, "conns=2", "millis=30"]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("closed the connection"));
}

#[test]
fn held_connections_are_told_and_kept_until_the_input_ends() {
    let at = tcp_server(|_| ());
    let mut child = Command::new(env!("CARGO_BIN_EXE_bench-client"))
        .args(["hold", &at, "conns=20"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdin.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    assert!(String::from_utf8_lossy(&output.stdout).starts_with(r#"{"held":20}"#));
}

#[test]
fn a_parameter_that_does_not_exist_is_an_error() {
    assert!(!client(&["echo", "at=127.0.0.1:1", "sise=3"]).status.success());
    assert!(!client(&["shout"]).status.success());
}
