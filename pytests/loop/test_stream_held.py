"""Stream transports in a turn with many callbacks: a small write may be put off until its end, and nobody can
tell.

Every test gives a callback that writes others to come after it in the same turn; without them nothing is put
off.
"""

import asyncio
import contextvars
import os
import random
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from peers import Errors, Loop, Pair, Record, connect, pattern, turns

WHO = contextvars.ContextVar("WHO", default="nobody")


def nothing() -> None:
    """A callback that keeps the turn going."""


def within_a_turn(loop: Loop, *steps: Callable[[], Any]) -> None:
    """All of it in one turn, and something after it."""
    for step in (*steps, nothing):
        loop.call_soon(step)


async def pairs(count: int) -> list[Pair]:
    return [await connect() for _ in range(count)]


def there(sock: socket.socket, size: int) -> bytes:
    """What has come in already."""
    sock.setblocking(False)
    try:
        return sock.recv(size)
    except BlockingIOError:
        return b""


def next_part(sock: socket.socket, size: int) -> bytes:
    """Waits for what comes in next; for another thread."""
    sock.setblocking(True)
    return sock.recv(size)


async def half(loop: Loop) -> tuple[Record, socket.socket]:
    """A transport and the bare socket at its other end."""
    near, far = socket.socketpair()
    _, protocol = await loop.create_connection(Record, sock=near)
    return protocol, far


async def test_writes_of_many_connections_in_one_turn_all_arrive(loop: Loop) -> None:
    both = await pairs(100)
    sent = [pattern(100 + 7 * at) for at in range(len(both))]
    within_a_turn(loop, *(lambda at=at: both[at].client.transport.write(sent[at]) for at in range(len(both))))
    for pair, data in zip(both, sent, strict=True):
        assert await pair.peer.received(len(data)) == data
        await pair.close()


@pytest.mark.parametrize("seed", range(4))
async def test_writes_of_every_kind_keep_their_order(loop: Loop, seed: int) -> None:
    rng = random.Random(seed)
    both = await pairs(5)
    expected = [b""] * len(both)

    def write(at: int, data: bytes) -> None:
        transport = both[at].client.transport
        expected[at] += data
        how: list[Callable[[], None]] = [
            lambda: transport.write(data),
            lambda: transport.write(bytearray(data)),
            lambda: transport.write(memoryview(data)),
            lambda: transport.writelines([data[:10], data[10:]]),
            lambda: transport.writelines(part for part in (data[:3], bytearray(data[3:]))),
        ]
        rng.choices(how, (10, 1, 1, 1, 1))[0]()

    def some() -> None:
        for _ in range(rng.choice((1, 1, 2, 5))):
            write(rng.randrange(len(both)), rng.randbytes(rng.choice((1, 200, 5_000, 16_000, 40_000))))

    for _ in range(8):
        within_a_turn(loop, *[some] * rng.randrange(1, 100))
        await turns(1)
        # Room, so that all is not queued up from the first full socket on.
        for at, pair in enumerate(both):
            await pair.peer.received(len(expected[at]))
    for at, pair in enumerate(both):
        assert await pair.peer.received(len(expected[at])) == expected[at]
        await pair.close()


async def test_a_generator_that_writes_comes_before_the_lines_it_gives(loop: Loop) -> None:
    protocol, far = await half(loop)

    def lines() -> Any:
        protocol.transport.write(b"first ")
        yield b"second"

    within_a_turn(loop, lambda: protocol.transport.writelines(lines()))
    await turns(2)
    assert there(far, 100) == b"first second"
    far.close()
    await protocol.lost


@pytest.mark.parametrize("end", ["close", "abort", "write_eof"])
async def test_what_was_written_before_the_end_arrives(loop: Loop, end: str) -> None:
    protocol, far = await half(loop)

    def write_and_end() -> None:
        protocol.transport.write(b"the last words")
        getattr(protocol.transport, end)()
        # The end of the stream may follow in a turn of its own; the words are there.
        seen.append(there(far, 100))

    seen: list[bytes] = []
    within_a_turn(loop, write_and_end)
    await turns(2)
    assert seen == [b"the last words"]
    assert await loop.run_in_executor(None, next_part, far, 100) == b""
    protocol.transport.abort()
    await protocol.lost
    far.close()


async def test_close_is_as_quick_as_if_the_write_had_gone_out(loop: Loop) -> None:
    protocol, far = await half(loop)
    order: list[str] = []
    protocol.lost.add_done_callback(lambda _: order.append("lost"))

    def write_and_close() -> None:
        protocol.transport.write(b"x")
        loop.call_soon(order.append, "before")
        protocol.transport.close()
        loop.call_soon(order.append, "after")

    within_a_turn(loop, write_and_close)
    await protocol.lost
    await turns(2)
    # connection_lost lies between both; the callback of its future comes after it.
    assert order == ["before", "after", "lost"]
    far.close()


async def test_nothing_waits_that_the_socket_would_have_taken(loop: Loop) -> None:
    protocol, far = await half(loop)
    sizes: list[int] = []

    def write() -> None:
        protocol.transport.set_write_buffer_limits(high=0)
        protocol.transport.write(b"x" * 1000)
        sizes.append(protocol.transport.get_write_buffer_size())
        protocol.transport.set_write_buffer_limits(high=10)
        protocol.transport.write(b"y" * 5)
        protocol.transport.write(b"z" * 6)
        sizes.append(protocol.transport.get_write_buffer_size())

    within_a_turn(loop, write)
    await turns(2)
    assert sizes == [0, 0]
    assert "pause_writing" not in protocol.calls
    assert there(far, 2000) == b"x" * 1000 + b"y" * 5 + b"z" * 6
    far.close()
    await protocol.lost


async def test_the_protocol_is_paused_before_the_write_returns(loop: Loop) -> None:
    near, far = socket.socketpair()
    near.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)
    transport, protocol = await loop.create_connection(Record, sock=near)
    transport.set_write_buffer_limits(high=0)
    seen: list[bool] = []

    def write() -> None:
        transport.write(b"x" * 14_000)
        seen.append(protocol.paused.is_set())

    within_a_turn(loop, write)
    await turns(2)
    assert seen == [True]
    transport.abort()
    await protocol.lost
    far.close()


def test_what_a_turn_wrote_is_out_when_the_loop_is_stopped_in_it(loop: Loop) -> None:
    protocol, far = loop.run_until_complete(half(loop))
    within_a_turn(loop, lambda: protocol.transport.write(b"before"), loop.stop)
    loop.run_forever()
    assert there(far, 100) == b"before"
    far.close()
    loop.run_until_complete(protocol.lost)


def test_what_a_turn_wrote_is_out_when_an_exception_ends_it(loop: Loop) -> None:
    protocol, far = loop.run_until_complete(half(loop))

    def interrupt() -> None:
        raise KeyboardInterrupt

    within_a_turn(loop, lambda: protocol.transport.write(b"before"), interrupt)
    with pytest.raises(KeyboardInterrupt):
        loop.run_forever()
    assert there(far, 100) == b"before"
    far.close()
    loop.run_until_complete(protocol.lost)


def test_a_write_outside_of_turns_goes_out_at_once(loop: Loop) -> None:
    protocol, far = loop.run_until_complete(half(loop))
    protocol.transport.write(b"now")
    assert there(far, 100) == b"now"
    far.close()
    loop.run_until_complete(protocol.lost)


async def test_a_peer_that_is_gone_ends_one_connection_and_no_other(loop: Loop, errors: Errors) -> None:
    halves = [await half(loop) for _ in range(3)]
    halves[1][0].transport.pause_reading()
    halves[1][1].close()
    within_a_turn(loop, *(lambda at=at: halves[at][0].transport.write(b"word %d" % at) for at in range(3)))
    assert isinstance(await halves[1][0].lost, BrokenPipeError)
    assert halves[1][0].calls.count("connection_lost") == 1
    for at in (0, 2):
        assert there(halves[at][1], 100) == b"word %d" % at
        halves[at][1].close()
        await halves[at][0].lost
    assert errors.take() == []


async def test_room_is_told_in_the_context_of_who_wrote(loop: Loop) -> None:
    seen: list[str] = []
    resumed = asyncio.Event()

    class Told(Record):
        def resume_writing(self) -> None:
            seen.append(WHO.get())
            resumed.set()

    near, far = socket.socketpair()
    near.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)
    transport, _ = await loop.create_connection(Told, sock=near)
    transport.set_write_buffer_limits(high=15_000, low=0)

    def write(who: str, size: int) -> None:
        WHO.set(who)
        transport.write(b"x" * size)

    within_a_turn(loop, lambda: write("first", 14_000), nothing, nothing)
    await turns(1)
    assert 0 < transport.get_write_buffer_size() <= 14_000
    write("second", 15_000)
    left = 29_000
    while left:
        left -= len(await loop.run_in_executor(None, next_part, far, 4096))
    await resumed.wait()
    assert seen == ["first"]
    transport.abort()
    far.close()
    await turns(2)


async def test_a_file_comes_after_what_was_written_before_it(loop: Loop, tmp_path: Path) -> None:
    content = pattern(50_000)
    (tmp_path / "file").write_bytes(content)
    both = await connect()

    async def send() -> None:
        both.client.transport.write(b"head ")
        with (tmp_path / "file").open("rb") as file:
            await loop.sendfile(both.client.transport, file)
        both.client.transport.write(b" tail")

    task = loop.create_task(send())
    within_a_turn(loop)
    await task
    assert await both.peer.received(len(content) + 10) == b"head " + content + b" tail"
    await both.close()


async def test_a_first_write_in_a_long_turn_does_not_wait_for_its_end(loop: Loop) -> None:
    """Whoever writes again and again sees its peer answer within the turn."""
    protocol, far = await half(loop)
    seen: list[bytes] = []
    within_a_turn(
        loop,
        *[lambda: protocol.transport.write(b"x")] * 200,
        lambda: seen.append(there(far, 1000)),
        *[lambda: protocol.transport.write(b"x")] * 10,
    )
    await turns(2)
    assert len(seen[0]) >= 100
    assert len(seen[0] + there(far, 1000)) == 210
    far.close()
    await protocol.lost


async def test_the_fd_of_a_closed_transport_gets_nothing(loop: Loop) -> None:
    """A number may have a new owner in the same turn."""
    protocol, far = await half(loop)
    fd = protocol.transport.get_extra_info("socket").fileno()
    within_a_turn(loop, lambda: protocol.transport.write(b"mine"), protocol.transport.abort)
    await protocol.lost
    read, write = os.pipe()
    assert fd in (read, write) or os.dup2(write, fd) == fd
    await turns(2)
    assert there(far, 100) == b"mine"
    os.set_blocking(read, False)
    with pytest.raises(BlockingIOError):
        os.read(read, 1)
    for number in {read, write, fd}:
        os.close(number)
    far.close()
