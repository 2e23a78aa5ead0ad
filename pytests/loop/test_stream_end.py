"""Stream transports, their beginning and end: order of callbacks, who closes what, nothing left behind."""

import asyncio
import contextlib
import gc
import socket
import sys
import weakref
from typing import Any

import pytest
from peers import LOCAL, Buffered, Errors, Loop, Record, connect, pair, pattern, turns

COUNTS_CLIENTS = sys.version_info >= (3, 12)


async def test_close_sends_what_waits_and_ends_in_a_turn_of_its_own(loop: Loop) -> None:
    both = await connect()
    both.peer.transport.pause_reading()
    message = pattern(8_000_000)
    both.client.transport.write(message)
    both.client.transport.close()
    both.client.transport.close()
    assert both.client.transport.is_closing()
    assert not both.client.lost.done()
    both.client.transport.write(b"")
    both.peer.transport.resume_reading()
    assert await both.peer.received(len(message)) == message
    assert await both.client.lost is None
    assert await both.peer.lost is None
    await both.close()


async def test_connection_lost_is_never_called_inside_close(loop: Loop) -> None:
    for end in ("close", "abort"):
        both = await connect()
        getattr(both.client.transport, end)()
        assert "connection_lost" not in both.client.calls
        assert await both.client.lost is None
        await both.close()


async def test_abort_drops_what_waits(loop: Loop) -> None:
    both = await connect()
    both.peer.transport.pause_reading()
    both.client.transport.write(bytes(20_000_000))
    assert both.client.transport.get_write_buffer_size()
    both.client.transport.abort()
    assert both.client.transport.get_write_buffer_size() == 0
    assert await both.client.lost is None
    await both.close()


async def test_connection_made_comes_first_then_data_then_the_waiter(loop: Loop) -> None:
    left, right = pair()
    right.send(b"early")
    order = []

    class Looks(Record):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            super().connection_made(transport)
            order.append("made")

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            order.append("data")

    transport, protocol = await loop.create_connection(Looks, sock=left)
    assert order == ["made"]
    assert await protocol.received(5) == b"early"
    transport.close()
    await protocol.lost
    right.close()


async def test_closed_in_connection_made_reads_nothing(loop: Loop) -> None:
    left, right = pair()
    right.send(b"early")

    class Closes(Record):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            super().connection_made(transport)
            transport.close()

    _, protocol = await loop.create_connection(Closes, sock=left)
    assert await protocol.lost is None
    assert protocol.calls == ["connection_made", "connection_lost"]
    right.close()


@pytest.mark.parametrize("method", ["connection_made", "connection_lost"])
async def test_callbacks_of_beginning_and_end_that_raise_are_reported(
    loop: Loop, errors: Errors, method: str
) -> None:
    class Raises(Record):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            super().connection_made(transport)
            if method == "connection_made":
                raise ZeroDivisionError

        def connection_lost(self, exc: BaseException | None) -> None:
            super().connection_lost(exc)
            if method == "connection_lost":
                raise ZeroDivisionError

    both = await connect(client=Raises)
    both.client.transport.write(b"still works")
    assert await both.peer.received(11) == b"still works"
    both.client.transport.close()
    await both.client.lost
    await turns(2)
    (context,) = errors.take()
    assert context["message"].startswith("Exception in callback ")
    assert isinstance(context["exception"], ZeroDivisionError)
    await both.close()


async def test_extra_info(loop: Loop) -> None:
    both = await connect()
    here, there = both.client.transport, both.peer.transport
    assert here.get_extra_info("peername") == there.get_extra_info("sockname")
    assert here.get_extra_info("sockname") == there.get_extra_info("peername")
    sock = here.get_extra_info("socket")
    assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
    assert not hasattr(sock, "recv")
    assert here.get_extra_info("nonsense") is None
    assert here.get_extra_info("nonsense", 7) == 7
    assert here.get_extra_info("nonsense", default=8) == 8
    await both.close()
    assert here.get_extra_info("peername") == there.get_extra_info("sockname")


async def test_repr_says_what_it_is_at(loop: Loop) -> None:
    both = await connect()
    transport = both.client.transport
    number = transport.get_extra_info("socket").fileno()
    assert f"fd={number} read=polling write=<idle, bufsize=0>>" in repr(transport)
    transport.pause_reading()
    assert " read=idle " in repr(transport)
    transport.close()
    assert " closing " in repr(transport)
    await both.client.lost
    assert " closed " in repr(transport)
    await both.close()


async def test_a_transport_takes_attributes_and_weak_references(loop: Loop) -> None:
    both = await connect()
    both.client.transport.note = "mine"
    assert both.client.transport.note == "mine"
    assert weakref.ref(both.client.transport)() is both.client.transport
    assert isinstance(both.client.transport, asyncio.Transport)
    await both.close()


@pytest.mark.parametrize("kind", [Record, Buffered])
async def test_nothing_is_kept_after_connection_lost(loop: Loop, kind: type) -> None:
    both = await connect(client=kind, peer=kind)
    transport = both.client.transport
    await both.close()
    gone = [weakref.ref(both.client), weakref.ref(both.peer)]
    assert transport.get_protocol() is None
    del both
    await turns(3)
    gc.collect()
    assert [reference() for reference in gone] == [None, None]


def forget(kept: list[Any]) -> None:
    kept.clear()
    gc.collect()


async def test_a_transport_that_is_dropped_says_so_and_closes_its_socket(loop: Loop) -> None:
    left, right = pair()
    transport, protocol = await loop.create_connection(asyncio.Protocol, sock=left)
    transport.pause_reading()
    kept = [transport]
    del transport, protocol
    with pytest.warns(ResourceWarning, match="unclosed transport"):
        forget(kept)
    right.setblocking(True)
    assert right.recv(1) == b""
    right.close()


async def test_an_fd_that_was_closed_is_not_used_for_its_next_owner(loop: Loop) -> None:
    """The number of a closed transport's fd is taken at once by others, which must see nothing of it."""
    for _ in range(20):
        both = await connect()
        both.peer.transport.write(b"late")
        both.client.transport.abort()
        await both.client.lost
        left, right = pair()
        transport, protocol = await loop.create_connection(Record, sock=left)
        right.send(b"mine")
        assert await protocol.received(4) == b"mine"
        transport.close()
        await protocol.lost
        right.close()
        await both.close()


async def test_a_server_waits_for_its_connections(loop: Loop) -> None:
    both = await connect()
    both.server.close()
    waiting = loop.create_task(both.server.wait_closed())
    await turns(3)
    if COUNTS_CLIENTS:
        assert not waiting.done()
    both.client.transport.close()
    await both.client.lost
    await both.peer.lost
    await waiting


@pytest.mark.skipif(sys.version_info < (3, 13), reason="new in 3.13")
@pytest.mark.parametrize("method", ["close_clients", "abort_clients"])
async def test_a_server_ends_its_connections(loop: Loop, column: str, method: str) -> None:
    both = await connect()
    both.server.close()
    getattr(both.server, method)()
    assert await both.peer.lost is None
    await both.client.lost
    await both.server.wait_closed()


async def refused_after(sock: socket.socket, errors: Errors) -> int:
    """How many errors were reported until the peer hung up."""
    said = 0
    while True:
        await turns(1)
        said += len(errors.take())
        gc.collect()
        try:
            assert sock.recv(1) == b""
        except BlockingIOError:
            continue
        return said


async def test_a_factory_that_raises_leaves_the_server_alive(loop: Loop, errors: Errors) -> None:
    fail = True

    def make() -> Record:
        if fail:
            raise ZeroDivisionError
        return Record()

    server = await loop.create_server(make, LOCAL, 0)
    address = server.sockets[0].getsockname()
    refused = socket.create_connection(address)
    refused.setblocking(False)
    # The socket goes with the exception that refers to it, in a callback: caught by context, nothing is seen.
    by_context = getattr(sys.flags, "context_aware_warnings", False)
    with contextlib.nullcontext() if by_context else pytest.warns(ResourceWarning):
        said = await refused_after(refused, errors)
    refused.close()
    assert said == (1 if loop.get_debug() else 0)
    fail = False
    transport, protocol = await loop.create_connection(Record, *address)
    transport.close()
    await protocol.lost
    server.close()


async def test_all_that_wait_are_accepted_in_one_turn(loop: Loop) -> None:
    made: list[Record] = []

    def make() -> Record:
        made.append(Record())
        return made[-1]

    server = await loop.create_server(make, LOCAL, 0, backlog=50)
    address = server.sockets[0].getsockname()
    peers = [socket.create_connection(address) for _ in range(20)]
    await turns(4)
    assert len(made) == 20
    for peer in peers:
        peer.close()
    for protocol in made:
        await protocol.lost
    server.close()


async def test_unix_sockets_are_no_different(loop: Loop, tmp_path: Any) -> None:
    both = await connect(path=str(tmp_path / "sock"))
    message = pattern(2_000_000)
    both.client.transport.write(message)
    both.client.transport.write_eof()
    assert await both.peer.received(len(message)) == message
    both.peer.transport.close()
    await both.close()
