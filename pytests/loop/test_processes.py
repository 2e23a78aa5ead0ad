"""Pipes and subprocesses: data whole in both directions, exit status, signals, stdio, many at once."""

import asyncio
import contextlib
import contextvars
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import erlang
import pytest
from peers import Loop, Record, pattern, turns

pytestmark = pytest.mark.own_process

CAT = [sys.executable, "-c", "import shutil, sys; shutil.copyfileobj(sys.stdin.buffer, sys.stdout.buffer)"]
PIPE = subprocess.PIPE


async def test_a_megabyte_through_cat(loop: Loop) -> None:
    child = await asyncio.create_subprocess_exec("cat", stdin=PIPE, stdout=PIPE)
    out, err = await child.communicate(pattern(1_000_000))
    assert out == pattern(1_000_000) and err is None
    assert child.returncode == 0


async def test_three_streams_apart(loop: Loop) -> None:
    text = "import sys; print('out'); print('err', file=sys.stderr); sys.exit(7)"
    child = await asyncio.create_subprocess_exec(sys.executable, "-c", text, stdout=PIPE, stderr=PIPE)
    assert await child.communicate() == (b"out\n", b"err\n")
    assert child.returncode == 7
    both = await asyncio.create_subprocess_exec(
        sys.executable, "-c", text, stdout=PIPE, stderr=subprocess.STDOUT
    )
    out, _ = await both.communicate()
    assert sorted(out.split()) == [b"err", b"out"]


async def test_shell_environment_and_folder(loop: Loop, tmp_path: Any) -> None:
    child = await asyncio.create_subprocess_shell(
        'echo "$WORD in $(pwd)"', stdout=PIPE, env={"WORD": "hello", "PATH": os.environ["PATH"]}, cwd=tmp_path
    )
    out, _ = await child.communicate()
    assert out.decode() == f"hello in {tmp_path}\n"


@pytest.mark.parametrize("how", ["terminate", "kill", "send_signal"])
async def test_ended_by_a_signal(loop: Loop, how: str) -> None:
    child = await asyncio.create_subprocess_exec("sleep", "100")
    number = {"terminate": signal.SIGTERM, "kill": signal.SIGKILL, "send_signal": signal.SIGHUP}[how]
    if how == "send_signal":
        child.send_signal(number)
    else:
        getattr(child, how)()
    assert await child.wait() == -number
    with pytest.raises(ProcessLookupError):
        child.send_signal(signal.SIGTERM)


async def test_twenty_at_once_keep_their_status(loop: Loop) -> None:
    async def one(number: int) -> int:
        child = await asyncio.create_subprocess_exec("sh", "-c", f"exit {number}")
        return await child.wait()

    assert await asyncio.gather(*(one(number) for number in range(20))) == list(range(20))


async def test_a_cancelled_wait_and_another(loop: Loop) -> None:
    child = await asyncio.create_subprocess_exec("cat", stdin=PIPE)
    waiting = loop.create_task(child.wait())
    await turns(3)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert child.stdin
    child.stdin.close()
    assert await child.wait() == 0


async def test_the_callbacks_of_a_process_and_their_order(loop: Loop) -> None:
    calls: list[Any] = []
    over = loop.create_future()

    class Protocol(asyncio.SubprocessProtocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            calls.append("made")

        def pipe_data_received(self, fd: int, data: bytes) -> None:
            calls.append((fd, data))

        def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
            calls.append(("lost", fd))

        def process_exited(self) -> None:
            calls.append("exited")

        def connection_lost(self, exc: Exception | None) -> None:
            calls.append("over")
            over.set_result(exc)

    transport, _ = await loop.subprocess_exec(Protocol, "sh", "-c", "echo out; exit 5", stdin=None)
    assert await over is None
    assert transport.get_returncode() == 5
    assert transport.get_pid() > 0
    assert calls[0] == "made" and calls[-1] == "over"
    assert (1, b"out\n") in calls and ("lost", 1) in calls and ("lost", 2) in calls and "exited" in calls
    assert transport.get_pipe_transport(1) is not None and transport.get_pipe_transport(0) is None
    transport.close()


async def test_closing_the_transport_kills_the_child(loop: Loop) -> None:
    over = loop.create_future()

    class Protocol(asyncio.SubprocessProtocol):
        def connection_lost(self, exc: Exception | None) -> None:
            over.set_result(exc)

    transport, _ = await loop.subprocess_exec(Protocol, "sleep", "100", stdin=None, stdout=None, stderr=None)
    transport.close()
    await over
    assert transport.get_returncode() == -signal.SIGKILL


async def write_for_ever(stream: asyncio.StreamWriter) -> None:
    while True:
        stream.write(b"x" * 100_000)
        await stream.drain()


async def test_a_child_that_does_not_read(loop: Loop) -> None:
    """What is written to it waits, and a pipe that breaks is an error and no signal."""
    child = await asyncio.create_subprocess_exec("sh", "-c", "read line; exit 0", stdin=PIPE)
    assert child.stdin
    child.stdin.write(b"line\n" + b"x" * 500_000)
    with pytest.raises((BrokenPipeError, ConnectionResetError)):
        await write_for_ever(child.stdin)
    assert await child.wait() == 0


async def test_extra_descriptors_and_sessions(loop: Loop) -> None:
    reading, writing = os.pipe()
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        f"import os; os.write({writing}, b'%d' % (os.getsid(0) == os.getpid()))",
        pass_fds=[writing],
        start_new_session=True,
    )
    os.close(writing)
    assert await child.wait() == 0
    assert os.read(reading, 100) == b"1"
    os.close(reading)


async def test_pipes(loop: Loop) -> None:
    reading, writing = os.pipe()
    protocol = Record()
    source, _ = await loop.connect_read_pipe(lambda: protocol, os.fdopen(reading, "rb", 0))
    sink, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, os.fdopen(writing, "wb", 0))
    sink.write(pattern(500_000))
    assert await protocol.received(500_000) == pattern(500_000)
    source.pause_reading()
    sink.write(b"later")
    await turns(5)
    assert len(protocol.data) == 500_000
    source.resume_reading()
    assert await protocol.received(500_005) == pattern(500_000) + b"later"
    assert sink.can_write_eof()
    sink.write_eof()
    await protocol.eof
    assert await protocol.lost is None
    await turns(5)


async def test_a_write_pipe_sees_that_its_reader_left(loop: Loop) -> None:
    reading, writing = os.pipe()
    lost = loop.create_future()

    class Writer(asyncio.BaseProtocol):
        def connection_lost(self, exc: Exception | None) -> None:
            lost.set_result(exc)

    await loop.connect_write_pipe(Writer, os.fdopen(writing, "wb", 0))
    os.close(reading)
    exc = await lost
    assert exc is None or isinstance(exc, BrokenPipeError)


async def test_a_program_in_python(loop: Loop) -> None:
    child = await asyncio.create_subprocess_exec(*CAT, stdin=PIPE, stdout=PIPE)
    assert child.stdin and child.stdout
    for number in range(5):
        child.stdin.write(b"%d" % number * 1000)
    child.stdin.close()
    assert await child.stdout.read() == b"".join(b"%d" % number * 1000 for number in range(5))
    assert await child.wait() == 0


def waits_by_pidfd(column: str) -> bool:
    """Or by a thread in waitpid(2), as asyncio does up to 3.11."""
    return column == "ours" or sys.version_info >= (3, 12)


async def test_a_child_that_somebody_else_reaped(
    loop: Loop, column: str, caplog: pytest.LogCaptureFixture
) -> None:
    if not waits_by_pidfd(column):
        pytest.skip("a thread may reap the child before the test does")
    child = await asyncio.create_subprocess_exec("sleep", "100")
    os.kill(child.pid, signal.SIGKILL)
    os.waitpid(child.pid, 0)
    assert await child.wait() == 255
    assert f"child process pid {child.pid} exit status already read" in caplog.text


async def test_the_end_of_a_child_comes_in_the_context_of_its_start(loop: Loop, column: str) -> None:
    if not waits_by_pidfd(column):
        pytest.skip("a thread has a context of its own")
    name = contextvars.ContextVar("name", default="nobody")
    seen: asyncio.Future[str] = loop.create_future()

    class Protocol(asyncio.SubprocessProtocol):
        def process_exited(self) -> None:
            seen.set_result(name.get())

    name.set("starter")
    transport, _ = await loop.subprocess_exec(Protocol, "true", stdin=None, stdout=None, stderr=None)
    name.set("later")
    # Whose the value is depends on when the context was copied, which is before this line.
    assert await seen == "starter"
    transport.close()


def test_without_a_pidfd_a_thread_waits() -> None:
    class Old(erlang.ErlangEventLoop):
        """On a kernel that has no pidfds."""

        def _watch_pid(self, pid: int, transport: object, /) -> bool:
            return False

    async def codes() -> list[int]:
        children = [await asyncio.create_subprocess_exec("sh", "-c", f"exit {n}") for n in range(3)]
        return [await child.wait() for child in children]

    with asyncio.Runner(loop_factory=Old) as runner:
        assert runner.run(codes()) == [0, 1, 2]


def test_a_loop_that_is_closed_lets_go_of_children() -> None:
    def pidfds() -> int:
        found = 0
        for fd in Path("/proc/self/fd").iterdir():
            # The folder itself is open while it is read, and listed.
            with contextlib.suppress(FileNotFoundError):
                found += "pidfd" in str(fd.readlink())
        return found

    async def start() -> int:
        transport, _ = await asyncio.get_running_loop().subprocess_exec(
            asyncio.SubprocessProtocol, "sleep", "100", stdin=None, stdout=None, stderr=None
        )
        kept.append(transport)
        return transport.get_pid()

    kept: list[asyncio.SubprocessTransport] = []
    loop = erlang.new_event_loop()
    pid = loop.run_until_complete(start())
    assert pidfds() == 1
    loop.close()
    assert pidfds() == 0
    os.kill(pid, signal.SIGKILL)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
    kept[0]._proc.returncode = -signal.SIGKILL  # type: ignore[attr-defined]
    kept[0].close()
