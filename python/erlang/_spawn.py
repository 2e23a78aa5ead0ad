"""Owns `spawn_task`, and the loop that runs what code without a loop spawns: one, in a thread of its own.

The thread starts with the first such task. When the interpreter ends it cancels what still runs, waits for
that, and closes the loop, as `asyncio.run` does.
"""

import asyncio
import concurrent.futures
import contextvars
import os
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from ._run import new_event_loop

T = TypeVar("T")

elsewhere: Callable[[Any, str | None], "asyncio.Task[Any] | None"] | None = None
"""Inside the Erlang VM: starts a task on one of Erlang's loops, if there is one."""

# A loop refers to its tasks weakly; nobody may hold what was spawned.
_spawned: set[asyncio.Task[Any]] = set()


def spawn_task(coro: Coroutine[Any, Any, T], *, name: str | None = None) -> asyncio.Task[T]:
    """Starts a task, from asynchronous code on its own loop, from other code on a loop in the background.

    The task need not be kept: it runs to its end, and what it raises is logged unless somebody asks for it.
    A task in the background belongs to another thread: stop it by
    `task.get_loop().call_soon_threadsafe(task.cancel)`.
    """
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        if not asyncio.iscoroutine(coro):
            raise TypeError(f"a coroutine was expected, got {coro!r}") from None
        task = None if elsewhere is None else elsewhere(coro, name)
        return _background.spawn(coro, name) if task is None else _keep(task)
    return _keep(loop.create_task(coro, name=name))


def _keep(task: asyncio.Task[T]) -> asyncio.Task[T]:
    _spawned.add(task)
    task.add_done_callback(_spawned.discard)
    return task


class _Background:
    """The loop for code that has none."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._ended = False

    def spawn(self, coro: Coroutine[Any, Any, T], name: str | None) -> asyncio.Task[T]:
        made: concurrent.futures.Future[asyncio.Task[T]] = concurrent.futures.Future()
        context = contextvars.copy_context()

        def start() -> None:
            try:
                made.set_result(_keep(asyncio.get_running_loop().create_task(coro, name=name)))
            except BaseException as error:
                made.set_exception(error)

        with self._lock:
            if self._ended:
                coro.close()
                raise RuntimeError("the interpreter is ending: no task can be started any more")
            self._running().call_soon_threadsafe(start, context=context)
        return made.result()

    def _running(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._loop = new_event_loop()
            self._thread = threading.Thread(target=self._run, args=(self._loop,), name="erlang-spawned")
            # The hook that ends the threads of executors. Later, at atexit, the interpreter would already be
            # waiting for this thread; and a daemon would be refused in a sub-interpreter.
            threading._register_atexit(self.end)  # type: ignore[attr-defined]
            self._thread.start()
        return self._loop

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:  # cancels what is left, and closes
            runner.get_loop().run_forever()

    def end(self) -> None:
        with self._lock:
            self._ended = True
            if self._loop is not None and self._thread is not None:
                self._loop.call_soon_threadsafe(self._loop.stop)
                self._thread.join()

    def forget(self) -> None:
        """In a child made by fork: the thread is the parent's, and so is the loop's epoll descriptor."""
        _spawned.clear()
        self.__init__()  # type: ignore[misc]


_background = _Background()
os.register_at_fork(after_in_child=_background.forget)
