"""How servers that speak TLS accept: handshakes that fail or never come, factories that fail, contexts."""

import asyncio
import contextvars
import gc
import socket
import ssl
from pathlib import Path
from typing import Any

import pytest
from peers import LOCAL, Errors, Loop, Record, raw_client, settled, turns


def open_files() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


async def refused(loop: Loop, address: Any, words: bytes) -> None:
    """A client that says something and is shown the door, perhaps with an alert."""
    client = socket.socket()
    client.setblocking(False)
    await loop.sock_connect(client, address)
    await loop.sock_sendall(client, words)
    while isinstance(answer := await settled(loop.sock_recv(client, 100)), bytes) and answer:
        pass
    client.close()


async def test_a_handshake_that_fails_is_told_of_in_debug_mode_only(
    loop: Loop, server_context: ssl.SSLContext, errors: Errors
) -> None:
    made: list[Record] = []

    def factory() -> Record:
        made.append(Record())
        return made[-1]

    server = await loop.create_server(factory, LOCAL, 0, ssl=server_context)
    await refused(loop, server.sockets[0].getsockname(), b"GET / HTTP/1.1\r\n\r\n")
    server.close()
    await turns(5)
    told = errors.take()
    if loop.get_debug():
        (context,) = told
        assert set(context) == {"message", "exception", "protocol", "transport"}
        assert context["message"] == "Error on transport creation for incoming connection"
        assert isinstance(context["exception"], ssl.SSLError)
        assert context["protocol"] is made[0] and context["transport"].is_closing()
    else:
        assert told == []
    assert made[0].calls == []


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
async def test_a_factory_that_fails_ends_before_the_handshake(
    loop: Loop, server_context: ssl.SSLContext, errors: Errors
) -> None:
    def factory() -> Record:
        raise ZeroDivisionError("no protocol")

    server = await loop.create_server(factory, LOCAL, 0, ssl=server_context)
    client = socket.socket()
    client.setblocking(False)
    await loop.sock_connect(client, server.sockets[0].getsockname())
    await turns(5)
    messages = [(context["message"], type(context["exception"]), len(context)) for context in errors.take()]
    expected = ("Error on transport creation for incoming connection", ZeroDivisionError, 2)
    assert messages == ([expected] if loop.get_debug() else [])
    gc.collect()  # the traceback has the connection
    assert await loop.sock_recv(client, 10) == b""
    client.close()
    server.close()


async def test_each_connection_has_a_context_of_its_own(
    loop: Loop, server_context: ssl.SSLContext, client_context: ssl.SSLContext
) -> None:
    variable: contextvars.ContextVar[int] = contextvars.ContextVar("variable", default=0)
    seen: list[tuple[str, int]] = []
    made: list[Record] = []

    class Noting(Record):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            seen.append(("made", variable.get()))
            super().connection_made(transport)

    def factory() -> Record:
        seen.append(("factory", variable.get()))
        variable.set(len(made) + 1)
        made.append(Noting())
        return made[-1]

    server = await loop.create_server(factory, LOCAL, 0, ssl=server_context)
    for _ in range(2):
        raw, *_ = await raw_client(loop, server.sockets[0].getsockname(), client_context)
        await made[-1].made
        made[-1].transport.abort()
        await made[-1].lost
        raw.close()
    server.close()
    assert seen == [("factory", 0), ("made", 1), ("factory", 0), ("made", 2)]


async def test_handshakes_that_do_not_come_need_no_task_each(
    loop: Loop, server_context: ssl.SSLContext, errors: Errors, column: str
) -> None:
    made: list[Record] = []

    def factory() -> Record:
        made.append(Record())
        return made[-1]

    server = await loop.create_server(factory, LOCAL, 0, ssl=server_context)
    before, files = len(asyncio.all_tasks()), open_files()
    clients = [socket.create_connection(server.sockets[0].getsockname()) for _ in range(20)]
    while len(made) < 20:
        await turns(1)
    await turns(3)
    if column == "ours":
        assert len(asyncio.all_tasks()) == before
    for client in clients:
        client.close()
    # Each end is told of in debug mode, by a callback that comes after it.
    while open_files() > files or len(asyncio.all_tasks()) > before:
        await turns(1)
    while loop.get_debug() and len(errors) < len(clients):
        await turns(1)
    errors.take()
    server.close()
