"""Owns how the tests serve an app, on the loop that runs, at a port of its own; clients that speak bytes."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import erlang
from erlang._apps import App, Message, Receive, Scope, Send
from erlang._serve import Options, Server

LOCAL = "127.0.0.1"
LIMIT = 60.0
"""Seconds after which something hangs."""


def run(main: Coroutine[Any, Any, None]) -> None:
    async def limited() -> None:
        async with asyncio.timeout(LIMIT):
            await main

    erlang.run(limited())


@asynccontextmanager
async def serving(app: App, **options: Any) -> AsyncIterator[Server]:
    server = Server(app, Options(host=LOCAL, port=0, **options))
    await server.start()
    try:
        yield server
    finally:
        await server.stop(1)
        await server.end()


def http(app: App) -> App:
    """An app without a lifespan."""

    async def wrapped(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            raise NotImplementedError
        await app(scope, receive, send)

    return wrapped


async def respond(send: Send, body: bytes = b"", status: int = 200, headers: Any = ()) -> None:
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def read(receive: Receive) -> bytes:
    """The body of a request."""
    body = bytearray()
    while True:
        message = await receive()
        assert message["type"] == "http.request", message
        body += message["body"]
        if not message["more_body"]:
            return bytes(body)


@http
async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    await respond(send, await read(receive))


def showing(show: Callable[[Scope], Any]) -> App:
    """An app that answers with something of its scope."""

    @http
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await respond(send, repr(show(scope)).encode())

    return app


async def talk(server: Server, *parts: bytes) -> bytes:
    """Sends bytes, and takes all that comes until the server closes."""
    reader, writer = await asyncio.open_connection(*server.address)
    try:
        for part in parts:
            writer.write(part)
            await writer.drain()
        return await reader.read()
    finally:
        writer.close()


def get(path: str = "/", *headers: str, method: str = "GET", close: bool = True) -> bytes:
    """The bytes of a request."""
    lines = [f"{method} {path} HTTP/1.1", "host: a", *headers, *(["connection: close"] if close else [])]
    return "\r\n".join([*lines, "", ""]).encode()


def body_of(response: bytes) -> bytes:
    """The body of the only response."""
    head, _, body = response.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 "), response
    return body


def status_of(response: bytes) -> int:
    return int(response.split(b" ")[1])


__all__ = [
    "LIMIT",
    "LOCAL",
    "App",
    "Message",
    "Receive",
    "Scope",
    "Send",
    "Server",
    "body_of",
    "echo",
    "get",
    "http",
    "read",
    "respond",
    "run",
    "serving",
    "showing",
    "status_of",
    "talk",
]
