"""Owns the loops inside the Erlang VM: how those of Erlang are made, run and ended, and how one that waits is
made to look up.
"""

import asyncio
import functools
import threading
from collections.abc import Awaitable, Coroutine
from typing import Any, TypeVar

from . import _apps, _bridge, _run, _spawn, _streams, _tasks
from ._loop import ErlangEventLoop

T = TypeVar("T")

CLEANUP = 5.0
"""How many seconds tasks have to clean up when their loop ends."""

STOPPED = 2
"""How `_run_ready` of a loop ends after `stop`."""

# Which loop runs, by thread: the innermost.
_running: dict[int, ErlangEventLoop] = {}


def new() -> ErlangEventLoop:
    """A loop for Erlang."""
    return ErlangEventLoop()


def serve(loop: ErlangEventLoop) -> None:
    """Runs a loop of Erlang until it is stopped, and ends it."""
    try:
        loop.run_forever()
    finally:
        _end(loop)


def turns(loop: ErlangEventLoop, seconds: float) -> int:
    """Runs what is ready on a loop that the VM waits for, on whatever thread; ends as `_run_ready` does.

    A loop that was stopped, or that an exception has ended, is closed.
    """
    _tasks.look_everywhere()
    try:
        pause = loop._run(loop._run_ready, seconds)
    except BaseException:
        _end(loop)
        raise
    if pause == STOPPED:
        _end(loop)
    return pause


def _end(loop: ErlangEventLoop) -> None:
    """As `asyncio.run` ends its loop, but nothing is waited for without end."""
    try:
        if _apps.has_apps(loop):
            loop.run_until_complete(asyncio.wait([loop.create_task(_apps.end())], timeout=CLEANUP / 2))
        tasks = asyncio.all_tasks(loop)
        for task in tasks:
            task.cancel()
        if tasks:
            loop.run_until_complete(asyncio.wait(tasks, timeout=CLEANUP))
        loop.run_until_complete(asyncio.wait_for(loop.shutdown_asyncgens(), CLEANUP))
    finally:
        loop.close()


def run(awaitable: Awaitable[Any]) -> Any:
    """Awaits it on a loop of its own, for code that no loop runs."""

    async def main() -> Any:
        return await awaitable

    return _run.run(main())


def spawn(coro: Coroutine[Any, Any, T], name: str | None) -> "asyncio.Task[T] | None":
    """A task on one of Erlang's loops; `None` if there is none.

    Our loops take callbacks from any thread, so the task is made here, and nobody waits for the loop.
    """
    loop = _bridge.event_loop()
    return None if loop is None or loop.is_closed() else asyncio.Task(coro, loop=loop, name=name)


def async_call(name: Any, /, *args: Any) -> Awaitable[Any]:
    """Calls a registered Erlang function, to be awaited: the loop goes on meanwhile."""
    loop = asyncio.get_running_loop()
    if not isinstance(loop, ErlangEventLoop):
        return loop.run_in_executor(None, functools.partial(_bridge.call, name, *args))
    future = loop.create_future()
    _bridge.async_call(loop, future, name, *args)
    return future


def wake(thread: int) -> None:
    """A thread is to stop: one that waits in a loop runs some Python code, where the interrupt strikes."""
    if _streams.wake(thread):
        return
    loop = _running.get(thread)
    if loop is not None and not loop.is_closed():
        loop.call_soon_threadsafe(_look_up)


def _look_up() -> None:
    pass


def install() -> None:
    """Once, before any code of users runs."""
    run_forever = ErlangEventLoop.run_forever

    @functools.wraps(run_forever)
    def watched(self: ErlangEventLoop) -> None:
        thread = threading.get_ident()
        outer = _running.get(thread)
        _running[thread] = self
        try:
            run_forever(self)
        finally:
            if outer is None:
                del _running[thread]
            else:
                _running[thread] = outer

    ErlangEventLoop.run_forever = watched  # type: ignore[method-assign]
    _run.block = _bridge.sleep
    _spawn.elsewhere = spawn
