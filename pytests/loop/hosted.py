"""Owns loops that Erlang owns, for tests inside the VM: each is opened for one test, runs elsewhere (on a
thread of its own, or wherever the VM runs it), and is closed by Erlang.

HOSTED says that tests are to use them. Whoever starts the VM registers the two functions.
"""

import asyncio
import contextlib
import os
from collections.abc import Coroutine, Iterator
from typing import Any, TypeVar

T = TypeVar("T")

HOSTED = "HOSTED" in os.environ

_loops: dict[int, asyncio.AbstractEventLoop] = {}


async def introduce(key: int) -> None:
    """Run by Erlang on a loop it has opened."""
    _loops[key] = asyncio.get_running_loop()


@contextlib.contextmanager
def opened() -> Iterator[asyncio.AbstractEventLoop]:
    """A loop that runs."""
    import erlang

    key: int = erlang.call("open_loop")
    try:
        yield _loops.pop(key)
    finally:
        erlang.call("close_loop", key)


def run(loop: asyncio.AbstractEventLoop, main: Coroutine[Any, Any, T]) -> T:
    """Runs it as a task there, and waits."""
    return asyncio.run_coroutine_threadsafe(main, loop).result()
