"""The loop on a Python without a GIL: the import leaves it off, and loops and threads meet without losing
anything. Written for unittest, as few packages are to be had for such a Python; tools/test_free_threaded.sh
runs it.
"""

import asyncio
import importlib
import pkgutil
import sys
import threading
import unittest
from collections.abc import Callable, Iterator

import erlang
import erlang_asyncio
import erlang_loop
from erlang import _serve

THREADS = 4

gil_enabled: Callable[[], bool] = getattr(sys, "_is_gil_enabled", lambda: True)


def in_threads(work: Callable[[int], None]) -> None:
    """Runs it in several threads at once; what one raises is raised here."""
    failed: list[BaseException] = []
    barrier = threading.Barrier(THREADS)

    def run(number: int) -> None:
        try:
            barrier.wait()
            work(number)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(1 << 16):
        writer.write(data)
        await writer.drain()
    writer.close()


async def talk(number: int) -> None:
    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    async with server:
        for index in range(50):
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            data = b"%d-%d" % (number, index) * 5000
            writer.write(data)
            assert await reader.readexactly(len(data)) == data
            writer.close()
            await writer.wait_closed()


def ours() -> Iterator[str]:
    """All modules of ours that are to be had outside of the Erlang VM."""
    # A second module of the library of `erlang._native`, and so not found as a file.
    names = {_serve._load_once().__name__}
    for package in (erlang, erlang_asyncio, erlang_loop):
        names |= {found.name for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")}
    for name in sorted(names - {"erlang.__main__"}):
        try:
            importlib.import_module(name)
        except ImportError as error:
            # What only the VM has.
            if "_bridge" not in str(error):
                raise
        else:
            yield name


class FreeThreaded(unittest.TestCase):
    def test_importing_everything_leaves_the_gil_off(self) -> None:
        assert {"erlang._native", "erlang._web", "erlang._serve", "erlang.reply"} <= {*ours()}
        assert not gil_enabled()
        assert erlang.detect_mode() is erlang.ExecutionMode.FREE_THREADED

    def test_loops_in_threads_echo_at_once(self) -> None:
        in_threads(lambda number: erlang.run(talk(number)))
        assert not gil_enabled()

    def test_what_threads_post_runs_once_and_in_their_order(self) -> None:
        loop = erlang.new_event_loop()
        got: dict[int, list[int]] = {number: [] for number in range(THREADS)}
        running = threading.Thread(target=loop.run_forever)
        running.start()

        def post(number: int) -> None:
            for index in range(20_000):
                loop.call_soon_threadsafe(got[number].append, index)

        in_threads(post)
        loop.call_soon_threadsafe(loop.stop)
        running.join()
        loop.close()
        assert got == {number: list(range(20_000)) for number in range(THREADS)}

    def test_a_post_to_a_loop_that_closes_is_accepted_or_refused(self) -> None:
        for _ in range(50):
            self.close_while_threads_post(erlang.new_event_loop())

    def close_while_threads_post(self, loop: asyncio.AbstractEventLoop) -> None:
        ran: list[int] = []
        accepted = [0] * THREADS

        def work(number: int) -> None:
            if number == 0:
                loop.call_soon_threadsafe(loop.stop)
                loop.run_forever()
                loop.close()
                return
            with self.assertRaisesRegex(RuntimeError, "Event loop is closed"):  # noqa: PT027
                while True:
                    loop.call_soon_threadsafe(ran.append, 1)
                    accepted[number] += 1

        in_threads(work)
        assert len(ran) <= sum(accepted)

    def test_no_call_runs_once_its_cancel_has_returned(self) -> None:
        loop = erlang.new_event_loop()
        running = threading.Thread(target=loop.run_forever)
        running.start()
        late: list[int] = []

        def callback(closed: list[bool]) -> None:
            # The other thread has all the time of this loop to be done with its cancel.
            late.extend(1 for _ in range(50) if closed)

        def race(number: int) -> None:
            for _ in range(5000):
                closed: list[bool] = []
                loop.call_soon_threadsafe(callback, closed).cancel()
                closed.append(True)

        in_threads(race)
        loop.call_soon_threadsafe(loop.stop)
        running.join()
        loop.close()
        assert late == []

    def test_tasks_wait_for_what_other_threads_do(self) -> None:
        async def main() -> int:
            loop = asyncio.get_running_loop()
            results = (loop.run_in_executor(None, pow, 2, index) for index in range(2000))
            return sum(await asyncio.gather(*results))

        def work(number: int) -> None:
            assert erlang.run(main()) == 2**2000 - 1

        in_threads(work)

    def test_timers_are_set_and_cancelled_from_their_own_threads_at_once(self) -> None:
        async def main() -> None:
            loop = asyncio.get_running_loop()
            handles = [loop.call_later(3600, print) for _ in range(5000)]
            await asyncio.gather(*(asyncio.sleep(0.001) for _ in range(500)))
            for handle in handles:
                handle.cancel()

        in_threads(lambda number: erlang.run(main()))


if __name__ == "__main__":
    program = unittest.main(exit=False)
    bad = len(program.result.failures) + len(program.result.errors)
    print(f"{program.result.testsRun - bad} passed, {bad} failed")
    sys.exit(bool(bad))
