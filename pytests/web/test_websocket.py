"""WebSocket (RFC 6455) and ASGI's spec for it, with websockets, wsproto and plain bytes as clients."""

import asyncio
import logging
from typing import Any

import pytest
import websockets
import wsproto
from serving import App, Message, Receive, Scope, Send, get, http, run, serving, status_of, talk
from wsproto.events import AcceptConnection, BytesMessage, CloseConnection, Ping, Pong, Request, TextMessage

received: list[Message] = []


@http
async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    assert await receive() == {"type": "websocket.connect"}
    protocols = scope["subprotocols"]
    headers = [(b"x-a", b"1"), (b"x-a", b"2")]
    await send(
        {"type": "websocket.accept", "subprotocol": protocols[-1] if protocols else None, "headers": headers}
    )
    while True:
        message = await receive()
        received.append(message)
        if message["type"] == "websocket.disconnect":
            return None
        if message["text"] == "close":
            return await send({"type": "websocket.close", "code": 4001, "reason": "as you wish"})
        if message["text"] == "return":
            return None
        if message["text"] == "raise":
            raise LookupError("as you wish")
        if message["text"] is not None:
            await send({"type": "websocket.send", "text": message["text"]})
        else:
            await send({"type": "websocket.send", "bytes": message["bytes"]})


def url(server: Any) -> str:
    return "ws://{}:{}/".format(*server.address)


def test_text_and_bytes_of_every_size_come_back() -> None:
    async def main() -> None:
        async with serving(echo) as server, websockets.connect(url(server), max_size=None) as client:
            for size in (0, 1, 125, 126, 65535, 65536, 1_000_000):
                await client.send("é" * size)
                assert await client.recv() == "é" * size
                await client.send(b"\xff" * size)
                assert await client.recv() == b"\xff" * size
            await client.send(iter(["in ", "three ", "parts"]))
            assert await client.recv() == "in three parts"
            await (await client.ping())

    run(main())


def test_a_subprotocol_is_chosen_and_headers_arrive() -> None:
    async def main() -> None:
        async with (
            serving(echo) as server,
            websockets.connect(url(server), subprotocols=["one", "two"]) as client,
        ):
            assert client.subprotocol == "two"
            assert client.response.headers.get_all("x-a") == ["1", "2"]

    run(main())


@pytest.mark.parametrize(
    ("word", "code", "reason"), [("close", 4001, "as you wish"), ("return", 1000, ""), ("raise", 1011, "")]
)
def test_a_websocket_is_closed_with_the_code_of_the_app(
    word: str, code: int, reason: str, caplog: Any
) -> None:
    async def main() -> None:
        async with serving(echo) as server, websockets.connect(url(server)) as client:
            await client.send(word)
            with pytest.raises(websockets.ConnectionClosed):
                await client.recv()
            assert (client.close_code, client.close_reason) == (code, reason)

    with caplog.at_level(logging.ERROR, "erlang.asgi"):
        run(main())
    assert bool(caplog.records) == (word == "raise")


def test_the_code_of_the_client_reaches_the_app() -> None:
    async def main() -> None:
        async with serving(echo) as server:
            for code, reason in ((4000, "bye"), (1000, "")):
                received.clear()
                async with websockets.connect(url(server)) as client:
                    await client.close(code, reason)
                while not received:
                    await asyncio.sleep(0.001)
                assert received == [{"type": "websocket.disconnect", "code": code, "reason": reason}]
            received.clear()
            client = await websockets.connect(url(server))
            client.transport.abort()
            while not received:
                await asyncio.sleep(0.001)
            assert received == [{"type": "websocket.disconnect", "code": 1006, "reason": ""}]

    run(main())


def refusing(*messages: Message) -> App:
    @http
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        for message in messages:
            await send(message)

    return app


@pytest.mark.parametrize(
    ("messages", "status", "body"),
    [
        (({"type": "websocket.close"},), 403, b"Forbidden"),
        ((), 500, b"Internal Server Error"),
        (({"type": "websocket.send", "text": "early"},), 500, b"Internal Server Error"),
        (
            (
                {"type": "websocket.http.response.start", "status": 401, "headers": [(b"x-a", b"1")]},
                {"type": "websocket.http.response.body", "body": b"not ", "more_body": True},
                {"type": "websocket.http.response.body", "body": b"you"},
            ),
            401,
            b"not you",
        ),
    ],
)
def test_nothing_is_accepted_before_the_app_does(messages: Any, status: int, body: bytes) -> None:
    async def main() -> None:
        async with serving(refusing(*messages)) as server:
            with pytest.raises(websockets.InvalidStatus) as refused:
                await websockets.connect(url(server))
            assert refused.value.response.status_code == status
            assert refused.value.response.body == body

    run(main())


HANDSHAKE = ("upgrade: websocket", "connection: upgrade")
KEY = "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ=="
VERSION = "sec-websocket-version: 13"


def test_a_handshake_is_answered_as_the_standard_has_it() -> None:
    async def main() -> None:
        async with serving(echo) as server:
            reader, writer = await asyncio.open_connection(*server.address)
            writer.write(get("/", *HANDSHAKE, KEY, VERSION, close=False))
            head = await reader.readuntil(b"\r\n\r\n")
            assert status_of(head) == 101
            assert b"sec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" in head
            writer.close()
            assert status_of(await talk(server, get("/", *HANDSHAKE, VERSION, close=False))) == 400
            old = await talk(server, get("/", *HANDSHAKE, KEY, "sec-websocket-version: 8", close=False))
            assert status_of(old) == 426 and b"sec-websocket-version: 13" in old
            posted = get("/", *HANDSHAKE, KEY, VERSION, close=False, method="POST")
            assert status_of(await talk(server, posted)) == 400

    run(main())


async def opened(server: Any) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection(*server.address)
    writer.write(get("/", *HANDSHAKE, KEY, VERSION, close=False))
    await reader.readuntil(b"\r\n\r\n")
    return reader, writer


def masked(first: int, payload: bytes) -> bytes:
    assert len(payload) < 126
    key = b"\1\2\3\4"
    return (
        bytes([first, 0x80 | len(payload)])
        + key
        + bytes(byte ^ key[at % 4] for at, byte in enumerate(payload))
    )


BROKEN = {
    "unmasked": (b"\x81\x01x", 1002),
    "reserved bit": (masked(0xC1, b"x"), 1002),
    "unknown opcode": (masked(0x83, b"x"), 1002),
    "not utf-8": (masked(0x81, b"\xff"), 1007),
    "continuation of nothing": (masked(0x80, b"x"), 1002),
    "fragmented ping": (masked(0x09, b"x"), 1002),
    "text inside of text": (masked(0x01, b"x") + masked(0x81, b"y"), 1002),
    "too large": (bytes([0x82, 0xFF]) + (2000).to_bytes(8, "big") + b"\1\2\3\4", 1009),
}


@pytest.mark.parametrize("name", BROKEN)
def test_who_breaks_the_rules_is_told_and_cut_off(name: str) -> None:
    sent, code = BROKEN[name]

    async def main() -> None:
        received.clear()
        async with serving(echo, max_message=1000) as server:
            reader, writer = await opened(server)
            writer.write(sent)
            assert await reader.read() == b"\x88\x02" + code.to_bytes(2, "big")
            writer.close()
            while not received:
                await asyncio.sleep(0.001)
            assert received == [{"type": "websocket.disconnect", "code": code, "reason": ""}]

    run(main())


def test_wsproto_agrees() -> None:
    async def main() -> None:
        async with serving(echo) as server:
            reader, writer = await asyncio.open_connection(*server.address)
            client = wsproto.WSConnection(wsproto.ConnectionType.CLIENT)
            writer.write(client.send(Request(host="a", target="/")))

            async def event() -> Any:
                while True:
                    for found in client.events():
                        return found
                    client.receive_data(await reader.read(65536) or None)

            assert isinstance(await event(), AcceptConnection)
            writer.write(client.send(TextMessage("hello")))
            assert (await event()).data == "hello"
            writer.write(client.send(BytesMessage(b"\0\xff")))
            assert (await event()).data == b"\0\xff"
            writer.write(client.send(Ping(b"payload")))
            assert await event() == Pong(b"payload")
            writer.write(client.send(CloseConnection(4002, "bye")))
            closed = await event()
            assert isinstance(closed, CloseConnection) and (closed.code, closed.reason) == (4002, "bye")
            assert await reader.read() == b""
            writer.close()

    run(main())


def test_sending_after_the_end_fails() -> None:
    async def main() -> None:
        outcome: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        @http
        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            await receive()
            await send({"type": "websocket.accept"})
            while (await receive())["type"] != "websocket.disconnect":
                pass
            try:
                await send({"type": "websocket.send", "text": "late"})
            except OSError as error:
                outcome.set_result(type(error).__name__)

        async with serving(app) as server:
            async with websockets.connect(url(server)):
                pass
            assert await outcome == "DisconnectedError"

    run(main())


def test_a_client_waits_for_an_app_that_does_not_receive() -> None:
    async def main() -> None:
        go = asyncio.Event()
        sizes: list[int] = []

        @http
        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            await receive()
            await send({"type": "websocket.accept"})
            await go.wait()
            for _ in range(500):
                sizes.append(len((await receive())["bytes"]))
            await send({"type": "websocket.close"})

        async with serving(app) as server, websockets.connect(url(server), ping_interval=None) as client:
            sent = 0

            async def flood() -> None:
                nonlocal sent
                for _ in range(500):
                    await client.send(b"x" * 100_000)
                    sent += 1

            flooding = asyncio.create_task(flood())
            before = -1
            while before != sent:
                before = sent
                await asyncio.sleep(0.05)
            assert sent < 500
            go.set()
            await flooding
            await client.wait_closed()
            assert sizes == [100_000] * 500

    run(main())
