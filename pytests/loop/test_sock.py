"""The sock_* calls and sendfile: every one of them, over real sockets, cancelled and concurrent."""

import asyncio
import socket
import tempfile
from collections.abc import Iterator
from typing import IO, Any

import pytest
from peers import LOCAL, Loop, Record, connect, listener, pair, pattern, settled, turns


@pytest.fixture
def file() -> Iterator[IO[bytes]]:
    with tempfile.TemporaryFile() as file:
        file.write(pattern(1_000_000))
        file.seek(0)
        yield file


async def read_all(loop: Loop, sock: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size and (part := await loop.sock_recv(sock, 1 << 16)):
        data += part
    return bytes(data)


async def test_connect_accept_send_receive(loop: Loop) -> None:
    door, client = listener(), socket.socket()
    client.setblocking(False)
    accepting = loop.create_task(loop.sock_accept(door))
    await loop.sock_connect(client, door.getsockname())
    conn, address = await accepting
    assert address == client.getsockname()
    assert conn.gettimeout() == 0
    message = pattern(3_000_000)
    sending = loop.create_task(loop.sock_sendall(client, message))
    assert await read_all(loop, conn, len(message)) == message
    await sending
    client.close()
    assert await loop.sock_recv(conn, 10) == b""
    conn.close()
    door.close()


async def test_what_is_received_is_whole_whatever_came_before(loop: Loop) -> None:
    left, right = pair()
    for size in (1, 60_000, 60_000, 1, 60_000, 30_000, 70_000, 2, 3):
        message = pattern(size)
        sending = loop.create_task(loop.sock_sendall(right, message))
        assert await read_all(loop, left, size) == message
        await sending
    right.close()
    assert await loop.sock_recv(left, 1 << 16) == b""
    left.close()


async def test_receive_into(loop: Loop) -> None:
    left, right = pair()
    buffer = bytearray(b"........")
    task = loop.create_task(loop.sock_recv_into(left, memoryview(buffer)[2:]))
    await turns(2)
    right.send(b"abc")
    assert await task == 3
    assert buffer == b"..abc..."
    left.close()
    right.close()


async def test_datagrams(loop: Loop) -> None:
    socks = []
    for _ in range(2):
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        sock.setblocking(False)
        sock.bind((LOCAL, 0))
        socks.append(sock)
    one, two = socks
    waiting = loop.create_task(loop.sock_recvfrom(two, 100))
    await turns(2)
    assert await loop.sock_sendto(one, b"hello", two.getsockname()) == 5
    assert await waiting == (b"hello", one.getsockname())
    buffer = bytearray(10)
    await loop.sock_sendto(one, b"again", two.getsockname())
    assert await loop.sock_recvfrom_into(two, buffer) == (5, one.getsockname())
    assert buffer[:5] == b"again"
    one.close()
    two.close()


async def test_two_directions_of_one_socket_at_once(loop: Loop) -> None:
    left, right = pair()
    message = pattern(2_000_000)
    results = await asyncio.gather(
        loop.sock_sendall(left, message),
        loop.sock_sendall(right, message[::-1]),
        read_all(loop, right, len(message)),
        read_all(loop, left, len(message)),
    )
    assert results[2] == message and results[3] == message[::-1]
    left.close()
    right.close()


async def test_many_sockets_wait_at_once(loop: Loop) -> None:
    pairs = [pair() for _ in range(100)]
    tasks = [loop.create_task(loop.sock_recv(left, 10)) for left, _ in pairs]
    await turns(2)
    for number, (_, right) in reversed(list(enumerate(pairs))):
        right.send(b"%d" % number)
    assert await asyncio.gather(*tasks) == [b"%d" % number for number in range(100)]
    for left, right in pairs:
        left.close()
        right.close()


async def test_connect_by_name_needs_a_lookup(loop: Loop) -> None:
    door, client = listener(), socket.socket()
    client.setblocking(False)
    await loop.sock_connect(client, ("localhost", door.getsockname()[1]))
    assert client.getpeername() == door.getsockname()
    client.close()
    door.close()


async def test_a_wait_for_that_gives_up_leaves_the_data(loop: Loop) -> None:
    left, right = pair()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(loop.sock_recv(left, 10), 0.01)
    right.send(b"kept")
    assert await loop.sock_recv(left, 10) == b"kept"
    left.close()
    right.close()


@pytest.mark.parametrize("share", [(0, None), (1000, None), (500, 10_000), (999_999, 50), (2_000_000, 10)])
async def test_sock_sendfile(loop: Loop, file: IO[bytes], share: tuple[int, int | None]) -> None:
    offset, count = share
    left, right = pair()
    end = 1_000_000 if count is None else offset + count
    expected = pattern(1_000_000)[offset:end]
    reading = loop.create_task(read_all(loop, right, len(expected)))
    assert await loop.sock_sendfile(left, file, offset, count) == len(expected)
    left.shutdown(socket.SHUT_WR)
    assert await reading == expected
    if expected:
        assert file.tell() == offset + len(expected)
    left.close()
    right.close()


@pytest.mark.parametrize("secure", [False, True], ids=["tcp", "tls"])
async def test_sendfile_between_writes(
    loop: Loop, file: IO[bytes], secure: bool, server_context: Any, client_context: Any
) -> None:
    contexts = {"server_ssl": server_context, "client_ssl": client_context} if secure else {}
    both = await connect(**contexts)
    transport = both.client.transport
    transport.write(b"before")
    assert await loop.sendfile(transport, file, 10, 500_000) == 500_000
    transport.write(b"after")
    expected = b"before" + pattern(1_000_000)[10:500_010] + b"after"
    assert await both.peer.received(len(expected)) == expected
    await both.close()


async def test_sendfile_without_the_system_call(loop: Loop) -> None:
    """What has no descriptor is read and written, unless that was forbidden."""
    import io

    both = await connect()
    assert await loop.sendfile(both.client.transport, io.BytesIO(pattern(300_000))) == 300_000
    assert await both.peer.received(300_000) == pattern(300_000)
    with pytest.raises((asyncio.SendfileNotAvailableError, RuntimeError)):
        await loop.sendfile(both.client.transport, io.BytesIO(b"x"), fallback=False)
    await both.close()


async def test_sendfile_to_a_peer_that_goes(loop: Loop, file: IO[bytes]) -> None:
    both = await connect(peer=Record)
    both.peer.transport.pause_reading()
    task = loop.create_task(loop.sendfile(both.client.transport, file))
    await turns(5)
    both.peer.transport.abort()
    result = await settled(task)
    assert isinstance(result, (ConnectionError, int))
    if not both.client.transport.is_closing():
        both.client.transport.abort()
    await both.close()
