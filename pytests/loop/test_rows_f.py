"""Rows F1 to F9 of the bug classes: file descriptors and who owns them. Each test is named after its row."""

import asyncio
import contextlib
import errno
import fcntl
import os
import resource
import socket
import ssl
import sys
import threading
import time
from typing import Any

import pytest
from peers import LOCAL, Errors, Loop, Record, connect, listener, pair, pattern, settled, turns


async def test_f1_a_reader_removed_in_the_same_turn_is_not_called(loop: Loop) -> None:
    left, right = pair(), pair()
    calls: list[str] = []
    both = loop.create_future()

    def first(mine: socket.socket, other: socket.socket, name: str) -> None:
        calls.append(name)
        loop.remove_reader(mine)
        loop.remove_reader(other)
        both.set_result(None)

    loop.add_reader(left[0], first, left[0], right[0], "left")
    loop.add_reader(right[0], first, right[0], left[0], "right")
    left[1].send(b"x")
    right[1].send(b"x")
    await both
    await turns(5)
    assert len(calls) == 1
    for sock in (*left, *right):
        sock.close()


async def test_f1_a_reused_number_does_not_get_the_event_of_its_former_owner(loop: Loop) -> None:
    """Both sockets are readable at once; whoever comes first puts a silent socket in the other's place."""
    one, two, silent = pair(), pair(), pair()
    woken: list[str] = []
    replaced = loop.create_future()

    def swap(mine: socket.socket, other: socket.socket) -> None:
        loop.remove_reader(mine)
        loop.remove_reader(other)
        number = other.fileno()
        os.dup2(silent[0].fileno(), number)
        loop.add_reader(number, woken.append, "new owner")
        replaced.set_result((other, number))

    loop.add_reader(one[0], swap, one[0], two[0])
    loop.add_reader(two[0], swap, two[0], one[0])
    one[1].send(b"x")
    two[1].send(b"x")
    _, number = await replaced
    await turns(10)
    assert woken == []
    silent[1].send(b"now")
    while not woken:
        await turns(1)
    assert woken[0] == "new owner"
    loop.remove_reader(number)
    for sock in (*one, *two, *silent):
        sock.close()


async def test_f1_aborted_connections_never_hand_their_bytes_to_the_next(loop: Loop) -> None:
    """Round after round a connection is torn down while its peer sends, and the next one gets its number."""
    server_side: list[Record] = []

    class Sender(Record):
        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self.transport.write(bytes(data[:1]) * 1000)

    def make() -> Sender:
        server_side.append(Sender())
        return server_side[-1]  # type: ignore[return-value]

    server = await loop.create_server(make, LOCAL, 0)
    port = server.sockets[0].getsockname()[1]
    numbers = set()
    for index in range(100):
        mark = bytes([index])
        transport, protocol = await loop.create_connection(Record, LOCAL, port)
        numbers.add(transport.get_extra_info("socket").fileno())
        transport.write(mark)
        if index % 2:
            await protocol.received(1)
        assert set(protocol.data) <= {index}
        transport.abort()
        await protocol.lost
        assert set(protocol.data) <= {index}
    assert len(numbers) < 100, "no number was ever reused, so nothing was tried"
    for peer in server_side:
        await peer.lost
    server.close()
    await server.wait_closed()


@pytest.mark.parametrize("steps", range(6))
async def test_f2_a_cancelled_connect_closes_its_socket_once(loop: Loop, steps: int) -> None:
    """The number it had goes to another connection, whose data must arrive whole."""
    other = await connect()
    server = await loop.create_server(Record, LOCAL, 0)
    port = server.sockets[0].getsockname()[1]
    for _ in range(10):
        attempt = loop.create_task(loop.create_connection(Record, LOCAL, port))
        await turns(steps)
        attempt.cancel()
        left, right = pair()  # takes the number as soon as it is free
        result = await settled(attempt)
        later = pair()
        await turns(3)
        if isinstance(result, tuple):
            result[0].abort()
            await result[1].lost
        for sock in (left, right, *later):
            assert os.fstat(sock.fileno())
        left.send(b"mine")
        assert right.recv(10) == b"mine"
        for sock in (left, right, *later):
            sock.close()
    message = pattern(100_000)
    other.client.transport.write(message)
    assert await other.peer.received(len(message)) == message
    await other.close()
    server.close()
    if sys.version_info >= (3, 13):
        server.abort_clients()
    await turns(5)


async def test_f3_readers_registered_for_other_threads_while_the_loop_waits(loop: Loop) -> None:
    """Threads may not touch the poller, so they ask the loop; none of these requests is lost."""
    pairs = [pair() for _ in range(40)]
    finished = loop.create_future()
    got: set[int] = set()

    def ready(index: int) -> None:
        loop.remove_reader(pairs[index][0])
        got.add(index)
        if len(got) == len(pairs):
            finished.set_result(None)

    def ask(share: range) -> None:
        for index in share:
            loop.call_soon_threadsafe(loop.add_reader, pairs[index][0], ready, index)
            pairs[index][1].send(b"x")

    threads = [threading.Thread(target=ask, args=(range(start, 40, 4),)) for start in range(4)]
    for thread in threads:
        thread.start()
    await finished
    for thread in threads:
        thread.join()
    for sock in (sock for both in pairs for sock in both):
        sock.close()


class Forged:
    def __init__(self, number: Any) -> None:
        self._number = number

    def fileno(self) -> Any:
        return self._number


@pytest.mark.parametrize(
    "key", [-1, 2**31 - 1, 2**40, 2**70, None, "1", 1.5, Forged(-5), Forged("x"), Forged(2**70)]
)
async def test_f4_forged_keys_are_refused(loop: Loop, key: Any) -> None:
    with pytest.raises((ValueError, OSError, OverflowError, TypeError)):
        loop.add_reader(key, print)
    with pytest.raises((ValueError, OSError, OverflowError, TypeError)):
        loop.add_writer(key, print)
    await turns(2)


async def test_f4_unknown_numbers_are_not_registered(loop: Loop) -> None:
    left, right = pair()
    assert loop.remove_reader(left) is False
    assert loop.remove_writer(left.fileno()) is False
    loop.add_reader(left, print)
    assert loop.remove_writer(left) is False
    assert loop.remove_reader(left.fileno()) is True
    assert loop.remove_reader(left) is False
    left.close()
    right.close()


@pytest.mark.parametrize("kind", ["reader", "writer"])
async def test_f4_a_socket_that_was_closed_is_still_known_by_its_object(loop: Loop, kind: str) -> None:
    """Its number is -1 by then; whoever registered it can take it back all the same."""
    left, right = pair()
    getattr(loop, f"add_{kind}")(left, print)
    left.close()
    assert getattr(loop, f"remove_{kind}")(left) is True
    with pytest.raises(ValueError, match="Invalid file"):
        getattr(loop, f"remove_{kind}")(left)
    right.close()


async def test_f4_stale_handles_can_be_touched(loop: Loop) -> None:
    ran: list[int] = []
    handles = [loop.call_soon(ran.append, 1), loop.call_later(0, ran.append, 2)]
    while len(ran) < 2:
        await turns(1)
    for handle in handles:
        handle.cancel()
        handle.cancel()
        assert handle.cancelled()
        assert repr(handle)
    await turns(3)
    assert sorted(ran) == [1, 2]


async def test_f5_ssl_speaks_tls_on_the_wire(loop: Loop, client_context: ssl.SSLContext) -> None:
    wire = listener()
    port = wire.getsockname()[1]
    attempt = loop.create_task(
        loop.create_connection(Record, LOCAL, port, ssl=client_context, server_hostname="localhost")
    )
    conn, _ = await loop.sock_accept(wire)
    hello = await loop.sock_recv(conn, 5)
    assert hello[:2] == b"\x16\x03", "the first record is not a TLS handshake"
    conn.close()
    wire.close()
    assert isinstance(await settled(attempt), OSError)


async def test_f5_a_tls_server_does_not_answer_plaintext(
    loop: Loop, server_context: ssl.SSLContext, errors: Errors
) -> None:
    made: list[Record] = []

    def make() -> Record:
        made.append(Record())
        return made[-1]

    server = await loop.create_server(make, LOCAL, 0, ssl=server_context)
    client = socket.socket()
    client.setblocking(False)
    await loop.sock_connect(client, server.sockets[0].getsockname())
    await loop.sock_sendall(client, b"GET / HTTP/1.1\r\n\r\n")
    answer = await settled(loop.sock_recv(client, 100))
    assert isinstance(answer, OSError) or answer[:1] in (b"", b"\x15"), "neither an alert nor an end"  # type: ignore[index]
    client.close()
    server.close()
    await turns(10)
    assert not any(protocol.made.done() for protocol in made)
    errors.take()  # stdlib reports the failed handshake in debug mode


async def test_f6_write_eof_closes_one_direction(loop: Loop) -> None:
    both = await connect(lambda: Record(keep_open=True), lambda: Record(keep_open=True))
    both.client.transport.write(b"question")
    both.client.transport.write_eof()
    await both.peer.eof
    assert both.peer.data == b"question"
    answer = pattern(300_000)
    both.peer.transport.write(answer)
    assert await both.client.received(len(answer)) == answer
    assert not both.client.lost.done()
    both.peer.transport.close()
    assert await both.peer.lost is None
    await both.client.eof
    both.client.transport.close()
    assert await both.client.lost is None
    await both.close()


@pytest.mark.parametrize("how", ["close", "abort"])
async def test_f6_connection_lost_is_not_called_inside_close(loop: Loop, how: str) -> None:
    both = await connect()
    getattr(both.client.transport, how)()
    assert not both.client.lost.done()
    assert both.client.transport.is_closing()
    assert await both.client.lost is None
    assert both.client.calls.count("connection_lost") == 1
    await both.close()


async def test_f6_drain_waits_for_a_reader_that_does_not_read(loop: Loop) -> None:
    accepted = loop.create_future()
    server = await asyncio.start_server(lambda *both: accepted.set_result(both), LOCAL, 0)
    _, writer = await asyncio.open_connection(LOCAL, server.sockets[0].getsockname()[1])
    peer_reader, peer_writer = await accepted
    peer_writer.transport.pause_reading()
    high = writer.transport.get_write_buffer_limits()[1]
    chunk = b"x" * 65536
    written = 0
    while writer.transport.get_write_buffer_size() <= high:
        writer.write(chunk)
        written += len(chunk)
        assert written < 100_000_000, "100 MB were taken without the buffer ever growing"
    drain = loop.create_task(writer.drain())
    await turns(20)
    assert not drain.done()
    peer_writer.transport.resume_reading()
    total = 0
    while total < written:
        total += len(await peer_reader.read(1 << 20))
    await drain
    for stream in (writer, peer_writer):
        stream.close()
        with contextlib.suppress(ConnectionError):
            await stream.wait_closed()
    server.close()
    await server.wait_closed()


async def test_f7_a_burst_of_clients_is_accepted(loop: Loop) -> None:
    made: list[Record] = []
    everyone = loop.create_future()

    class Count(Record):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            super().connection_made(transport)
            made.append(self)
            if len(made) == 60:
                everyone.set_result(None)

    server = await loop.create_server(Count, LOCAL, 0, backlog=100)
    clients = [socket.create_connection(server.sockets[0].getsockname()) for _ in range(60)]
    await everyone
    for client in clients:
        client.close()
    for peer in made:
        await peer.lost
    server.close()
    await server.wait_closed()


async def test_f7_out_of_descriptors_is_reported_and_not_spun_on(
    loop: Loop, errors: Errors, column: str
) -> None:
    if column == "uvloop":
        pytest.skip("ends the process")
    made: list[Record] = []
    served = loop.create_future()

    class Served(Record):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            super().connection_made(transport)
            made.append(self)
            served.set_result(None)

    server = await loop.create_server(Served, LOCAL, 0, backlog=100)
    client = socket.socket()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    before = os.dup(0)
    os.close(before)
    resource.setrlimit(resource.RLIMIT_NOFILE, (before, hard))  # the next descriptor is one too many
    try:
        client.connect(server.sockets[0].getsockname())
        while not errors:
            await turns(1)
        cpu, wall = time.process_time(), time.monotonic()
        await asyncio.sleep(0.3)
        cpu, wall = time.process_time() - cpu, time.monotonic() - wall
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    reports = errors.take()
    assert all(report["exception"].errno == errno.EMFILE for report in reports)
    # stdlib's loop reports each attempt of a round: as many as the backlog, and from 3.14 on one more.
    assert len(reports) <= 101, "there was more than one round of attempts"
    assert cpu / wall < 0.5, "the loop span while there was no descriptor to be had"
    await served
    errors.lenient = column == "stdlib"  # which has a timer for each report, and lets them fire after close()
    client.close()
    await made[0].lost
    server.close()
    await server.wait_closed()


async def blocked_receive(loop: Loop, sock: socket.socket) -> None:
    await loop.sock_recv(sock, 10)


async def blocked_receive_into(loop: Loop, sock: socket.socket) -> None:
    await loop.sock_recv_into(sock, bytearray(10))


async def blocked_send(loop: Loop, sock: socket.socket) -> None:
    await loop.sock_sendall(sock, b"x" * 20_000_000)


async def blocked_receive_from(loop: Loop, sock: socket.socket) -> None:
    await loop.sock_recvfrom(sock, 10)


@pytest.mark.parametrize(
    "operation", [blocked_receive, blocked_receive_into, blocked_send, blocked_receive_from]
)
async def test_f8_a_cancelled_sock_call_leaves_nothing_registered(loop: Loop, operation: Any) -> None:
    left, right = pair()
    task = loop.create_task(operation(loop, left))
    await turns(5)
    task.cancel()
    assert isinstance(await settled(task), asyncio.CancelledError)
    await turns(2)
    assert loop.remove_reader(left) is False
    assert loop.remove_writer(left) is False
    if operation is blocked_receive:
        await loop.sock_sendall(right, b"later")
        assert await loop.sock_recv(left, 10) == b"later"
    left.close()
    right.close()


async def test_f8_a_cancelled_accept_leaves_the_client_to_the_next_one(loop: Loop) -> None:
    door = listener()
    task = loop.create_task(loop.sock_accept(door))
    await turns(5)
    task.cancel()
    assert isinstance(await settled(task), asyncio.CancelledError)
    client = socket.create_connection(door.getsockname())
    await turns(5)
    conn, _ = await loop.sock_accept(door)
    for sock in (client, conn, door):
        sock.close()


async def test_f8_a_cancelled_connect_leaves_nothing_registered(loop: Loop) -> None:
    door = socket.create_server((LOCAL, 0), backlog=0)
    filler = [socket.socket() for _ in range(4)]
    for sock in filler:
        sock.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            sock.connect(door.getsockname())
    client = socket.socket()
    client.setblocking(False)
    task = loop.create_task(loop.sock_connect(client, door.getsockname()))
    await turns(5)
    assert not task.done(), "the listener took one more than it should, so nothing was tried"
    task.cancel()
    assert isinstance(await settled(task), asyncio.CancelledError)
    await turns(2)
    assert loop.remove_writer(client) is False
    for sock in (client, door, *filler):
        sock.close()


def above_1024(sock: socket.socket) -> socket.socket:
    high = socket.socket(fileno=fcntl.fcntl(sock, fcntl.F_DUPFD_CLOEXEC, 1500))
    sock.close()
    high.setblocking(False)
    assert high.fileno() >= 1500
    return high


async def test_f9_numbers_above_1024(loop: Loop) -> None:
    left, right = map(above_1024, pair())
    await loop.sock_sendall(left, b"high")
    assert await loop.sock_recv(right, 10) == b"high"
    read = loop.create_future()
    loop.add_reader(right, read.set_result, None)
    left.send(b"x")
    await read
    loop.remove_reader(right)
    right.recv(10)
    transport, protocol = await loop.create_connection(Record, sock=left)
    transport.write(pattern(500_000))
    total = b""
    while len(total) < 500_000:
        total += await loop.sock_recv(right, 1 << 16)
    assert total == pattern(500_000)
    right.close()
    await protocol.lost
    transport.close()
