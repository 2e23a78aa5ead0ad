"""Stream transports, writing: what goes out at once, what waits, and what the protocol hears of it."""

import array
import asyncio
import contextvars
import logging
import sys
from typing import Any

import pytest
from peers import Errors, Loop, Pair, Record, connect, pattern, turns

WHO = contextvars.ContextVar("WHO", default="nobody")


async def full(both: Pair) -> bytes:
    """Writes until something waits in the transport. The peer does not read."""
    both.peer.transport.pause_reading()
    chunk = pattern(64 * 1024)
    written = b""
    while not both.client.transport.get_write_buffer_size():
        both.client.transport.write(chunk)
        written += chunk
    return written


@pytest.mark.parametrize("data", ["text", 7, None, [b"list"], array.array("i", [1])], ids=repr)
async def test_what_is_not_bytes_is_refused(loop: Loop, data: Any) -> None:
    both = await connect()
    words = r"bytes(-like object|, bytearray, or memoryview object)"  # as 3.13 says it, and as 3.14 does
    with pytest.raises(TypeError, match=f"data argument must be a {words}, not"):
        both.client.transport.write(data)
    await both.close()


async def test_each_kind_of_bytes_goes_out_as_it_was_when_written(loop: Loop) -> None:
    class Bytes(bytes):
        pass

    both = await connect()
    changing = bytearray(b"bytearray ")
    parts = [b"bytes ", changing, memoryview(b"a memoryview ")[2:], Bytes(b"subclass"), b"", bytearray()]
    expected = b"bytes bytearray memoryview subclass"
    for part in parts:
        both.client.transport.write(part)
    changing[:] = b"changed!!!"
    assert await both.peer.received(len(expected)) == expected
    await both.close()


async def test_what_waits_goes_out_in_order_and_whole(loop: Loop) -> None:
    both = await connect()
    written = await full(both)
    for part in (b"bytes", bytearray(b"bytearray"), memoryview(b"view"), pattern(300_000)):
        both.client.transport.write(part)
        written += part
    both.client.transport.writelines([b"one", bytearray(b"two"), memoryview(b"three")])
    written += b"onetwothree"
    both.client.transport.write_eof()
    both.peer.transport.resume_reading()
    assert await both.peer.received(len(written)) == written
    await both.peer.eof
    await both.close()


@pytest.mark.parametrize(
    "lines", [[], [b"a"], [b"a", b"b" * 100_000, bytearray(b"c")], (b"tu", b"ple")], ids=len
)
async def test_writelines_is_all_of_them_in_order(loop: Loop, lines: Any) -> None:
    both = await connect()
    both.client.transport.writelines(lines)
    both.client.transport.writelines(iter([b"", b"z"]))
    expected = b"".join(lines) + b"z"
    assert await both.peer.received(len(expected)) == expected
    await both.close()


async def test_writelines_of_more_parts_than_one_call_takes(loop: Loop) -> None:
    both = await connect()
    lines = [str(number).encode() for number in range(3000)]
    both.client.transport.writelines(lines)
    assert await both.peer.received(len(b"".join(lines))) == b"".join(lines)
    await both.close()


async def test_writelines_of_what_is_not_bytes_is_refused(loop: Loop) -> None:
    both = await connect()
    with pytest.raises(TypeError):
        both.client.transport.writelines([b"a", 7])
    with pytest.raises(TypeError):
        both.client.transport.writelines(7)
    await both.close()


async def test_nothing_is_written_after_write_eof(loop: Loop) -> None:
    both = await connect()
    transport = both.client.transport
    assert transport.can_write_eof()
    transport.write_eof()
    transport.write_eof()
    with pytest.raises(RuntimeError, match=r"Cannot call write\(\) after write_eof\(\)"):
        transport.write(b"")
    with pytest.raises(RuntimeError, match=r"Cannot call write(lines)?\(\) after write_eof\(\)"):
        transport.writelines([b"a"])
    await both.close()


async def test_the_protocol_is_paused_above_the_mark_and_resumed_below(loop: Loop) -> None:
    seen = []

    class Looks(Record):
        def pause_writing(self) -> None:
            super().pause_writing()
            seen.append(self.transport.get_write_buffer_size() > 64 * 1024)

        def resume_writing(self) -> None:
            super().resume_writing()
            seen.append(self.transport.get_write_buffer_size() <= 16 * 1024)

    both = await connect(client=Looks)
    written = await full(both)
    while not both.client.paused.is_set():
        both.client.transport.write(b"x" * 20_000)
        written += b"x" * 20_000
    both.client.transport.write(b"more")
    written += b"more"
    both.peer.transport.resume_reading()
    await both.client.resumed.wait()
    assert await both.peer.received(len(written)) == written
    assert seen == [True, True]
    assert [call for call in both.client.calls if "writing" in call] == ["pause_writing", "resume_writing"]
    await both.close()


async def test_the_protocol_hears_of_room_in_the_context_of_the_write(loop: Loop) -> None:
    seen = []

    class Looks(Record):
        def resume_writing(self) -> None:
            super().resume_writing()
            seen.append(WHO.get())

    both = await connect(client=Looks)
    both.client.transport.set_write_buffer_limits(0)
    WHO.set("writer")
    await full(both)
    WHO.set("later")
    both.peer.transport.resume_reading()
    await both.client.resumed.wait()
    assert seen == ["writer"]
    await both.close()


@pytest.mark.parametrize("method", ["pause_writing", "resume_writing"])
async def test_flow_control_that_raises_is_reported_and_no_more(
    loop: Loop, errors: Errors, method: str
) -> None:
    both = await connect()

    def fail() -> None:
        raise ZeroDivisionError

    setattr(both.client, method, fail)
    both.client.transport.set_write_buffer_limits(0)
    written = await full(both)
    both.peer.transport.resume_reading()
    assert await both.peer.received(len(written)) == written
    while both.client.transport.get_write_buffer_size():
        await turns(1)
    await turns(3)
    (context,) = errors.take()
    assert context["message"] == f"protocol.{method}() failed"
    assert not both.client.transport.is_closing()
    await both.close()


@pytest.mark.parametrize(
    ("given", "limits"),
    [
        ({}, (16384, 65536)),
        ({"high": 100}, (25, 100)),
        ({"low": 10}, (10, 40)),
        ({"high": 0}, (0, 0)),
        ({"high": 2**70, "low": 5}, (5, 2**70)),
    ],
    ids=repr,
)
async def test_marks_are_what_was_given(loop: Loop, given: dict[str, int], limits: tuple[int, int]) -> None:
    both = await connect()
    both.client.transport.set_write_buffer_limits(**given)
    assert both.client.transport.get_write_buffer_limits() == limits
    await both.close()


@pytest.mark.parametrize("given", [{"high": 1, "low": 2}, {"high": -1, "low": -2}, {"low": -1}], ids=repr)
async def test_marks_that_make_no_sense_are_refused(loop: Loop, given: dict[str, int]) -> None:
    both = await connect()
    with pytest.raises(ValueError, match="must be >= low"):
        both.client.transport.set_write_buffer_limits(**given)
    assert both.client.transport.get_write_buffer_limits() == (16384, 65536)
    await both.close()


async def test_writes_to_a_lost_connection_are_dropped_and_said_after_a_while(
    loop: Loop, caplog: pytest.LogCaptureFixture
) -> None:
    both = await connect()
    transport = both.client.transport
    transport.abort()
    with caplog.at_level(logging.WARNING, "asyncio"):
        for _ in range(4):
            transport.write(b"data")
        assert not caplog.records
        transport.write(b"data")
        transport.write(b"data")
    assert {record.getMessage() for record in caplog.records} == {"socket.send() raised exception."}
    await both.client.lost
    transport.write(b"data")
    transport.write_eof()
    await both.close()


async def test_a_broken_pipe_is_the_reason_of_the_loss(loop: Loop) -> None:
    both = await connect()
    both.client.transport.pause_reading()
    both.peer.transport.abort()
    await both.peer.lost
    while not both.client.transport.is_closing():
        both.client.transport.write(b"data")
        await turns(1)
    assert isinstance(await both.client.lost, ConnectionError)
    await both.close()


async def test_sendfile_waits_for_what_was_written_before_and_keeps_others_out(
    loop: Loop, tmp_path: Any
) -> None:
    content = pattern(500_000)
    (tmp_path / "file").write_bytes(content)
    both = await connect()
    both.client.transport.write(b"before ")
    with (tmp_path / "file").open("rb") as file:
        sending = loop.create_task(loop.sendfile(both.client.transport, file))
        await turns(1)
        if not sending.done() and sys.platform == "linux":
            with pytest.raises(RuntimeError, match="sendfile is in progress"):
                both.client.transport.write(b"between")
        assert await sending == len(content)
    both.client.transport.write(b" after")
    expected = b"before " + content + b" after"
    assert await both.peer.received(len(expected)) == expected
    await both.close()


async def test_streams_drain_waits_for_the_peer(loop: Loop) -> None:
    arrived: asyncio.Future[bytes] = loop.create_future()
    go = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await go.wait()
        arrived.set_result(await reader.read(-1))
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    _, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    message = pattern(20_000_000)
    writer.write(message)
    draining = loop.create_task(writer.drain())
    await turns(5)
    assert not draining.done()
    go.set()
    await draining
    writer.write_eof()
    assert await arrived == message
    writer.close()
    await writer.wait_closed()
    server.close()
    await server.wait_closed()
