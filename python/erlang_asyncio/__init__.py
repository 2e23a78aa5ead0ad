"""The first-generation names: asyncio's own functions, and `run` and `new_event_loop` of `erlang`."""

from asyncio import (
    ALL_COMPLETED,
    FIRST_COMPLETED,
    FIRST_EXCEPTION,
    AbstractEventLoop,
    CancelledError,
    TimeoutError,  # noqa: A004
    create_task,
    ensure_future,
    gather,
    get_running_loop,
    set_event_loop,
    shield,
    sleep,
    timeout,
    wait,
    wait_for,
)

from erlang import new_event_loop, run
from erlang._policy import current_event_loop

__all__ = [
    "ALL_COMPLETED",
    "FIRST_COMPLETED",
    "FIRST_EXCEPTION",
    "CancelledError",
    "TimeoutError",
    "create_task",
    "ensure_future",
    "gather",
    "get_event_loop",
    "get_running_loop",
    "new_event_loop",
    "run",
    "set_event_loop",
    "shield",
    "sleep",
    "timeout",
    "wait",
    "wait_for",
]


def get_event_loop() -> AbstractEventLoop:
    """The running loop, or this thread's current one, or a new `ErlangEventLoop` that becomes it."""
    try:
        return get_running_loop()
    except RuntimeError:
        loop: AbstractEventLoop | None = current_event_loop()
    if loop is None or loop.is_closed():
        loop = new_event_loop()
        set_event_loop(loop)
    return loop
