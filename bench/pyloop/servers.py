"""The echo servers, one per face of a loop. Each gives the address that the client is to connect to.

A server lives as long as its `async with`; connections end when the client closes them.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import cast

from pyloop import certificates

BUFFER = 256 * 1024
READ = 100 * 1024
"""What a program asks `read` and `sock_recv` for: below the size that malloc maps and unmaps each time."""
HOST = "127.0.0.1"


class Echo(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._transport.write(data)


class BufferedEcho(asyncio.BufferedProtocol):
    """Answers with a copy: a transport may keep what it is given until the socket takes it."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._view = memoryview(bytearray(BUFFER))

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._view

    def buffer_updated(self, nbytes: int) -> None:
        self._transport.write(bytes(self._view[:nbytes]))


class DatagramEcho(asyncio.DatagramProtocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.DatagramTransport, transport)

    def datagram_received(self, data: bytes, addr: tuple[str | object, int]) -> None:
        self._transport.sendto(data, addr)


def _address(sock: socket.socket) -> str:
    host, port = sock.getsockname()
    return f"{host}:{port}"


@contextlib.asynccontextmanager
async def _tcp(
    protocol: Callable[[], asyncio.BaseProtocol], context: ssl.SSLContext | None = None
) -> AsyncIterator[str]:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(protocol, HOST, 0, backlog=1024, ssl=context)
    yield _address(server.sockets[0])
    server.close()


def protocol(folder: Path) -> AbstractAsyncContextManager[str]:
    return _tcp(Echo)


def buffered(folder: Path) -> AbstractAsyncContextManager[str]:
    return _tcp(BufferedEcho)


def tls(folder: Path) -> AbstractAsyncContextManager[str]:
    return _tcp(Echo, certificates.server_context(folder))


@contextlib.asynccontextmanager
async def unix(folder: Path) -> AsyncIterator[str]:
    path = str(folder / "echo")
    server = await asyncio.get_running_loop().create_unix_server(Echo, path, backlog=1024)
    yield path
    server.close()


@contextlib.asynccontextmanager
async def streams(folder: Path) -> AsyncIterator[str]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(READ):
            writer.write(data)
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, HOST, 0, backlog=1024)
    yield _address(server.sockets[0])
    server.close()


@contextlib.asynccontextmanager
async def sock(folder: Path) -> AsyncIterator[str]:
    loop = asyncio.get_running_loop()
    listener = socket.create_server((HOST, 0), backlog=1024)
    listener.setblocking(False)
    serving: set[asyncio.Task[None]] = set()

    async def serve(connection: socket.socket) -> None:
        with connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while data := await loop.sock_recv(connection, READ):
                await loop.sock_sendall(connection, data)

    async def accept() -> None:
        while True:
            connection, _ = await loop.sock_accept(listener)
            connection.setblocking(False)
            task = loop.create_task(serve(connection))
            serving.add(task)
            task.add_done_callback(serving.discard)

    accepting = loop.create_task(accept())
    yield _address(listener)
    accepting.cancel()
    await asyncio.wait({accepting, *serving}, timeout=5)
    listener.close()


@contextlib.asynccontextmanager
async def udp(folder: Path) -> AsyncIterator[str]:
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_datagram_endpoint(DatagramEcho, local_addr=(HOST, 0))
    yield _address(cast(socket.socket, transport.get_extra_info("socket")))
    transport.close()


FACES: dict[str, tuple[str, Callable[[Path], AbstractAsyncContextManager[str]]]] = {
    "tcp": ("tcp", protocol),
    "buffered": ("tcp", buffered),
    "streams": ("tcp", streams),
    "sock": ("tcp", sock),
    "unix": ("unix", unix),
    "udp": ("udp", udp),
    "tls": ("tls", tls),
}
"""What a row's face is, by the kind of socket that the client opens and the server behind it."""
