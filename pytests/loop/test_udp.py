"""Datagrams: every parameter of create_datagram_endpoint, connected and not, IPv6, Unix, sizes, flow
control, errors.
"""

import asyncio
import socket
from pathlib import Path
from typing import Any

import pytest
from peers import LOCAL, Loop, pattern, turns


class Datagrams(asyncio.DatagramProtocol):
    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.received: asyncio.Queue[tuple[bytes, Any]] = asyncio.Queue()
        self.errors: asyncio.Queue[Exception] = asyncio.Queue()
        self.lost: asyncio.Future[BaseException | None] = loop.create_future()
        self.calls: list[str] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.calls.append("connection_made")

    def datagram_received(self, data: bytes, addr: Any) -> None:
        self.received.put_nowait((data, addr))

    def error_received(self, exc: Exception) -> None:
        self.errors.put_nowait(exc)

    def connection_lost(self, exc: BaseException | None) -> None:
        self.calls.append("connection_lost")
        self.lost.set_result(exc)


async def endpoint(loop: Loop, **options: Any) -> tuple[asyncio.DatagramTransport, Datagrams]:
    return await loop.create_datagram_endpoint(Datagrams, **options)


async def close(*ends: tuple[asyncio.DatagramTransport, Datagrams]) -> None:
    for transport, protocol in ends:
        transport.close()
        assert await protocol.lost is None
        assert protocol.calls == ["connection_made", "connection_lost"]


@pytest.mark.parametrize("host", [LOCAL, "::1", "localhost"])
async def test_not_connected(loop: Loop, host: str) -> None:
    one = await endpoint(loop, local_addr=(host, 0))
    two = await endpoint(loop, local_addr=(host, 0))
    there = one[0].get_extra_info("sockname")
    two[0].sendto(b"question", there)
    data, address = await one[1].received.get()
    assert (data, address) == (b"question", two[0].get_extra_info("sockname"))
    one[0].sendto(b"answer", address)
    assert await two[1].received.get() == (b"answer", there)
    await close(one, two)


async def test_connected(loop: Loop) -> None:
    one = await endpoint(loop, local_addr=(LOCAL, 0))
    address = one[0].get_extra_info("sockname")
    two = await endpoint(loop, remote_addr=address)
    assert two[0].get_extra_info("peername") == address
    two[0].sendto(b"to the one I know")
    two[0].sendto(b"by name", address)
    assert [(await one[1].received.get())[0] for _ in range(2)] == [b"to the one I know", b"by name"]
    with pytest.raises(ValueError, match="Invalid address"):
        two[0].sendto(b"to another", (LOCAL, 9))
    await close(one, two)


@pytest.mark.parametrize("size", [0, 1, 1472, 1473, 9000, 65_507])
async def test_sizes(loop: Loop, size: int) -> None:
    one = await endpoint(loop, local_addr=(LOCAL, 0))
    two = await endpoint(loop, remote_addr=one[0].get_extra_info("sockname"))
    sock = two[0].get_extra_info("socket")
    if size:
        two[0].sendto(pattern(size))
    else:  # whether an empty one is sent at all changed between versions, so the kernel is asked
        with socket.fromfd(sock.fileno(), sock.family, sock.type) as plain:
            plain.send(b"")
    assert (await one[1].received.get())[0] == pattern(size)
    await close(one, two)


async def test_too_large_is_an_error_and_not_the_end(loop: Loop) -> None:
    one = await endpoint(loop, local_addr=(LOCAL, 0))
    two = await endpoint(loop, remote_addr=one[0].get_extra_info("sockname"))
    two[0].sendto(b"x" * 65_508)
    assert isinstance(await two[1].errors.get(), OSError)
    two[0].sendto(b"fine")
    assert (await one[1].received.get())[0] == b"fine"
    await close(one, two)


async def test_order_and_number_in_a_burst(loop: Loop) -> None:
    one = await endpoint(loop, local_addr=(LOCAL, 0))
    one[0].get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 21)
    two = await endpoint(loop, remote_addr=one[0].get_extra_info("sockname"))
    for number in range(200):
        two[0].sendto(b"%d" % number)
    got = [(await one[1].received.get())[0] for _ in range(200)]
    assert got == [b"%d" % number for number in range(200)]
    await close(one, two)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
async def test_what_can_be_sent(loop: Loop, kind: Any) -> None:
    one = await endpoint(loop, local_addr=(LOCAL, 0))
    two = await endpoint(loop, local_addr=(LOCAL, 0))
    two[0].sendto(kind(b"data"), one[0].get_extra_info("sockname"))
    data, _ = await one[1].received.get()
    assert type(data) is bytes and data == b"data"
    await close(one, two)


async def test_parameters(loop: Loop) -> None:
    one = await endpoint(
        loop, local_addr=(LOCAL, 0), reuse_port=True, family=socket.AF_INET, proto=socket.IPPROTO_UDP
    )
    sock = one[0].get_extra_info("socket")
    assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT)
    assert not sock.getsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST)
    again = await endpoint(loop, local_addr=one[0].get_extra_info("sockname"), reuse_port=True)
    wide = await endpoint(loop, local_addr=(LOCAL, 0), allow_broadcast=True, flags=socket.AI_NUMERICHOST)
    assert wide[0].get_extra_info("socket").getsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST)
    bare = await endpoint(loop, family=socket.AF_INET)
    assert bare[0].get_extra_info("sockname")[1] == 0
    await close(one, again, wide, bare)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind((LOCAL, 0))
        with pytest.raises(OSError, match="in use"):
            await endpoint(loop, local_addr=taken.getsockname())


async def test_a_socket_of_ones_own(loop: Loop) -> None:
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind((LOCAL, 0))
    one = await endpoint(loop, sock=sock)
    assert one[0].get_extra_info("sockname") == sock.getsockname()
    two = await endpoint(loop, remote_addr=sock.getsockname())
    two[0].sendto(b"x")
    assert (await one[1].received.get())[0] == b"x"
    await close(one, two)
    assert sock.fileno() == -1


async def test_unix_datagrams(loop: Loop, tmp_path: Path) -> None:
    here, there = str(tmp_path / "here"), str(tmp_path / "there")
    one = await endpoint(loop, family=socket.AF_UNIX, local_addr=here)
    two = await endpoint(loop, family=socket.AF_UNIX, local_addr=there, remote_addr=here)
    two[0].sendto(b"question")
    assert await one[1].received.get() == (b"question", there)
    one[0].sendto(b"answer", there)
    assert (await two[1].received.get())[0] == b"answer"
    await close(one, two)


async def test_unix_datagrams_are_queued_when_the_reader_is_slow(loop: Loop, tmp_path: Path) -> None:
    """Unlike UDP's they wait in the sender: flow control, and not one is lost."""
    path = str(tmp_path / "slow")
    reader = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    reader.bind(path)
    reader.setblocking(False)
    paused = asyncio.Event()

    class Paced(Datagrams):
        def pause_writing(self) -> None:
            paused.set()

        def resume_writing(self) -> None:
            paused.clear()

    transport: Any
    transport, protocol = await loop.create_datagram_endpoint(Paced, family=socket.AF_UNIX, remote_addr=path)
    transport.set_write_buffer_limits(high=10_000)
    sent = 0
    while not paused.is_set():
        transport.sendto(b"%05d" % sent + b"x" * 1000)
        sent += 1
        assert sent < 10_000, "never told to pause"
    assert transport.get_write_buffer_size() > 10_000
    for number in range(sent):
        data = await loop.sock_recv(reader, 2000)
        assert data[:5] == b"%05d" % number
    while paused.is_set():
        await turns(1)
    transport.close()
    assert await protocol.lost is None
    reader.close()


async def test_abort_drops_what_is_queued(loop: Loop, tmp_path: Path) -> None:
    path = str(tmp_path / "slow")
    reader = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    reader.bind(path)
    transport: Any
    transport, protocol = await endpoint(loop, family=socket.AF_UNIX, remote_addr=path)
    while not transport.get_write_buffer_size():
        transport.sendto(b"x" * 1000)
    transport.abort()
    assert await protocol.lost is None
    transport.sendto(b"dropped")
    reader.close()
