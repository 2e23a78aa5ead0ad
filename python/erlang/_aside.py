"""Owns the way out of a running loop and back, for code that a thread runs while it waits inside of one.

A thread that waits in `erlang.call` serves what Erlang asks of it meanwhile. That code may run a loop of its
own, which asyncio allows only where none runs.
"""

import asyncio
from asyncio import tasks
from typing import Any

Outer = tuple[asyncio.AbstractEventLoop, "asyncio.Task[Any] | None"]


def aside() -> Outer | None:
    """Leaves the loop this thread runs, if it does; to be given to `rejoin`."""
    loop = asyncio._get_running_loop()
    if loop is None:
        return None
    task = asyncio.current_task(loop)
    if task is not None:
        tasks._leave_task(loop, task)
    asyncio._set_running_loop(None)
    return loop, task


def rejoin(outer: Outer | None) -> None:
    """Enters the loop again."""
    if outer is None:
        return
    loop, task = outer
    asyncio._set_running_loop(loop)
    if task is not None:
        tasks._enter_task(loop, task)
