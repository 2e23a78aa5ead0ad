"""Pipe transports: what they are and say, data whole in both directions, flow control, ends, odd files."""

import asyncio
import contextvars
import errno
import fcntl
import gc
import logging
import os
import pty
import socket
import struct
import termios
import tty
import weakref
from pathlib import Path
from typing import Any

import pytest
from peers import Errors, Loop, Record, listener, pair, pattern, settled, turns


class Reader(Record):
    """A Record that has no use for a return value of eof_received."""


class Writer(Record):
    """The same callbacks, of which a pipe that is written to uses some."""


def pipes() -> tuple[Any, Any]:
    reading, writing = os.pipe()
    return os.fdopen(reading, "rb", 0), os.fdopen(writing, "wb", 0)


async def reader(loop: Loop, file: Any, factory: Any = Reader) -> tuple[Any, Any]:
    return await loop.connect_read_pipe(factory, file)


async def writer(loop: Loop, file: Any, factory: Any = Writer) -> tuple[Any, Any]:
    return await loop.connect_write_pipe(factory, file)


async def fill(transport: Any) -> int:
    """Writes until something waits; how much was written."""
    written = 0
    while not transport.get_write_buffer_size():
        transport.write(b"x" * 5000)
        written += 5000
    return written


def fds() -> set[int]:
    """The descriptors that are open, without the one it takes to look."""
    found = {int(entry.name) for entry in Path("/proc/self/fd").iterdir()}
    return {number for number in found if Path(f"/proc/self/fd/{number}").exists()}


def forget(kept: list[Any]) -> None:
    kept.clear()
    gc.collect()


async def test_what_they_are(loop: Loop) -> None:
    source, sink = pipes()
    number, other = source.fileno(), sink.fileno()
    read, reads = await reader(loop, source)
    write, writes = await writer(loop, sink)
    await turns(2)
    assert isinstance(read, asyncio.ReadTransport) and not isinstance(read, asyncio.WriteTransport)
    assert isinstance(write, asyncio.WriteTransport)
    assert read.get_extra_info("pipe") is source and write.get_extra_info("pipe") is sink
    assert read.get_extra_info("socket", 7) == 7
    assert read.get_protocol() is reads and write.get_protocol() is writes
    assert write.can_write_eof() and write.get_write_buffer_size() == 0
    assert write.get_write_buffer_limits() == (16_384, 65_536)
    write.set_write_buffer_limits(high=400)
    assert write.get_write_buffer_limits() == (100, 400)
    assert repr(read).endswith(f"Transport fd={number} polling>")
    assert repr(write).endswith(f"Transport fd={other} idle bufsize=0>")
    read.pause_reading()
    assert repr(read).endswith(f"Transport fd={number} idle>")
    transport: Any
    protocol: Any
    for transport, file, protocol in ((read, source, reads), (write, sink, writes)):
        assert not os.get_blocking(file.fileno())
        transport.close()
        assert transport.is_closing() and " closing fd=" in repr(transport) and not file.closed
        assert await protocol.lost is None
        assert file.closed and " closed fd=" in repr(transport) and repr(transport).endswith(" closed>")
        transport.close()


async def test_all_bytes_in_order(loop: Loop) -> None:
    source, sink = pipes()
    _, reads = await reader(loop, source)
    write, writes = await writer(loop, sink)
    message = pattern(3_000_000)
    kinds: list[Any] = [bytes, bytearray, memoryview]
    for number, start in enumerate(range(0, len(message), 70_001)):
        write.write(kinds[number % 3](message[start : start + 70_001]))
    write.write(b"")
    write.write_eof()
    assert await reads.received(len(message) + 1) == message
    assert await writes.lost is None and await reads.lost is None
    assert reads.calls[0] == "connection_made" and reads.calls[-2:] == ["eof_received", "connection_lost"]


async def test_the_end_comes_in_turns_of_its_own(loop: Loop) -> None:
    """eof_received, then connection_lost, neither of them inside the other or inside close()."""
    source, sink = pipes()
    read, reads = await reader(loop, source)
    sink.close()
    await reads.eof
    assert await reads.lost is None
    assert reads.calls == ["connection_made", "eof_received", "connection_lost"]
    assert source.closed and read.is_closing()
    read.close()
    read.pause_reading()
    read.resume_reading()


async def test_pause_and_resume(loop: Loop) -> None:
    class Pausing(Reader):
        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self.transport.pause_reading()

    source, sink = pipes()
    read, reads = await reader(loop, source, Pausing)
    sink.write(b"one")
    assert await reads.received(3) == b"one"
    sink.write(b"two")
    await turns(4)
    assert reads.data == b"one"
    read.pause_reading()
    read.resume_reading()
    read.resume_reading()
    assert await reads.received(6) == b"onetwo"
    read.resume_reading()
    sink.close()
    assert await reads.lost is None


async def test_paused_before_the_first_read(loop: Loop, column: str) -> None:
    class Early(Reader):
        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            transport.pause_reading()

    source, sink = pipes()
    sink.write(b"x")
    read, reads = await reader(loop, source, Early)
    await turns(3)
    if column == "ours":  # stdlib's started to read all the same before 3.11.4
        assert reads.data == b"" and not read.is_reading()
    if not reads.data:
        read.resume_reading()
    assert await reads.received(1) == b"x"
    sink.close()
    await reads.lost


async def test_flow_control(loop: Loop) -> None:
    source, sink = pipes()
    write, writes = await writer(loop, sink)
    write.set_write_buffer_limits(high=20_000, low=0)
    os.set_blocking(source.fileno(), False)
    sent = 0
    while not writes.paused.is_set():
        write.write(pattern(5000, sent))
        sent += 5000
    assert write.get_write_buffer_size() > 20_000
    assert f"polling bufsize={write.get_write_buffer_size()}>" in repr(write)
    got = bytearray()
    while not writes.resumed.is_set():
        got += source.read(1 << 20) or b""
        await turns(1)
    assert write.get_write_buffer_size() == 0
    write.close()
    assert await writes.lost is None
    got += source.read(1 << 20) or b""
    assert got == b"".join(pattern(5000, start) for start in range(0, sent, 5000))
    assert writes.calls == ["connection_made", "pause_writing", "resume_writing", "connection_lost"]
    source.close()


async def test_d3_a_full_pipe_does_not_block(loop: Loop) -> None:
    source, sink = pipes()
    os.set_blocking(sink.fileno(), True)
    write, writes = await writer(loop, sink)
    written = await fill(write)
    write.write(b"y" * 1000)
    assert 0 < write.get_write_buffer_size() <= written + 1000
    write.abort()
    assert await writes.lost is None
    assert write.get_write_buffer_size() == 0
    source.close()


async def test_abort_drops_what_waits(loop: Loop) -> None:
    source, sink = pipes()
    write, writes = await writer(loop, sink)
    written = await fill(write)
    write.close()
    assert not writes.lost.done()
    write.abort()
    assert await writes.lost is None
    assert len(source.read()) < written
    source.close()


@pytest.mark.parametrize("waiting", [False, True])
async def test_a_reader_that_leaves_is_noticed(loop: Loop, waiting: bool) -> None:
    """Without a write; an error only if something is lost by it."""
    source, sink = pipes()
    write, writes = await writer(loop, sink)
    if waiting:
        await fill(write)
    source.close()
    reason = await writes.lost
    assert isinstance(reason, BrokenPipeError) if waiting else reason is None
    assert sink.closed


async def test_a_reader_that_left_just_before_a_write(loop: Loop) -> None:
    source, sink = pipes()
    write, writes = await writer(loop, sink)
    source.close()
    write.write(b"x")
    assert isinstance(await writes.lost, BrokenPipeError)


async def test_t3_what_is_written_too_late_is_dropped(loop: Loop, caplog: Any) -> None:
    source, sink = pipes()
    write, writes = await writer(loop, sink)
    write.write(b"before")
    write.close()
    write.close()
    write.write_eof()
    write.write(b"after")
    assert await writes.lost is None
    for _ in range(6):
        write.write(b"much later")
    assert "pipe closed by peer or os.write(pipe, data) raised exception." in caplog.text
    write.write(b"")
    assert source.read() == b"before"
    source.close()


@pytest.mark.parametrize("data", ["text", 5, None, [1]])
async def test_what_is_no_data(loop: Loop, data: Any) -> None:
    source, sink = pipes()
    write, writes = await writer(loop, sink)
    with pytest.raises(AssertionError) as caught:
        write.write(data)
    assert str(caught.value) == repr(data)
    write.close()
    await writes.lost
    source.close()


async def test_a_copy_of_what_may_change(loop: Loop) -> None:
    source, sink = pipes()
    write, writes = await writer(loop, sink)
    await fill(write)
    data = bytearray(b"before")
    write.write(data)
    data[:] = b"after!"
    write.close()
    os.set_blocking(source.fileno(), False)
    got = bytearray()
    while not writes.lost.done():
        got += source.read(1 << 20) or b""
        await turns(1)
    got += source.read(1 << 20) or b""
    assert got.endswith(b"xbefore")
    source.close()


async def test_an_exception_of_the_protocol_is_not_the_end(loop: Loop, errors: Errors) -> None:
    class Raising(Reader):
        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            raise ValueError(data)

    source, sink = pipes()
    _, reads = await reader(loop, source, Raising)
    for number in (b"1", b"2"):
        sink.write(number)
        await reads.received(int(number))
        await turns(1)
    assert [context["exception"].args for context in errors.take()] == [(b"1",), (b"2",)]
    sink.close()
    assert await reads.lost is None


async def test_another_protocol_gets_what_comes_next(loop: Loop) -> None:
    source, sink = pipes()
    read, reads = await reader(loop, source)
    other = Reader()
    read.set_protocol(other)
    sink.write(b"x")
    assert await other.received(1) == b"x"
    sink.close()
    assert await other.lost is None
    assert not reads.lost.done()


async def test_the_context_is_that_of_the_maker(loop: Loop) -> None:
    where = contextvars.ContextVar("where", default="nowhere")
    seen = loop.create_future()

    class Looking(Reader):
        def data_received(self, data: bytes) -> None:
            seen.set_result(where.get())

    source, sink = pipes()

    async def make() -> Any:
        where.set("inside")
        return await reader(loop, source, Looking)

    _, reads = await loop.create_task(make())
    sink.write(b"x")
    assert await seen == "inside"
    sink.close()
    await reads.lost


@pytest.mark.parametrize("which", [0, 1])
def test_left_open_it_says_so(loop: Loop, which: int) -> None:
    ends = pipes()
    connect = (reader, writer)[which]
    transport, _ = loop.run_until_complete(connect(loop, ends[which], asyncio.Protocol))
    loop.run_until_complete(turns(2))
    loop.close()
    kept = [transport]
    del transport, _
    with pytest.warns(ResourceWarning, match=r"unclosed transport <\S*PipeTransport fd=\d+") as caught:
        forget(kept)
    caught.clear()  # each refers to what it warns of
    assert ends[which].closed
    ends[1 - which].close()


async def test_a_closed_one_is_let_go(loop: Loop) -> None:
    source, sink = pipes()
    read, reads = await reader(loop, source)
    write, writes = await writer(loop, sink)
    gone = [weakref.ref(one) for one in (read, reads, write, writes)]
    write.close()
    await reads.lost
    await writes.lost
    del read, reads, write, writes
    await turns(2)
    gc.collect()
    assert [ref() for ref in gone] == [None] * 4


@pytest.mark.parametrize("which", [0, 1])
async def test_cancelled_before_it_is_connected(loop: Loop, which: int) -> None:
    ends = pipes()
    connect = (loop.connect_read_pipe, loop.connect_write_pipe)[which]
    task: Any = loop.create_task(connect(asyncio.Protocol, ends[which]))
    await turns(1)
    task.cancel()
    assert isinstance(await settled(task), asyncio.CancelledError)
    await turns(3)
    assert ends[which].closed
    ends[1 - which].close()


async def test_a_named_pipe(loop: Loop, tmp_path: Path) -> None:
    path = tmp_path / "fifo"
    os.mkfifo(path)
    source = os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb", 0)
    sink = path.open("wb", 0)
    _, reads = await reader(loop, source)
    write, writes = await writer(loop, sink)
    write.write(b"hello")
    assert await reads.received(5) == b"hello"
    write.close()
    assert await reads.lost is None and await writes.lost is None


async def test_sockets_as_pipes(loop: Loop) -> None:
    left, right = pair()
    write, writes = await writer(loop, left)
    _, reads = await reader(loop, right)
    write.write(b"hello")
    assert await reads.received(5) == b"hello"
    write.close()
    assert await reads.lost is None and await writes.lost is None
    assert left.fileno() == right.fileno() == -1


async def test_a_socket_that_is_written_to_as_a_pipe_and_answers_is_closed(loop: Loop) -> None:
    left, right = pair()
    _, writes = await writer(loop, left)
    right.send(b"x")
    assert await writes.lost is None
    right.close()


async def test_both_ends_of_a_terminal(loop: Loop, errors: Errors) -> None:
    """One file, two transports: what is written is echoed. Its other side going away is EIO, and no news."""
    master, slave = pty.openpty()
    tty.setraw(slave)
    settings = termios.tcgetattr(slave)
    settings[3] |= termios.ECHO
    termios.tcsetattr(slave, termios.TCSANOW, settings)
    file = os.fdopen(master, "r+b", 0)
    _, reads = await reader(loop, file)
    write, writes = await writer(loop, file)
    write.write(b"hello")
    assert await reads.received(5) == b"hello"
    os.close(slave)
    reason = await reads.lost
    assert isinstance(reason, OSError) and reason.errno == errno.EIO
    assert not errors
    write.close()
    await writes.lost
    assert file.closed


async def test_a_device_that_takes_everything(loop: Loop) -> None:
    sink = os.fdopen(os.open(os.devnull, os.O_WRONLY), "wb", 0)
    write, writes = await writer(loop, sink)
    write.write(b"x" * 1_000_000)
    assert write.get_write_buffer_size() == 0
    write.close()
    assert await writes.lost is None


async def test_an_error_of_reading_is_told(loop: Loop, errors: Errors) -> None:
    """A connection that is reset: for what is read as a pipe that is news."""
    listening = listener()
    here = socket.create_connection(listening.getsockname())
    listening.setblocking(True)
    there, _ = listening.accept()
    _, reads = await reader(loop, here)
    there.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    there.close()
    reason = await reads.lost
    assert isinstance(reason, ConnectionResetError)
    (context,) = errors.take()
    assert context["message"] == "Fatal read error on pipe transport" and context["exception"] is reason
    listening.close()


async def test_f1_a_file_closed_by_another_is_no_danger(loop: Loop, column: str) -> None:
    """Two owners: the next owner of the number is neither read from nor written to nor closed."""
    if column == "stdlib":
        return  # there the transport goes on using the number
    source, sink = pipes()
    read, reads = await reader(loop, source)
    write, writes = await writer(loop, sink)
    source.close()
    sink.close()
    ends = socket.socketpair()
    ends[0].send(b"not yours")
    write.write(b"mine")
    assert await reads.received(4) == b"mine"
    read.close()
    write.close()
    await reads.lost
    await writes.lost
    assert ends[1].recv(100) == b"not yours"
    for end in ends:
        end.close()


async def test_f9_numbers_above_1024(loop: Loop) -> None:
    source, sink = pipes()
    numbers = [fcntl.fcntl(file, fcntl.F_DUPFD_CLOEXEC, 1100) for file in (source, sink)]
    high = [os.fdopen(numbers[0], "rb", 0), os.fdopen(numbers[1], "wb", 0)]
    source.close()
    sink.close()
    _, reads = await reader(loop, high[0])
    write, writes = await writer(loop, high[1])
    write.write(b"high")
    assert await reads.received(4) == b"high"
    write.close()
    assert await reads.lost is None and await writes.lost is None
    assert high[0].closed and high[1].closed


async def test_t13_a_paused_reader_is_not_listened_to(loop: Loop) -> None:
    """Or a writer that left would wake the loop for ever."""
    source, sink = pipes()
    read, reads = await reader(loop, source)
    await turns(2)
    read.pause_reading()
    sink.write(b"x")
    sink.close()
    await turns(5)
    assert repr(read).endswith(" idle>") and reads.calls == ["connection_made"]
    read.resume_reading()
    assert await reads.lost is None
    assert reads.calls == ["connection_made", "data_received", "eof_received", "connection_lost"]


@pytest.mark.parametrize("how", ["close", "abort"])
async def test_t5_closed_when_there_is_room_again(loop: Loop, errors: Errors, column: str, how: str) -> None:
    """The end is told once, also if the protocol closes in the callback that finds the queue empty."""

    class Ending(Writer):
        def resume_writing(self) -> None:
            super().resume_writing()
            getattr(self.transport, how)()

    source, sink = pipes()
    write, writes = await writer(loop, sink, Ending)
    write.set_write_buffer_limits(high=0)
    written = await fill(write)
    os.set_blocking(source.fileno(), False)
    got = 0
    while not writes.lost.done():
        got += len(source.read(1 << 20) or b"")
        await turns(1)
    got += len(source.read(1 << 20) or b"")
    await turns(2)
    assert got == written
    assert writes.calls == ["connection_made", "pause_writing", "resume_writing", "connection_lost"]
    if column == "stdlib":
        errors.take()  # it tries to tell it twice
    source.close()


async def test_the_duplicate_is_not_inherited(loop: Loop, column: str) -> None:
    source, sink = pipes()
    before = fds()
    read, reads = await reader(loop, source)
    new = fds() - before
    assert len(new) == (1 if column == "ours" else 0)
    for number in new:
        assert fcntl.fcntl(number, fcntl.F_GETFD) & fcntl.FD_CLOEXEC
    sink.close()
    await reads.lost
    assert not read.is_reading()


async def test_debug_mode_tells_of_ends(loop: Loop, caplog: Any) -> None:
    caplog.set_level(logging.DEBUG, "asyncio")
    source, sink = pipes()
    read, reads = await reader(loop, source)
    read.pause_reading()
    read.resume_reading()
    sink.close()
    await reads.lost
    for words in ("pauses reading", "resumes reading", "was closed by peer"):
        assert (words in caplog.text) == loop.get_debug()


@pytest.mark.own_process
async def test_children_have_native_pipes(loop: Loop, column: str) -> None:
    transport: Any
    transport, _ = await loop.subprocess_exec(asyncio.SubprocessProtocol, "cat")
    kinds = [type(transport.get_pipe_transport(number)) for number in range(3)]
    if column == "ours":
        assert {kind.__module__ for kind in kinds} == {"erlang._native"}
    transport.get_pipe_transport(0).close()
    await transport._wait()
    transport.close()
    await turns(3)
