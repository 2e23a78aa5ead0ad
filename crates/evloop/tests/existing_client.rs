//! A client and a server written by others for any runtime, WebSocket over `futures-io`, run on the loop unchanged.
#![allow(clippy::unwrap_used)]

mod common;

use async_tungstenite::tungstenite::Message;
use async_tungstenite::{accept_async, client_async};
use common::started;
use evloop::Local;
use evloop::net::{TcpListener, TcpStream};
use futures_lite::StreamExt;
use futures_lite::future::block_on;

#[test]
fn a_websocket_library_runs_on_the_loop() {
    let events = started();
    let talk = events.spawn_with(|| async {
        let mut listener = TcpListener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = listener.local_addr().unwrap();
        let server = async move {
            let mut socket = accept_async(listener.accept().await.unwrap()).await.unwrap();
            while let Some(Ok(message)) = socket.next().await {
                if message.is_text() || message.is_binary() {
                    socket.send(message).await.unwrap();
                }
            }
        };
        let server = Local::current().unwrap().spawn(server).unwrap();
        let stream = TcpStream::connect(address).await.unwrap();
        let (mut socket, response) = client_async(format!("ws://{address}/"), stream).await.unwrap();
        assert_eq!(response.status(), 101);
        for size in [0, 1, 125, 126, 65_535, 65_536, 1 << 20] {
            let sent = Message::binary(vec![size as u8; size]);
            socket.send(sent.clone()).await.unwrap();
            assert_eq!(socket.next().await.unwrap().unwrap(), sent);
        }
        socket.close(None).await.unwrap();
        assert!(socket.next().await.unwrap().unwrap().is_close());
        server.await.unwrap();
    });
    block_on(talk.unwrap()).unwrap();
}
