"""Owns the ways to run a program: `run`, `new_event_loop`, and `sleep` for code of either colour."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from ._loop import ErlangEventLoop

T = TypeVar("T")

block: Callable[[float], None] = time.sleep
"""How code without a loop sleeps; inside the Erlang VM in a way that can be interrupted."""


def new_event_loop() -> ErlangEventLoop:
    """A new event loop; not set as the current one."""
    return ErlangEventLoop()


def run(main: Coroutine[Any, Any, T], *, debug: bool | None = None) -> T:
    """`asyncio.run` on an `ErlangEventLoop`: runs it, cancels what it left behind, closes the loop."""
    with asyncio.Runner(debug=debug, loop_factory=new_event_loop) as runner:
        return runner.run(main)


def sleep(delay: float, result: Any = None) -> Any:
    """Sleeps: `await erlang.sleep(1)` in asynchronous code, `erlang.sleep(1)` in code that no loop runs."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        block(max(delay, 0))
        return result
    return asyncio.sleep(delay, result)
