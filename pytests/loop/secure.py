"""Owns what the tests of TLS connections are made of: servers of streams, blocking peers, protocols that
write down what they are told.
"""

import asyncio
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any

import loops

BOTH = {name: loops.factory(name) for name in ("stdlib", "ours")}
HOST = "127.0.0.1"
LIMIT = 60.0

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def serving(handler: Handler, context: ssl.SSLContext | None, **options: Any) -> AsyncIterator[int]:
    """A server of streams; gives its port."""
    server = await asyncio.start_server(handler, HOST, 0, ssl=context, **options)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        with suppress(TimeoutError):
            await asyncio.wait_for(server.wait_closed(), 5)


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Sends back what it gets."""
    with suppress(ConnectionError, ssl.SSLError):
        while data := await reader.read(1 << 18):
            writer.write(data)
            await writer.drain()
    await closed(writer)


async def closed(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with suppress(ConnectionError, ssl.SSLError, TimeoutError):
        await writer.wait_closed()


@contextmanager
def peer(work: Callable[[socket.socket], None]) -> Iterator[int]:
    """A blocking peer on a thread, for what a loop would not do. Gives its port."""
    listener = socket.create_server((HOST, 0))
    failures: list[BaseException] = []

    def serve() -> None:
        try:
            connection, _ = listener.accept()
            with connection:
                connection.settimeout(LIMIT)
                work(connection)
        except BaseException as failure:
            failures.append(failure)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        thread.join(LIMIT)
        listener.close()
    assert not failures


class Recorder(asyncio.Protocol):
    """Writes down what it is told."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.data = bytearray()
        self.reason: BaseException | None = None
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.some: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.transport: Any = None

    def connection_made(self, transport: Any) -> None:
        self.events.append("made")
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        assert type(data) is bytes
        if "data" not in self.events:
            self.events.append("data")
        self.data += data
        if not self.some.done():
            self.some.set_result(None)

    def eof_received(self) -> None:
        self.events.append("eof")

    def connection_lost(self, exc: BaseException | None) -> None:
        self.events.append("lost")
        self.reason = exc
        self.lost.set_result(None)


class Buffered(Recorder, asyncio.BufferedProtocol):
    """The same, with a buffer of its own that is smaller than a record."""

    room = bytearray(1000)

    def get_buffer(self, sizehint: int) -> memoryview:
        return memoryview(self.room)

    def buffer_updated(self, nbytes: int) -> None:
        self.data_received(bytes(self.room[:nbytes]))


def connect(
    factory: Callable[[], Any], port: int, context: ssl.SSLContext, **options: Any
) -> Coroutine[Any, Any, tuple[Any, Any]]:
    loop = asyncio.get_running_loop()
    return loop.create_connection(factory, HOST, port, ssl=context, server_hostname="localhost", **options)
