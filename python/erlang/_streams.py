"""Owns what the VM asks of generators: the steps of one, sync or async, and its end.

The steps of an async generator are taken on a loop of its own, which waits with it between two steps. It runs
on the thread of a context, which does nothing else meanwhile: `wake` breaks off a step that waits.
"""

import asyncio
import contextlib
import inspect
import threading
from collections.abc import Iterator
from typing import Any

from ._aside import aside, rejoin
from ._loop import ErlangEventLoop

# Which steps are being taken, by thread.
_waiting: dict[int, "AsyncSteps"] = {}


class AsyncSteps:
    """An async iterator as an iterator."""

    def __init__(self, source: Any) -> None:
        self._steps = aiter(source)
        self._loop = ErlangEventLoop()
        self._task: asyncio.Task[Any] | None = None
        # A step that an interrupt has left under way: it struck in the loop, and not in the step.
        self._left: asyncio.Task[Any] | None = None

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        try:
            return self._run(anext(self._steps))
        except StopAsyncIteration:
            raise StopIteration from None

    def close(self) -> None:
        if self._loop.is_closed():
            return
        try:
            if self._left is not None:
                # A generator that is in the middle of a step cannot be closed.
                self._left.cancel()
                with contextlib.suppress(Exception, asyncio.CancelledError):
                    self._run(self._left)
            aclose = getattr(self._steps, "aclose", None)
            if aclose is not None:
                self._run(aclose())
            self._run(self._loop.shutdown_asyncgens())
        finally:
            self._loop.close()

    def cancel(self) -> None:
        """Breaks a step off. Called by another thread."""
        task = self._task
        if task is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(task.cancel)

    def _run(self, awaitable: Any) -> Any:
        # The thread may be inside of a loop that waits for Erlang.
        outer = aside()
        thread = threading.get_ident()
        before = _waiting.get(thread)
        _waiting[thread] = self
        try:
            self._task = self._loop.create_task(_await(awaitable))
            return self._loop.run_until_complete(self._task)
        finally:
            self._left = self._task if self._task is not None and not self._task.done() else None
            self._task = None
            if before is None:
                del _waiting[thread]
            else:
                _waiting[thread] = before
            rejoin(outer)


async def _await(awaitable: Any) -> Any:
    return await awaitable


def steps(source: Any) -> Iterator[Any]:
    """The iterator of anything that can be iterated over, with `for` or with `async for`."""
    if hasattr(type(source), "__aiter__"):
        return AsyncSteps(source)
    return iter(source)


def close(iterator: Iterator[Any]) -> None:
    """Ends an iterator that may not be at its end."""
    end = getattr(iterator, "close", None)
    if end is not None:
        end()


def collect(source: Any) -> list[Any]:
    """All there is in a source. Not list(): that cannot be interrupted."""
    iterator = steps(source)
    try:
        return [value for value in iterator]  # noqa: C416
    finally:
        close(iterator)


async def drain(source: Any) -> list[Any]:
    """All there is in a source, on the loop that runs."""
    if inspect.isawaitable(source):
        source = await source
    if not hasattr(type(source), "__aiter__"):
        return collect(source)
    steps = aiter(source)
    try:
        return [value async for value in steps]
    finally:
        aclose = getattr(steps, "aclose", None)
        if aclose is not None:
            await aclose()


def wake(thread: int) -> bool:
    """A thread is to stop: if it waits for a step, that is broken off. Whether it does."""
    taken = _waiting.get(thread)
    if taken is None:
        return False
    taken.cancel()
    return True
