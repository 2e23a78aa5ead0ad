"""How servers accept: bursts, what a connection knows of itself, factories that fail or interfere."""

import asyncio
import contextvars
import gc
import os
import socket
import sys
from pathlib import Path
from typing import Any

import pytest
from peers import LOCAL, Errors, Loop, Record, listener, settled, turns


def dial(address: Any, family: int = socket.AF_INET) -> socket.socket:
    """A connected socket; the kernel accepts it before the server does."""
    sock = socket.socket(family)
    sock.connect(address)
    sock.setblocking(False)
    return sock


async def finish(server: asyncio.Server, *protocols: Record) -> None:
    for protocol in protocols:
        protocol.transport.abort()
        await protocol.lost
    server.close()
    await server.wait_closed()


async def test_more_clients_than_the_backlog_in_one_burst(loop: Loop) -> None:
    made: list[Record] = []

    def factory() -> Record:
        made.append(Record())
        return made[-1]

    door = listener()
    server = await loop.create_server(factory, sock=door, backlog=4)
    door.listen(100)
    clients = [dial(server.sockets[0].getsockname()) for _ in range(50)]
    while len(made) < 50:
        await turns(1)
    for protocol in made:
        await protocol.made
    for number, client in enumerate(clients):
        client.send(b"%d" % number)
    names = [client.getsockname() for client in clients]
    for protocol in made:
        await protocol.received(1)
        number = names.index(protocol.transport.get_extra_info("peername"))
        assert protocol.data == b"%d" % number
    await finish(server, *made)
    for client in clients:
        client.close()


@pytest.mark.parametrize("host", [LOCAL, "::1"])
async def test_what_an_accepted_connection_knows(loop: Loop, host: str) -> None:
    accepted: asyncio.Future[Record] = loop.create_future()

    def factory() -> Record:
        accepted.set_result(protocol := Record())
        return protocol

    server = await loop.create_server(factory, host, 0)
    address = server.sockets[0].getsockname()
    client = dial(address, server.sockets[0].family)
    protocol = await accepted
    await protocol.made
    transport, sock = protocol.transport, protocol.transport.get_extra_info("socket")
    assert transport.get_extra_info("peername") == client.getsockname()
    assert transport.get_extra_info("sockname") == address
    assert sock.gettimeout() == 0
    assert (sock.family, sock.type, sock.proto) == (client.family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    assert not os.get_inheritable(sock.fileno())
    assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
    await finish(server, protocol)
    assert transport.get_extra_info("peername") == client.getsockname()
    assert transport.get_extra_info("sockname") == address
    client.close()


@pytest.mark.parametrize("named", [False, True])
async def test_a_unix_server_and_who_calls_it(loop: Loop, tmp_path: Path, named: bool) -> None:
    accepted: asyncio.Future[Record] = loop.create_future()

    def factory() -> Record:
        accepted.set_result(protocol := Record())
        return protocol

    path, own = str(tmp_path / "server"), str(tmp_path / "client")
    server = await loop.create_unix_server(factory, path)
    client = socket.socket(socket.AF_UNIX)
    if named:
        client.bind(own)
    client.connect(path)
    protocol = await accepted
    await protocol.made
    assert protocol.transport.get_extra_info("peername") == (own if named else "")
    assert protocol.transport.get_extra_info("sockname") == path
    client.send(b"hello")
    assert await protocol.received(5) == b"hello"
    await finish(server, protocol)
    client.close()


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
async def test_a_factory_that_fails_costs_one_connection(loop: Loop, errors: Errors) -> None:
    made: list[Record] = []
    failed = asyncio.Event()

    def factory() -> Record:
        if not failed.is_set():
            failed.set()
            raise ZeroDivisionError("no protocol")
        made.append(Record())
        return made[-1]

    server = await loop.create_server(factory, LOCAL, 0)
    first = dial(server.sockets[0].getsockname())
    await failed.wait()
    await turns(3)
    messages = [(context["message"], type(context["exception"]), len(context)) for context in errors.take()]
    expected = ("Error on transport creation for incoming connection", ZeroDivisionError, 2)
    assert messages == ([expected] if loop.get_debug() else [])
    gc.collect()  # the traceback has the connection
    assert await loop.sock_recv(first, 10) == b""
    second = dial(server.sockets[0].getsockname())
    while not made:
        await turns(1)
    await made[0].made
    second.send(b"works")
    assert await made[0].received(5) == b"works"
    await finish(server, *made)
    first.close()
    second.close()


# The Server of 3.13 wakes whoever waits for its end a second time, out of a destructor, and fails.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
async def test_a_factory_that_closes_the_server(loop: Loop, errors: Errors) -> None:
    """Its own connection comes too late for the server, and so do those after it."""
    asked = asyncio.Event()

    def factory() -> Record:
        server.close()
        asked.set()
        return Record()

    server = await loop.create_server(factory, LOCAL, 0)
    clients = [dial(server.sockets[0].getsockname()) for _ in range(5)]
    await asked.wait()
    await turns(5)
    assert not server.is_serving()
    errors.clear()
    gc.collect()
    for client in clients:
        assert isinstance(answer := await settled(loop.sock_recv(client, 10)), (bytes, ConnectionResetError))
        assert not isinstance(answer, bytes) or answer == b""
        client.close()


async def test_a_connection_that_closes_the_server_leaves_the_others_alone(loop: Loop) -> None:
    made: list[Record] = []

    class Closing(Record):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            super().connection_made(transport)
            server.close()

    def factory() -> Record:
        made.append(Closing())
        return made[-1]

    server = await loop.create_server(factory, LOCAL, 0)
    clients = [dial(server.sockets[0].getsockname()) for _ in range(5)]
    while len(made) < 5:
        await turns(1)
    for protocol in made:
        await protocol.made
        protocol.transport.write(b"served")
    for client in clients:
        assert await loop.sock_recv(client, 10) == b"served"
    await finish(server, *made)
    for client in clients:
        client.close()


async def test_each_connection_has_a_context_of_its_own(loop: Loop) -> None:
    variable: contextvars.ContextVar[int] = contextvars.ContextVar("variable", default=0)
    seen: list[tuple[str, int]] = []
    made: list[Record] = []

    class Noting(Record):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            seen.append(("made", variable.get()))
            super().connection_made(transport)

        def data_received(self, data: bytes) -> None:
            seen.append(("data", variable.get()))
            super().data_received(data)

    def factory() -> Record:
        seen.append(("factory", variable.get()))
        made.append(Noting())
        variable.set(len(made))
        return made[-1]

    server = await loop.create_server(factory, LOCAL, 0)
    for number in (1, 2):
        client = dial(server.sockets[0].getsockname())
        client.send(b"x")
        while len(made) < number:
            await turns(1)
        await made[-1].received(1)
        client.close()
        await made[-1].lost
    assert seen == [("factory", 0), ("made", 1), ("data", 1), ("factory", 0), ("made", 2), ("data", 2)]
    assert variable.get() == 0
    await finish(server)


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
def test_a_factory_that_ends_the_program(loop: Loop, errors: Errors) -> None:
    errors.lenient = True  # stdlib says that nobody looked at what its task raised

    def factory() -> Record:
        raise SystemExit(3)

    async def main() -> None:
        server = await loop.create_server(factory, LOCAL, 0)
        client = dial(server.sockets[0].getsockname())
        try:
            await loop.create_future()
        finally:
            server.close()
            client.close()

    task = loop.create_task(main())
    with pytest.raises(SystemExit, match="3"):
        loop.run_until_complete(task)
    task.cancel()
    assert isinstance(loop.run_until_complete(settled(task)), asyncio.CancelledError)


async def test_a_peer_has_its_name_whenever_it_is_asked_for(loop: Loop) -> None:
    made: list[asyncio.Transport] = []
    lost = asyncio.Event()

    class Named(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            assert isinstance(transport, asyncio.Transport)
            made.append(transport)

        def connection_lost(self, exc: Exception | None) -> None:
            lost.set()

    server = await loop.create_server(Named, "127.0.0.1", 0)
    address = server.sockets[0].getsockname()
    for asked_early in (True, False):
        lost.clear()
        reader, writer = await asyncio.open_connection(*address)
        name = writer.get_extra_info("sockname")
        while not made:
            await asyncio.sleep(0)
        transport = made.pop()
        if asked_early:
            assert transport.get_extra_info("peername") == name
        writer.close()
        await lost.wait()
        assert transport.get_extra_info("peername") == name
        assert transport.get_extra_info("sockname") == address
        del reader
    server.close()
    await server.wait_closed()


@pytest.mark.skipif(sys.version_info < (3, 13), reason="servers count their clients since 3.13")
async def test_a_server_is_closed_when_its_last_client_is_gone(loop: Loop) -> None:
    ready: asyncio.Queue[Any] = asyncio.Queue()

    class Kept(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            ready.put_nowait(transport)

    server: Any = await loop.create_server(Kept, "127.0.0.1", 0)
    address = server.sockets[0].getsockname()
    streams = [await asyncio.open_connection(*address) for _ in range(3)]
    transports = [await ready.get() for _ in streams]
    assert len(server._clients) == 3
    assert set(server._clients.copy()) == set(transports)
    transports.pop().abort()
    await asyncio.sleep(0)
    assert len(server._clients) == 2
    server.close()
    waiting = loop.create_task(server.wait_closed())
    await asyncio.sleep(0)
    assert not waiting.done()
    server.close_clients()
    await waiting
    assert len(server._clients) == 0
    for _, writer in streams:
        writer.close()
