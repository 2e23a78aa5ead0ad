"""Owns the packages: what they offer, and that the loop works where Python runs in other ways."""

import ast
import asyncio
import contextvars
import gc
import importlib
import queue
import subprocess
import sys
import textwrap
import threading
import time
import warnings
import weakref
from pathlib import Path
from typing import Any

import erlang
import erlang_asyncio
import erlang_loop
import pytest

pytestmark = pytest.mark.own_process


def test_run_runs_on_our_loop_and_closes_it() -> None:
    async def main() -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    loop = erlang.run(main())
    assert isinstance(loop, erlang.ErlangEventLoop)
    assert loop.is_closed()


def test_a_loop_keeps_nothing_in_its_dict() -> None:
    """Calls of its methods are specialised then."""

    async def main() -> dict[str, object]:
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, int)
        return vars(loop)

    assert erlang.run(main()) == {}


def test_sleep_is_awaited_in_asynchronous_code_and_blocks_elsewhere() -> None:
    async def nap() -> str:
        result: str = await erlang.sleep(0.01, "slept")
        return result

    start = time.monotonic()
    assert erlang.run(nap()) == "slept"
    assert erlang.sleep(0.01, "waited") == "waited"
    assert time.monotonic() - start >= 0.02


def test_the_mode_is_that_of_this_python() -> None:
    free = not getattr(sys, "_is_gil_enabled", lambda: True)()
    wanted = erlang.ExecutionMode.FREE_THREADED if free else erlang.ExecutionMode.SHARED_GIL
    assert erlang.detect_mode() is wanted


@pytest.mark.skipif(sys.version_info >= (3, 16), reason="no policies")
def test_install_makes_asyncio_run_use_our_loop() -> None:
    async def kind() -> str:
        return type(asyncio.get_running_loop()).__name__

    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            erlang.install()
        assert [w.category for w in caught] == [DeprecationWarning] * (sys.version_info >= (3, 12))
        assert asyncio.run(kind()) == "ErlangEventLoop"
    finally:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            asyncio.set_event_loop_policy(None)


def test_the_first_generation_names_are_the_same_things() -> None:
    assert erlang_loop.ErlangEventLoop is erlang.ErlangEventLoop
    assert isinstance(erlang_loop.get_event_loop_policy(), erlang.EventLoopPolicy)

    order: list[str] = []

    async def nap(number: int) -> int:
        order.append("begins")
        slept: int = await erlang_asyncio.sleep(0.05, number)
        order.append("ends")
        return slept

    async def gathered() -> list[int]:
        return await erlang_asyncio.gather(*(nap(number) for number in range(3)))

    start = time.monotonic()
    assert erlang_asyncio.run(gathered()) == [0, 1, 2]
    assert time.monotonic() - start >= 0.05
    assert order == ["begins"] * 3 + ["ends"] * 3

    async def late() -> None:
        with pytest.raises(erlang_asyncio.TimeoutError):
            await erlang_asyncio.wait_for(erlang_asyncio.sleep(5), 0.01)
        with pytest.raises(erlang_asyncio.TimeoutError):
            async with erlang_asyncio.timeout(0.01):
                await erlang_asyncio.sleep(5)

    erlang_asyncio.run(late())


def test_the_doctor_finds_nothing_wrong() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "erlang"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith(f"erlang     {erlang.__version__}\n")


PROGRAM = textwrap.dedent(
    """
    import asyncio, erlang, sys

    async def echo(reader, writer):
        writer.write(await reader.readexactly(4))
        await writer.drain()
        writer.close()

    async def main():
        server = await asyncio.start_server(echo, "127.0.0.1", 0)
        for _ in range(20):
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            writer.write(b"ping")
            assert await reader.readexactly(4) == b"ping"
            writer.close()
            await asyncio.sleep(0.001)
        server.close()

    erlang.run(main())
    has_gil = getattr(sys, "_is_gil_enabled", lambda: True)()
    expected = erlang.ExecutionMode.SUBINTERP if has_gil else erlang.ExecutionMode.FREE_THREADED
    assert erlang.detect_mode() is expected
    """
)

IN_TWO = textwrap.dedent(
    """
    import sys, threading
    try:
        import _interpreters as interpreters
        make = lambda: interpreters.create("isolated")
        def run(id, code):
            error = interpreters.exec(id, code)
            if error: raise RuntimeError(error)
    except ImportError:
        import _xxsubinterpreters as interpreters
        make = interpreters.create
        run = interpreters.run_string
    failed = []
    def work(id):
        try:
            run(id, PROGRAM)
        except BaseException as error:
            failed.append(repr(error))
    # One after the other: 3.12 and 3.13.0 cannot import some modules of the stdlib in two at once.
    ids = [make(), make()]
    for id in ids:
        run(id, "import erlang, ssl")
    threads = [threading.Thread(target=work, args=(id,)) for id in ids]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    print(failed or "both ran", flush=True)
    # Some of these Pythons crash when they tear a second interpreter down.
    import os; os._exit(bool(failed))
    """
)


@pytest.mark.skipif(sys.version_info < (3, 12), reason="interpreters have a GIL of their own from 3.12 on")
def test_two_interpreters_run_a_program_at_once() -> None:
    code = f"PROGRAM = {PROGRAM!r}\n{IN_TWO}"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout == "both ran\n"


def test_what_needs_the_vm_can_be_imported_and_says_so_when_used() -> None:
    from erlang import Pid, call, send

    assert not isinstance(1, Pid)
    for use in (lambda: call("name", 1), lambda: send(None, 1), Pid, erlang.Atom, erlang.state_keys):
        with pytest.raises(RuntimeError, match="needs the Erlang VM"):
            use()
    with pytest.raises(AttributeError, match="has no attribute 'registered_nowhere'"):
        _ = erlang.registered_nowhere


def test_what_the_vm_raises_can_be_named_where_there_is_none() -> None:
    assert issubclass(erlang.ErlangError, Exception)
    assert issubclass(erlang.Interrupted, BaseException) and not issubclass(erlang.Interrupted, Exception)

    def divide() -> None:
        try:
            _ = 1 / 0
        except erlang.ErlangError:
            raise AssertionError("it is none") from None

    with pytest.raises(ZeroDivisionError):
        divide()


def test_every_name_of_the_vm_can_be_imported_without_it() -> None:
    """The two lists are in two modules, of which only one can be imported at a time."""
    source = Path(erlang.__file__).with_name("_beam.py").read_text()
    (names,) = [
        ast.literal_eval(node.value)
        for node in ast.parse(source).body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
    ]
    here = set(importlib.import_module("erlang._standalone").__all__)
    assert set(names) - here == set()
    assert here - set(names) == set()


def test_graphs_need_the_vm_and_say_so() -> None:
    with pytest.raises(RuntimeError, match=r"erlang\.dag needs the Erlang VM"):
        erlang.dag.Graph().compile()


def test_replies_need_the_vm_and_say_so() -> None:
    with pytest.raises(RuntimeError, match=r"erlang\.reply needs the Erlang VM"):
        erlang.reply.register("name")


def test_a_spawned_task_that_nobody_holds_lives() -> None:
    waiting: queue.SimpleQueue[Any] = queue.SimpleQueue()
    ended = threading.Event()

    async def work() -> None:
        future = asyncio.get_running_loop().create_future()
        waiting.put(weakref.ref(future))
        await future
        ended.set()

    erlang.spawn_task(work())
    only_the_task_has_it = waiting.get(timeout=10)
    gc.collect()
    future = only_the_task_has_it()
    assert future is not None
    future.get_loop().call_soon_threadsafe(future.set_result, None)
    assert ended.wait(10)


def test_spawn_task_runs_on_the_callers_loop_or_on_one_in_the_background() -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable")
    variable.set("the caller's")
    ran: queue.SimpleQueue[tuple[str, int, str]] = queue.SimpleQueue()

    async def work() -> None:
        await asyncio.sleep(0.001)
        name = type(asyncio.get_running_loop()).__name__
        ran.put((name, threading.get_ident(), variable.get()))

    erlang.spawn_task(work())
    name, thread, value = ran.get(timeout=10)
    assert (name, value) == ("ErlangEventLoop", "the caller's")
    assert thread != threading.get_ident()
    task = erlang.spawn_task(work(), name="another")
    assert task.get_name() == "another"
    assert ran.get(timeout=10)[1] == thread

    async def on_this_loop() -> None:
        await erlang.spawn_task(work())
        assert ran.get_nowait()[1] == threading.get_ident()

    erlang.run(on_this_loop())
    with pytest.raises(TypeError, match="a coroutine was expected"):
        erlang.spawn_task(work)  # type: ignore[arg-type]


def python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_what_was_spawned_is_cancelled_when_the_interpreter_ends() -> None:
    done = python(
        """
        import asyncio, erlang, threading
        started = threading.Event()
        async def work():
            try:
                started.set()
                await asyncio.sleep(3600)
            finally:
                print("cancelled")
        erlang.spawn_task(work())
        started.wait()
        """
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "cancelled\n", "")


def test_a_forked_child_spawns_on_a_loop_of_its_own() -> None:
    done = python(
        """
        import erlang, os, threading, warnings
        warnings.simplefilter("ignore")  # newer Pythons warn of forking with threads
        def spawned():
            ran = threading.Event()
            async def work():
                ran.set()
            erlang.spawn_task(work())
            return ran.wait(30)
        assert spawned()
        child = os.fork()
        if child == 0:
            os._exit(7 if spawned() else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        assert spawned()
        print("both")
        """
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "both\n", "")


@pytest.mark.parametrize(
    "left",
    [
        "loop = erlang.new_event_loop()",
        "loop = erlang.new_event_loop(); loop.call_later(3600, print)",
        "loop = erlang.new_event_loop(); loop.call_soon(print, 'never')",
        "loop = erlang.new_event_loop(); asyncio.set_event_loop(loop); loop.run_until_complete(server())",
        "loop = erlang.new_event_loop(); cycle = [loop]; cycle.append(cycle); loop.mine = cycle",
        "threading.Thread(target=erlang.new_event_loop().run_forever, daemon=True).start()",
        "threading.local().loop = erlang.new_event_loop()",
    ],
)
def test_a_loop_left_open_ends_with_the_interpreter_in_silence(left: str) -> None:
    done = python(
        f"""
        import asyncio, erlang, threading
        async def server():
            global kept
            kept = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
            kept = kept, await asyncio.open_connection(*kept.sockets[0].getsockname())
        {left}
        """
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_memory_of_messages_is_used_again() -> None:
    """Not given back to the kernel after each round of messages, and taken anew, page by page."""
    done = python(
        """
        import asyncio, erlang, resource, socket

        CONNECTIONS, SIZE, ROUNDS = 64, 16 * 1024, 40

        class Collect(asyncio.Protocol):
            def data_received(self, data):
                kept.append(data)
                if sum(map(len, kept)) == CONNECTIONS * SIZE:
                    arrived.set()

        async def main():
            loop = asyncio.get_running_loop()
            pairs = [socket.socketpair() for _ in range(CONNECTIONS)]
            transports = [(await loop.create_connection(Collect, sock=near))[0] for near, _ in pairs]
            message = bytes(SIZE)
            for turn in range(ROUNDS):
                if turn == ROUNDS // 2:
                    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
                for _, far in pairs:
                    far.sendall(message)
                await arrived.wait()
                arrived.clear()
                kept.clear()
            after = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
            for transport, (_, far) in zip(transports, pairs):
                transport.abort()
                far.close()
            return after - before

        kept, arrived = [], asyncio.Event()
        print(erlang.run(main()))
        """
    )
    assert done.returncode == 0, done.stderr
    # One round takes 256 pages, and these are twenty.
    assert int(done.stdout) < 256
