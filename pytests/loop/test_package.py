"""Owns the packages: what they offer, and that the loop works where Python runs in other ways."""

import asyncio
import subprocess
import sys
import textwrap
import time
import warnings

import erlang
import erlang_asyncio
import erlang_loop
import pytest


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

    async def gathered() -> list[int]:
        naps = (erlang_asyncio.sleep(0.1, i) for i in range(3))
        return await erlang_asyncio.gather(*naps)

    start = time.monotonic()
    assert erlang_asyncio.run(gathered()) == [0, 1, 2]
    assert 0.1 <= time.monotonic() - start < 0.25

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
    import asyncio, erlang

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
    assert erlang.detect_mode() is erlang.ExecutionMode.SUBINTERP
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
