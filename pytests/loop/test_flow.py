"""Streams of bytes: flow control, half-close, pausing, servers and their clients, what a transport tells of
itself.
"""

import asyncio
import socket
import sys
from pathlib import Path

import pytest
from peers import LOCAL, Buffered, Loop, Record, connect, pair, pattern, turns


async def test_pause_and_resume_writing_at_the_limits(loop: Loop) -> None:
    both = await connect()
    transport = both.client.transport
    transport.set_write_buffer_limits(high=50_000, low=10_000)
    assert transport.get_write_buffer_limits() == (10_000, 50_000)
    both.peer.transport.pause_reading()
    written = 0
    while not both.client.paused.is_set():
        assert transport.get_write_buffer_size() <= 50_000
        transport.write(b"x" * 20_000)
        written += 20_000
        assert written < 100_000_000, "never told to pause"
    assert transport.get_write_buffer_size() > 50_000
    transport.write(b"x" * 20_000)  # still taken; the word was advice
    written += 20_000
    both.peer.transport.resume_reading()
    await both.client.resumed.wait()
    assert transport.get_write_buffer_size() <= 10_000
    assert len(await both.peer.received(written)) == written
    assert both.client.calls.count("pause_writing") == both.client.calls.count("resume_writing") == 1
    await both.close()


async def test_limits_by_default_and_by_one_side(loop: Loop) -> None:
    both = await connect()
    transport = both.client.transport
    assert transport.get_write_buffer_limits() == (16 * 1024, 64 * 1024)
    transport.set_write_buffer_limits(high=1000)
    assert transport.get_write_buffer_limits() == (250, 1000)
    transport.set_write_buffer_limits(low=1000)
    assert transport.get_write_buffer_limits() == (1000, 4000)
    transport.set_write_buffer_limits(high=0)
    assert transport.get_write_buffer_limits() == (0, 0)
    transport.set_write_buffer_limits()
    assert transport.get_write_buffer_limits() == (16 * 1024, 64 * 1024)
    await both.close()


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
async def test_what_can_be_written(loop: Loop, kind: type) -> None:
    """All kinds of buffers, more than goes out at once, and the caller lets go of them."""
    both = await connect()
    both.peer.transport.pause_reading()
    both.client.transport.write(kind(bytearray(pattern(5_000_000))))
    both.peer.transport.resume_reading()
    assert await both.peer.received(5_000_000) == pattern(5_000_000)
    await both.close()


async def test_writes_keep_their_order(loop: Loop) -> None:
    both = await connect()
    expected = b""
    for number in range(500):
        part = b"%d," % number * (number % 50)
        if number % 3:
            both.client.transport.write(part)
        else:
            both.client.transport.writelines([part[:5], part[5:]])
        expected += part
    both.client.transport.write_eof()
    await both.peer.eof
    assert both.peer.data == expected
    await both.close()


async def test_pause_reading_stops_the_data(loop: Loop) -> None:
    both = await connect()
    assert both.client.transport.is_reading()
    both.client.transport.pause_reading()
    assert not both.client.transport.is_reading()
    both.peer.transport.write(b"wait")
    await turns(10)
    assert both.client.data == b""
    both.client.transport.resume_reading()
    assert await both.client.received(4) == b"wait"
    await both.close()


async def test_a_protocol_that_pauses_in_its_first_callback(loop: Loop) -> None:
    class Shy(Record):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            super().connection_made(transport)
            transport.pause_reading()  # type: ignore[attr-defined]

    both = await connect(Shy)
    both.peer.transport.write(b"hello")
    await turns(10)
    assert both.client.data == b""
    both.client.transport.resume_reading()
    assert await both.client.received(5) == b"hello"
    await both.close()


async def test_set_protocol_takes_over(loop: Loop) -> None:
    both = await connect()
    both.peer.transport.write(b"one")
    await both.client.received(3)
    heir = Buffered()
    heir.connection_made(both.client.transport)
    both.client.transport.set_protocol(heir)
    assert both.client.transport.get_protocol() is heir
    both.peer.transport.write(b"two")
    while len(heir.data) < 3:
        await turns(1)
    assert heir.data == b"two" and both.client.data == b"one"
    both.client.transport.abort()
    await heir.lost
    both.peer.transport.abort()
    await both.peer.lost
    both.server.close()


async def test_half_close_with_streams(loop: Loop) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        data = await reader.read()
        writer.write(data[::-1])
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(serve, LOCAL, 0)
    reader, writer = await asyncio.open_connection(LOCAL, server.sockets[0].getsockname()[1])
    assert writer.can_write_eof()
    writer.write(pattern(500_000))
    writer.write_eof()
    assert await reader.read() == pattern(500_000)[::-1]
    writer.close()
    await writer.wait_closed()
    server.close()
    await server.wait_closed()


async def test_what_a_transport_tells_of_itself(loop: Loop, tmp_path: Path) -> None:
    both = await connect()
    transport = both.client.transport
    assert isinstance(transport, asyncio.Transport)
    sock = transport.get_extra_info("socket")
    assert transport.get_extra_info("peername") == both.server.sockets[0].getsockname()
    assert transport.get_extra_info("sockname") == sock.getsockname()
    assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
    assert "transport" in repr(transport).lower()
    assert not transport.is_closing()
    await both.close()
    assert transport.is_closing()
    unix = await connect(path=str(tmp_path / "s"))
    assert unix.peer.transport.get_extra_info("sockname") == str(tmp_path / "s")
    await unix.close()


async def test_a_server_and_its_addresses(loop: Loop) -> None:
    server = await loop.create_server(Record, [LOCAL, "::1"], 0)
    assert {sock.family for sock in server.sockets} == {socket.AF_INET, socket.AF_INET6}
    assert isinstance(server, asyncio.AbstractServer)
    assert server.get_loop() is loop
    server.close()
    assert server.sockets == ()
    await server.wait_closed()


async def test_a_server_that_does_not_serve_yet(loop: Loop) -> None:
    server = await loop.create_server(Record, LOCAL, 0, start_serving=False)
    assert not server.is_serving()
    await server.start_serving()
    assert server.is_serving()
    await server.start_serving()
    _, client = await loop.create_connection(Record, LOCAL, server.sockets[0].getsockname()[1])
    client.transport.abort()
    await client.lost
    async with server:
        pass
    assert not server.is_serving()


async def test_closing_a_server_keeps_its_clients(loop: Loop) -> None:
    both = await connect()
    both.server.close()
    both.client.transport.write(b"still")
    assert await both.peer.received(5) == b"still"
    waiting = loop.create_task(both.server.wait_closed())
    await turns(5)
    if sys.version_info >= (3, 12):
        assert waiting.done() is (sys.version_info[:3] == (3, 12, 0)), "it waits for the clients"
    await both.close()
    await waiting


@pytest.mark.skipif(sys.version_info < (3, 13), reason="came with 3.13")
@pytest.mark.parametrize("how", ["close_clients", "abort_clients"])
async def test_clients_can_be_sent_away(loop: Loop, how: str) -> None:
    both = await connect()
    message = pattern(3_000_000)
    both.peer.transport.write(message)
    both.server.close()
    getattr(both.server, how)()
    assert await both.peer.lost is None
    await both.client.lost
    if how == "close_clients":
        assert both.client.data == message
    else:
        assert message.startswith(both.client.data)
    await both.server.wait_closed()
    await both.close()


async def test_connect_accepted_socket(loop: Loop) -> None:
    left, right = pair()
    _, protocol = await loop.connect_accepted_socket(Record, left)
    right.send(b"hello")
    assert await protocol.received(5) == b"hello"
    right.close()
    assert await protocol.lost is None
    assert protocol.calls == ["connection_made", "data_received", "eof_received", "connection_lost"]


async def test_sockets_of_ones_own(loop: Loop) -> None:
    door = socket.create_server((LOCAL, 0))
    server = await loop.create_server(Record, sock=door)
    client = socket.socket()
    client.setblocking(False)
    await loop.sock_connect(client, door.getsockname())
    transport, protocol = await loop.create_connection(Record, sock=client)
    assert transport.get_extra_info("peername") == door.getsockname()
    transport.abort()
    await protocol.lost
    server.close()
    await turns(5)
    assert door.fileno() == -1


@pytest.mark.parametrize("delay", [None, 0.01])
async def test_happy_eyeballs_find_the_family_that_answers(loop: Loop, delay: float | None) -> None:
    """`localhost` may be both; the server is at one of them."""
    server = await loop.create_server(Record, LOCAL, 0)
    port = server.sockets[0].getsockname()[1]
    transport, protocol = await loop.create_connection(Record, "localhost", port, happy_eyeballs_delay=delay)
    assert transport.get_extra_info("peername") == (LOCAL, port)
    transport.abort()
    await protocol.lost
    server.close()
    await turns(5)


async def test_local_addr(loop: Loop) -> None:
    server = await loop.create_server(Record, LOCAL, 0)
    port = server.sockets[0].getsockname()[1]
    transport, protocol = await loop.create_connection(Record, LOCAL, port, local_addr=("127.0.0.7", 0))
    assert transport.get_extra_info("sockname")[0] == "127.0.0.7"
    transport.abort()
    await protocol.lost
    server.close()
    await turns(5)


async def test_all_errors(loop: Loop) -> None:
    with socket.create_server((LOCAL, 0)) as gone:
        port = gone.getsockname()[1]
    options = {"all_errors": True} if sys.version_info >= (3, 12) else {}
    with pytest.raises((OSError, ExceptionGroup)) as caught:
        await loop.create_connection(Record, LOCAL, port, **options)  # type: ignore[call-overload]
    if options:
        assert isinstance(caught.value, ExceptionGroup)
        assert isinstance(caught.value.exceptions[0], ConnectionRefusedError)
