"""Owns the calls that the table of wrong calls is made of: a loop with things to call it with, and what
takes more than one step.
"""

import asyncio
import contextlib
import os
import socket
import ssl
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

LOCAL = "127.0.0.1"


class Bench:
    """A loop and things to call it with, all closed at the end."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop: Any = loop
        self.stack = contextlib.ExitStack()
        self.folder = Path(self.stack.enter_context(tempfile.TemporaryDirectory()))

    def sock(
        self, kind: int = socket.SOCK_STREAM, *, blocking: bool = False, family: int = socket.AF_INET
    ) -> Any:
        sock = self.stack.enter_context(socket.socket(family, kind))
        sock.setblocking(blocking)
        return sock

    def pair(self, *, blocking: bool = False) -> Any:
        left, right = socket.socketpair()
        for sock in (left, right):
            self.stack.enter_context(sock)
            sock.setblocking(blocking)
        return left, right

    def closed_sock(self) -> Any:
        sock = self.sock()
        sock.close()
        return sock

    def closed(self) -> Any:
        self.loop.close()
        return self.loop

    def free_port(self) -> int:
        with socket.create_server((LOCAL, 0)) as sock:
            port: int = sock.getsockname()[1]
        return port

    def file(self, data: bytes = b"x") -> Any:
        path = self.folder / "file"
        path.write_bytes(data)
        return self.stack.enter_context(path.open("rb"))

    async def transport(self) -> Any:
        left, right = self.pair()
        transport, _ = await self.loop.create_connection(asyncio.Protocol, sock=left)
        self.stack.callback(right.close)
        self.stack.callback(transport.abort)
        return transport

    async def closed_transport(self) -> Any:
        left, _ = self.pair()
        lost = self.loop.create_future()

        class Protocol(asyncio.Protocol):
            def connection_lost(self, exc: BaseException | None) -> None:
                lost.set_result(None)

        transport, _ = await self.loop.create_connection(Protocol, sock=left)
        transport.close()
        await lost
        return transport

    async def datagram(self, **options: Any) -> Any:
        options = options or {"local_addr": (LOCAL, 0)}
        transport, _ = await self.loop.create_datagram_endpoint(asyncio.DatagramProtocol, **options)
        self.stack.callback(transport.abort)
        return transport

    async def server(self, **options: Any) -> Any:
        server = await self.loop.create_server(asyncio.Protocol, LOCAL, 0, **options)
        self.stack.callback(server.close)
        return server

    async def on(self, what: str, method: str, *arguments: Any) -> Any:
        """Calls a method of a fresh transport (or the like) named by its maker here."""
        made = await getattr(self, what)()
        result = getattr(made, method)(*arguments)
        return await result if asyncio.iscoroutine(result) else result

    async def inside(self, call: Callable[[], Any]) -> Any:
        """The same call, on the running loop."""
        result = call()
        return await result if asyncio.iscoroutine(result) or asyncio.isfuture(result) else result

    def from_thread(self, call: Callable[[], Any]) -> Any:
        """What the call gives in another thread while this loop runs."""
        outcome: list[Any] = []

        def work() -> None:
            try:
                outcome.append((False, call()))
            except BaseException as error:
                outcome.append((True, error))
            self.loop.call_soon_threadsafe(self.loop.stop)

        thread = threading.Thread(target=work)
        self.loop.call_soon(thread.start)
        self.loop.run_forever()
        thread.join()
        raised, value = outcome[0]
        if raised:
            raise value
        return value

    def later(self, call: Callable[[], Any]) -> Any:
        """What a call gives inside a callback of the running loop."""
        outcome: list[Any] = []

        def work() -> None:
            try:
                outcome.append((False, call()))
            except BaseException as error:
                outcome.append((True, error))
            self.loop.stop()

        self.loop.call_soon(work)
        self.loop.run_forever()
        raised, value = outcome[0]
        if raised:
            raise value
        return value


async def nothing() -> None:
    pass


def boom() -> Any:
    raise LookupError("factory")


def client_context() -> ssl.SSLContext:
    return ssl.create_default_context()


async def twice(b: Bench, call: Callable[[], Any]) -> None:
    await call()
    await call()


async def after_shutdown(b: Bench) -> Any:
    await b.loop.shutdown_default_executor()
    return await b.loop.run_in_executor(None, int)


async def readers_of_transport(b: Bench, method: str, *arguments: Any) -> Any:
    transport = await b.transport()
    sock = transport.get_extra_info("socket")
    result = getattr(b.loop, method)(sock.fileno() if "sock" not in method else sock, *arguments)
    return await result if asyncio.iscoroutine(result) else result


async def tls(b: Bench, context: Any, what: str = "transport") -> Any:
    return await b.loop.start_tls(
        await getattr(b, what)(), asyncio.Protocol(), context, server_hostname="localhost"
    )


def on_closed(b: Bench, method: str, *arguments: Any, **options: Any) -> Any:
    """Steps a coroutine method of a closed loop by hand, as no loop is there to do it."""
    loop = b.closed()
    coroutine = getattr(loop, method)(*arguments, **options)
    try:
        coroutine.send(None)
    finally:
        coroutine.close()
    return "suspended"


def listening(b: Bench) -> Any:
    sock = b.sock()
    sock.bind((LOCAL, 0))
    sock.listen()
    return sock


def taken(b: Bench) -> int:
    port: int = listening(b).getsockname()[1]
    return port


async def serve_twice(b: Bench) -> None:
    server = await b.server()
    task = b.loop.create_task(server.serve_forever())
    await asyncio.sleep(0)
    try:
        await server.serve_forever()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def closed_server(b: Bench, method: str) -> Any:
    server = await b.server()
    server.close()
    found = getattr(server, method)
    return await found() if callable(found) else len(found)


async def sendto_other(b: Bench) -> Any:
    transport = await b.datagram(remote_addr=(LOCAL, 9))
    return transport.sendto(b"x", (LOCAL, 10))


async def after_eof(b: Bench, method: str, *arguments: Any) -> Any:
    transport = await b.transport()
    transport.write_eof()
    return getattr(transport, method)(*arguments)


async def pause_twice(b: Bench) -> Any:
    transport = await b.transport()
    transport.pause_reading()
    transport.pause_reading()
    return transport.is_reading()


async def send_file(b: Bench, what: str, *, text: bool = False, **options: Any) -> Any:
    transport = await getattr(b, what)()
    file = b.file()
    if text:
        file = b.stack.enter_context(Path(file.name).open())  # noqa: SIM115
    return await b.loop.sendfile(transport, file, **options)


async def recv_into_bytes(b: Bench) -> Any:
    left, right = b.pair()
    right.send(b"x")
    return await b.loop.sock_recv_into(left, b"0")


async def send_to_gone(b: Bench) -> Any:
    left, right = b.pair()
    right.close()
    return await b.loop.sock_sendall(left, b"x" * 10_000)


async def ssl_socket(b: Bench) -> Any:
    left, _ = b.pair()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    wrapped = b.stack.enter_context(context.wrap_socket(left, do_handshake_on_connect=False))
    return await b.loop.sock_recv(wrapped, 1)


def closed_pipe() -> Any:
    reading, writing = os.pipe()
    os.close(writing)
    with os.fdopen(reading, "rb", 0) as file:
        return file
