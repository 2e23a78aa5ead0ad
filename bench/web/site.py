"""The app that all servers serve: bare ASGI, so that nothing but the server is measured."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

Message = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

PLAIN = b"Hello, world!"
LARGE = bytes(range(33, 97)) * 160
"""10 KiB of text."""
NAP = 0.01

_TEXT = [(b"content-type", b"text/plain; charset=utf-8")]
_JSON = [(b"content-type", b"application/json")]


async def _respond(send: Send, body: bytes, headers: list[tuple[bytes, bytes]]) -> None:
    length = (b"content-length", str(len(body)).encode())
    await send({"type": "http.response.start", "status": 200, "headers": [*headers, length]})
    await send({"type": "http.response.body", "body": body})


async def plain(receive: Receive, send: Send) -> None:
    await _respond(send, PLAIN, _TEXT)


async def large(receive: Receive, send: Send) -> None:
    await _respond(send, LARGE, _TEXT)


async def echo(receive: Receive, send: Send) -> None:
    """JSON, read and written anew."""
    body, more = b"", True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    await _respond(send, json.dumps(json.loads(body)).encode(), _JSON)


async def sleep(receive: Receive, send: Send) -> None:
    await asyncio.sleep(NAP)
    await _respond(send, PLAIN, _TEXT)


async def websocket(receive: Receive, send: Send) -> None:
    await receive()
    await send({"type": "websocket.accept"})
    while (message := await receive())["type"] == "websocket.receive":
        await send({"type": "websocket.send", "bytes": message["bytes"]})


PATHS = {"/plain": plain, "/large": large, "/echo": echo, "/sleep": sleep, "/websocket": websocket}


async def app(scope: dict[str, Any], receive: Receive, send: Send) -> None:
    if scope["type"] == "lifespan":
        raise NotImplementedError
    await PATHS[scope["path"]](receive, send)
