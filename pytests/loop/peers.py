"""Owns the small protocols and connections the behaviour tests are made of. Waiting is always for an event,
never for time.
"""

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, cast

LOCAL = "127.0.0.1"
T = TypeVar("T")


class Errors(list[dict[str, Any]]):
    """What reached the loop's exception handler. A test that expects something takes it out."""

    lenient = False  # whether more may come

    def take(self) -> list[dict[str, Any]]:
        found = list(self)
        self.clear()
        return found


class Record(asyncio.Protocol):
    """Writes down what happened to it, in order, and lets tests wait for it."""

    def __init__(self, *, keep_open: bool = False) -> None:
        loop = asyncio.get_running_loop()
        self.calls: list[str] = []
        self.data = bytearray()
        self.made: asyncio.Future[asyncio.Transport] = loop.create_future()
        self.eof: asyncio.Future[None] = loop.create_future()
        self.lost: asyncio.Future[BaseException | None] = loop.create_future()
        self.paused = asyncio.Event()
        self.resumed = asyncio.Event()
        self._more = asyncio.Event()
        self._keep_open = keep_open

    @property
    def transport(self) -> asyncio.Transport:
        return self.made.result()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.calls.append("connection_made")
        self.made.set_result(cast(asyncio.Transport, transport))

    def data_received(self, data: bytes) -> None:
        self.calls.append("data_received")
        self.data += data
        self._more.set()

    def eof_received(self) -> bool:
        self.calls.append("eof_received")
        self.eof.set_result(None)
        self._more.set()
        return self._keep_open

    def pause_writing(self) -> None:
        self.calls.append("pause_writing")
        self.resumed.clear()
        self.paused.set()

    def resume_writing(self) -> None:
        self.calls.append("resume_writing")
        self.paused.clear()
        self.resumed.set()

    def connection_lost(self, exc: BaseException | None) -> None:
        self.calls.append("connection_lost")
        self.lost.set_result(exc)
        self._more.set()

    async def received(self, size: int) -> bytes:
        """Waits until so many bytes are there (or the connection is over) and gives all of them."""
        while len(self.data) < size and not self.lost.done() and not self.eof.done():
            self._more.clear()
            await self._more.wait()
        return bytes(self.data)


class Buffered(asyncio.BufferedProtocol):
    """A BufferedProtocol over one small buffer."""

    def __init__(self, size: int = 16) -> None:
        loop = asyncio.get_running_loop()
        self.buffer = bytearray(size)
        self.data = bytearray()
        self.calls: list[str] = []
        self.made: asyncio.Future[asyncio.Transport] = loop.create_future()
        self.eof: asyncio.Future[None] = loop.create_future()
        self.lost: asyncio.Future[BaseException | None] = loop.create_future()

    @property
    def transport(self) -> asyncio.Transport:
        return self.made.result()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.made.set_result(cast(asyncio.Transport, transport))

    def get_buffer(self, sizehint: int) -> bytearray:
        self.calls.append("get_buffer")
        return self.buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.calls.append("buffer_updated")
        self.data += self.buffer[:nbytes]

    def eof_received(self) -> bool | None:
        self.eof.set_result(None)
        return None

    def connection_lost(self, exc: BaseException | None) -> None:
        self.lost.set_result(exc)


class Pair:
    """A connected pair of transports with their protocols, and the server they met at."""

    def __init__(self, server: asyncio.Server, here: Any, there: Any) -> None:
        self.server = server
        self.client = here
        self.peer = there

    async def close(self) -> None:
        for end in (self.client, self.peer):
            if not end.lost.done():
                end.transport.abort()
        for end in (self.client, self.peer):
            await end.lost
        self.server.close()
        await self.server.wait_closed()


async def connect(
    client: Callable[[], Any] = Record,
    peer: Callable[[], Any] = Record,
    *,
    server_ssl: ssl.SSLContext | None = None,
    client_ssl: ssl.SSLContext | None = None,
    path: str | None = None,
    **options: Any,
) -> Pair:
    """A connection over TCP (or a Unix socket at `path`), with TLS if contexts are given."""
    loop: Any = asyncio.get_running_loop()
    accepted: asyncio.Future[Any] = loop.create_future()

    def make() -> Any:
        protocol = peer()
        accepted.set_result(protocol)
        return protocol

    name = {"server_hostname": "localhost"} if client_ssl else {}
    if path is None:
        server = await loop.create_server(make, LOCAL, 0, ssl=server_ssl)
        port = server.sockets[0].getsockname()[1]
        _, here = await loop.create_connection(client, LOCAL, port, ssl=client_ssl, **name, **options)
    else:
        server = await loop.create_unix_server(make, path, ssl=server_ssl)
        _, here = await loop.create_unix_connection(client, path, ssl=client_ssl, **name, **options)
    there = await accepted
    await there.made
    return Pair(server, here, there)


async def raw_client(
    loop: asyncio.AbstractEventLoop, address: Any, context: ssl.SSLContext
) -> tuple[socket.socket, ssl.SSLObject, Any, Any]:
    """A TLS client by hand, which can be rude."""
    raw = socket.socket()
    raw.setblocking(False)
    await loop.sock_connect(raw, address)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
    while True:
        try:
            tls.do_handshake()
            break
        except ssl.SSLWantReadError:
            await loop.sock_sendall(raw, outgoing.read())
            incoming.write(await loop.sock_recv(raw, 1 << 16))
    await loop.sock_sendall(raw, outgoing.read())
    return raw, tls, incoming, outgoing


def listener(backlog: int = 100) -> socket.socket:
    """A plain listening socket, non-blocking."""
    sock = socket.create_server((LOCAL, 0), backlog=backlog)
    sock.setblocking(False)
    return sock


Sockets = tuple[socket.socket, socket.socket]


def pair() -> Sockets:
    """A connected pair of non-blocking sockets."""
    left, right = socket.socketpair()
    left.setblocking(False)
    right.setblocking(False)
    return left, right


def reopened(number: int) -> Sockets:
    """A pair of sockets of which the first has this very number, which was free."""
    left, right = pair()
    for one, other in ((left, right), (right, left)):
        if one.fileno() == number:
            return one, other
    raise AssertionError("the number was taken by somebody else")


def close(*socks: socket.socket) -> None:
    for sock in socks:
        sock.close()


async def turns(number: int) -> None:
    """Lets the loop make so many turns."""
    for _ in range(number):
        await asyncio.sleep(0)


async def settled(awaitable: Awaitable[T]) -> T | BaseException:
    """The result of an awaitable, or its exception."""
    try:
        return await awaitable
    except BaseException as error:
        return error


def pattern(size: int, seed: int = 0) -> bytes:
    """Bytes in which a lost, doubled or swapped part shows: counters of four bytes, cut to size."""
    count = size // 4 + 1
    return b"".join((seed + index & 0xFFFFFFFF).to_bytes(4, "big") for index in range(count))[:size]


Loop = asyncio.AbstractEventLoop
