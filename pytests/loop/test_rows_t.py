"""Rows T1 to T7 of the bug classes seen in other asyncio loops: TLS, data at close, callbacks that raise,
timers.
"""

import asyncio
import contextlib
import inspect
import os
import socket
import ssl
import struct
import sys
from typing import Any

import pytest
from peers import LOCAL, Buffered, Errors, Loop, Record, connect, pair, pattern, settled, turns


async def settled_peek(sock: socket.socket) -> bytes:
    try:
        return sock.recv(5, socket.MSG_PEEK)
    except BlockingIOError:
        return b""


async def test_t1_start_tls_keeps_what_the_kernel_has_already(
    loop: Loop, server_context: ssl.SSLContext, client_context: ssl.SSLContext
) -> None:
    """The client's whole first flight waits in the server's socket before the server starts to speak TLS."""
    both = await connect()
    both.client.transport.write(b"STARTTLS")
    assert await both.peer.received(8) == b"STARTTLS"
    both.peer.transport.pause_reading()
    secure = Record()
    up = loop.create_task(
        loop.start_tls(both.client.transport, secure, client_context, server_hostname="localhost")
    )
    sock = both.peer.transport.get_extra_info("socket")
    with socket.fromfd(sock.fileno(), sock.family, sock.type) as peek:
        while not await settled_peek(peek):
            await turns(1)
    there = Record()
    down = await loop.start_tls(both.peer.transport, there, server_context, server_side=True)
    assert down is not None
    above = await up
    assert above is not None
    message = pattern(200_000)
    above.write(message)
    assert await there.received(len(message)) == message
    down.write(message)
    assert await secure.received(len(message)) == message
    above.close()
    down.close()
    assert await secure.lost is None
    await there.lost
    both.server.close()


# Came to stdlib's loop late (gh-142352): before, the handshake waits for what its reader has.
TAKES_BACK = "_stream_reader" in inspect.getsource(asyncio.BaseEventLoop.start_tls)


async def test_t1_start_tls_takes_back_what_a_reader_of_streams_has_already(
    loop: Loop, column: str, server_context: ssl.SSLContext, client_context: ssl.SSLContext
) -> None:
    if column == "stdlib" and not TAKES_BACK:
        pytest.skip("this Python's own loop never ends the handshake")
    told: asyncio.Future[bytes] = loop.create_future()

    async def serve(reader: Any, writer: asyncio.StreamWriter) -> None:
        assert await reader.readline() == b"STARTTLS\n"
        while not reader._buffer:
            await turns(1)
        assert reader._buffer[:1] == b"\x16"
        await writer.start_tls(server_context)
        told.set_result(await reader.read())
        writer.close()
        await settled(writer.wait_closed())

    server = await asyncio.start_server(serve, LOCAL, 0)
    _, writer = await asyncio.open_connection(LOCAL, server.sockets[0].getsockname()[1])
    writer.write(b"STARTTLS\n")
    await writer.start_tls(client_context, server_hostname="localhost")
    message = pattern(100_000)
    writer.write(message)
    writer.close()
    assert await told == message
    await settled(writer.wait_closed())
    server.close()
    await server.wait_closed()


async def test_t1_start_tls_of_streams_keeps_order(
    loop: Loop, server_context: ssl.SSLContext, client_context: ssl.SSLContext
) -> None:
    finished = loop.create_future()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert await reader.readline() == b"STARTTLS\n"
        writer.write(b"go\n")
        await writer.drain()
        await writer.start_tls(server_context)
        while line := await reader.readline():
            writer.write(line.upper())
        await writer.drain()
        writer.close()
        await settled(writer.wait_closed())
        finished.set_result(None)

    server = await asyncio.start_server(serve, LOCAL, 0)
    reader, writer = await asyncio.open_connection(LOCAL, server.sockets[0].getsockname()[1])
    writer.write(b"STARTTLS\n")
    assert await reader.readline() == b"go\n"
    await writer.start_tls(client_context, server_hostname="localhost")
    for number in range(100):
        writer.write(b"line %d\n" % number)
        assert await reader.readline() == b"LINE %d\n" % number
    writer.close()
    await settled(writer.wait_closed())
    await finished
    server.close()
    await server.wait_closed()


async def test_t1_tls_closes_while_the_peer_keeps_sending(
    loop: Loop, server_context: ssl.SSLContext, client_context: ssl.SSLContext
) -> None:
    both = await connect(server_ssl=server_context, client_ssl=client_context, ssl_shutdown_timeout=2)
    sending = True

    async def send() -> None:
        while sending and not both.peer.transport.is_closing():
            both.peer.transport.write(b"x" * 10_000)
            await turns(1)

    sender = loop.create_task(send())
    await both.client.received(50_000)
    both.client.transport.close()
    await both.client.lost
    sending = False
    await sender
    await both.peer.lost
    await both.close()


async def test_t1_connection_lost_after_a_tls_error_under_load(
    loop: Loop, server_context: ssl.SSLContext, client_context: ssl.SSLContext, errors: Errors
) -> None:
    """Garbage between two records ends the connection with the error, in the middle of traffic."""
    made = loop.create_future()

    def make() -> Record:
        made.set_result(Record())
        protocol: Record = made.result()
        return protocol

    server = await loop.create_server(make, LOCAL, 0, ssl=server_context)
    raw = socket.socket()
    raw.setblocking(False)
    await loop.sock_connect(raw, server.sockets[0].getsockname())
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = client_context.wrap_bio(incoming, outgoing, server_hostname="localhost")
    while True:
        try:
            tls.do_handshake()
            break
        except ssl.SSLWantReadError:
            await loop.sock_sendall(raw, outgoing.read())
            incoming.write(await loop.sock_recv(raw, 1 << 16))
    await loop.sock_sendall(raw, outgoing.read())
    protocol = await made
    await protocol.made
    tls.write(pattern(100_000))
    protocol.transport.write(pattern(100_000))
    await loop.sock_sendall(raw, outgoing.read() + b"\x17\x03\x03\x00\x20" + b"garbage!" * 4)
    lost = await protocol.lost
    assert isinstance(lost, ssl.SSLError)
    assert pattern(100_000).startswith(protocol.data)
    raw.close()
    server.close()
    await server.wait_closed()
    errors.take()


async def test_t1_back_pressure_under_tls(
    loop: Loop, server_context: ssl.SSLContext, client_context: ssl.SSLContext
) -> None:
    both = await connect(server_ssl=server_context, client_ssl=client_context)
    both.peer.transport.pause_reading()
    both.client.transport.set_write_buffer_limits(high=100_000)
    sent = 0
    chunk = pattern(1 << 16)
    while not both.client.paused.is_set():
        both.client.transport.write(chunk)
        sent += len(chunk)
        assert sent < 50_000_000, "never told to pause"
        await turns(1)
    await turns(10)
    assert both.client.paused.is_set()
    both.peer.transport.resume_reading()
    await both.client.resumed.wait()
    data = await both.peer.received(sent)
    assert data == chunk * (sent // len(chunk))
    await both.close()


@pytest.mark.parametrize("kind", ["tcp", "tls", "unix"])
async def test_t2_close_flushes_everything(
    loop: Loop, kind: str, tmp_path: Any, server_context: ssl.SSLContext, client_context: ssl.SSLContext
) -> None:
    options: dict[str, Any] = {"path": str(tmp_path / "s")} if kind == "unix" else {}
    if kind == "tls":
        options = {"server_ssl": server_context, "client_ssl": client_context}
    both = await connect(**options)
    message = pattern(8_000_000)
    both.client.transport.write(message)
    both.client.transport.close()
    assert await both.peer.received(len(message)) == message
    assert await both.client.lost is None
    await both.close()


async def test_t2_a_full_pipe_loses_nothing_at_close(loop: Loop) -> None:
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    lost = loop.create_future()

    class Writer(asyncio.BaseProtocol):
        def connection_lost(self, exc: BaseException | None) -> None:
            lost.set_result(exc)

    transport, _ = await loop.connect_write_pipe(Writer, os.fdopen(writing, "wb", 0))
    message = pattern(1_000_000)
    transport.write(message)
    assert transport.get_write_buffer_size() > 0
    transport.close()
    end = loop.create_future()
    got = bytearray()

    def read() -> None:
        part = os.read(reading, 1 << 16)
        got.extend(part)
        if not part:
            loop.remove_reader(reading)
            end.set_result(None)

    loop.add_reader(reading, read)
    await end
    assert got == message
    assert await lost is None
    os.close(reading)


async def test_t3_a_closing_transport_drops_what_is_written(loop: Loop, column: str) -> None:
    both = await connect()
    transport = both.client.transport
    transport.write(b"before")
    transport.close()
    transport.write(b"after")
    with contextlib.suppress(*([TypeError] if column == "stdlib" else [])):  # 3.12's call None there
        transport.writelines([b"after", b"after"])
    if both.client.lost.done():
        pytest.fail("connection_lost came too early")
    with contextlib.suppress(RuntimeError):  # stdlib's word for it under TLS only
        transport.write_eof()
    assert await both.client.lost is None
    transport.write(b"much later")
    transport.close()
    transport.abort()
    await both.peer.eof
    assert both.peer.data == b"before"
    await both.close()


async def test_t3_the_reason_of_an_end_is_the_real_one(loop: Loop) -> None:
    both = await connect()
    sock = both.peer.transport.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    both.peer.transport.abort()
    assert await both.peer.lost is None
    assert isinstance(await both.client.lost, ConnectionResetError)
    await both.close()
    plain = await connect()
    plain.peer.transport.close()
    assert await plain.client.lost is None
    assert plain.client.calls == ["connection_made", "eof_received", "connection_lost"]
    await plain.close()


async def test_t4_a_pipe_and_its_file_are_closed_once(loop: Loop) -> None:
    for _ in range(20):
        reading, writing = os.pipe()
        file = os.fdopen(reading, "rb", 0)
        protocol = Record()
        transport, _ = await loop.connect_read_pipe(lambda made=protocol: made, file)  # type: ignore[misc]
        transport.close()
        await protocol.lost
        assert file.closed
        successor = os.dup(writing)  # takes the number
        del file, transport
        await turns(2)
        assert os.fstat(successor)
        os.close(successor)
        os.close(writing)


@pytest.mark.parametrize("steps", range(4))
async def test_t4_create_connection_of_a_socket_cancelled(loop: Loop, steps: int) -> None:
    left, right = pair()
    task = loop.create_task(loop.create_connection(Record, sock=left))
    await turns(steps)
    task.cancel()
    result = await settled(task)
    if isinstance(result, tuple):
        result[0].close()
        await result[1].lost
    await turns(3)
    numbers = [os.dup(right.fileno()) for _ in range(3)]
    with contextlib.suppress(OSError):
        left.close()
    for number in numbers:
        assert os.fstat(number)
        os.close(number)
    right.close()


@pytest.mark.parametrize("action", ["pause_reading", "close", "abort"])
@pytest.mark.parametrize("where", ["get_buffer", "buffer_updated"])
async def test_t5_reentrant_calls_in_a_buffered_protocol(loop: Loop, where: str, action: str) -> None:
    class Reentrant(Buffered):
        def get_buffer(self, sizehint: int) -> bytearray:
            if where == "get_buffer":
                getattr(self.transport, action)()
            return super().get_buffer(sizehint)

        def buffer_updated(self, nbytes: int) -> None:
            super().buffer_updated(nbytes)
            if where == "buffer_updated":
                getattr(self.transport, action)()

    both = await connect(Reentrant)
    both.peer.transport.write(pattern(100))
    if action == "pause_reading":
        while both.client.transport.is_reading():
            await turns(1)
        got = len(both.client.data)
        await turns(10)
        assert len(both.client.data) == got <= 16
        assert bytes(both.client.data) == pattern(100)[:got]
    else:
        assert await both.client.lost is None
    await both.close()


async def test_t5_the_buffer_may_be_resized_between_reads(loop: Loop) -> None:
    class Growing(Buffered):
        def get_buffer(self, sizehint: int) -> bytearray:
            self.buffer = bytearray(len(self.buffer) + 7)
            return self.buffer

    both = await connect(lambda: Growing(1))
    message = pattern(50_000)
    both.peer.transport.write(message)
    both.peer.transport.close()
    await both.client.lost
    assert both.client.data == message
    await both.close()


async def test_t5_a_handle_after_it_fired(loop: Loop) -> None:
    fired = loop.create_future()
    handle = loop.call_later(0.001, fired.set_result, None)
    await fired
    handle.cancel()
    again = loop.create_future()
    other = loop.call_later(0.001, again.set_result, None)
    handle.cancel()
    await again
    assert handle.cancelled() and not other.cancelled()


async def test_t6_timers_are_never_early(loop: Loop) -> None:
    early: list[float] = []
    left = loop.create_future()
    delays = [number / 10_000 for number in range(1, 60)] * 5
    waiting = len(delays)

    def check(handle: list[asyncio.TimerHandle]) -> None:
        nonlocal waiting
        now = loop.time()
        if now < handle[0].when() - 1e-8:
            early.append(handle[0].when() - now)
        waiting -= 1
        if not waiting:
            left.set_result(None)

    for delay in delays:
        box: list[asyncio.TimerHandle] = []
        box.append(loop.call_later(delay, check, box))
    await left
    assert early == []


async def test_t6_an_overdue_timer_needs_no_io_to_fire(loop: Loop) -> None:
    fired = loop.create_future()

    def busy() -> None:
        loop.call_later(0.001, fired.set_result, None)
        until = loop.time() + 0.01
        while loop.time() < until:
            pass

    loop.call_soon(busy)
    await fired


async def test_t6_call_later_zero_is_a_timer(loop: Loop) -> None:
    ran = loop.create_future()
    handle = loop.call_later(0, ran.set_result, None)
    assert isinstance(handle, asyncio.TimerHandle)
    assert abs(handle.when() - loop.time()) < 60
    await ran
    negative = loop.create_future()
    assert isinstance(loop.call_later(-5, negative.set_result, None), asyncio.TimerHandle)
    await negative


class BoomError(Exception):
    pass


def raising(name: str) -> type[Record]:
    def method(self: Any, *arguments: Any) -> None:
        getattr(Record, name)(self, *arguments)
        raise BoomError(name)

    return type("Raising", (Record,), {name: method})


@pytest.mark.parametrize("name", ["data_received", "eof_received", "connection_lost", "pause_writing"])
async def test_t7_a_protocol_callback_that_raises(loop: Loop, name: str, errors: Errors) -> None:
    """It is reported, the transport ends where stdlib ends it, and the loop goes on."""
    both = await connect(raising(name))
    if name == "data_received":
        both.peer.transport.write(b"x")
    elif name == "eof_received":
        both.peer.transport.write_eof()
    elif name == "connection_lost":
        both.client.transport.close()
    else:
        both.peer.transport.pause_reading()
        while not both.client.paused.is_set():
            both.client.transport.write(b"x" * 1_000_000)
            await turns(1)
        both.client.transport.abort()
    lost = await both.client.lost
    await turns(3)
    reported = [context["exception"] for context in errors.take()]
    assert [str(error) for error in reported if isinstance(error, BoomError)] == [name]
    if name in ("data_received", "eof_received"):
        assert isinstance(lost, BoomError)
    await both.close()


async def test_t7_connection_made_that_raises(loop: Loop, errors: Errors) -> None:
    class Raising(Record):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            super().connection_made(transport)
            raise BoomError("made")

    server = await loop.create_server(Raising, LOCAL, 0)
    _, writer = await asyncio.open_connection(LOCAL, server.sockets[0].getsockname()[1])
    while not errors:
        await turns(1)
    assert isinstance(errors.take()[0]["exception"], BoomError)
    writer.close()
    await settled(writer.wait_closed())
    server.close()
    if sys.version_info >= (3, 13):
        server.abort_clients()
    await turns(10)
    errors.take()


async def test_t7_datagram_callbacks_that_raise(loop: Loop, errors: Errors) -> None:
    received = loop.create_future()
    lost = loop.create_future()

    class Raising(asyncio.DatagramProtocol):
        def datagram_received(self, data: bytes, addr: Any) -> None:
            received.set_result(data)
            raise BoomError("datagram")

        def connection_lost(self, exc: BaseException | None) -> None:
            lost.set_result(exc)

    transport, _ = await loop.create_datagram_endpoint(Raising, local_addr=(LOCAL, 0))
    sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sender.sendto(b"x", transport.get_extra_info("sockname"))
    assert await received == b"x"
    await turns(3)
    if not lost.done():
        transport.close()
    await lost
    assert [str(context["exception"]) for context in errors.take()] == ["datagram"]
    sender.close()


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_t7_what_must_end_the_program_ends_the_loop(loop: Loop, kind: type[BaseException]) -> None:
    async def main() -> None:
        both = await connect(raising_base(kind))
        both.peer.transport.write(b"x")
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            both.client.transport.abort()
            both.peer.transport.abort()
            both.server.close()

    task = loop.create_task(main())
    with pytest.raises(kind):
        loop.run_until_complete(task)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        loop.run_until_complete(task)
    loop.run_until_complete(turns(5))


def raising_base(kind: type[BaseException]) -> type[Record]:
    class Raising(Record):
        def data_received(self, data: bytes) -> None:
            raise kind

    return Raising
