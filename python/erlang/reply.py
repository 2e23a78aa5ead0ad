"""Correlated replies: waiting for the answer that somebody else, in Python or in Erlang, will give to a name.

    waiter = erlang.reply.register("trace-17", timeout=2.0)
    ...
    value = await waiter                         # or waiter.wait(), where no event loop runs

    erlang.reply.complete("trace-17", value)     # elsewhere; or py_reply:complete/2, in Erlang

A waiter ends exactly once. It can be awaited under asyncio, on any loop, and under trio.
"""

import asyncio
import contextlib
import sys
import threading
from collections.abc import Callable, Generator
from typing import Any

from . import _standalone

__all__ = [
    "AlreadyRegisteredError",
    "OverloadedError",
    "ReplyCancelledError",
    "ReplyError",
    "Waiter",
    "cancel",
    "complete",
    "counters",
    "fail",
    "in_flight",
    "register",
]

TIMEOUT = 30.0


def _vm() -> Any:
    """The VM's side of the bridge, which is there before any Python code runs, or never."""
    return sys.modules.get("erlang._bridge") or _standalone.refuse("reply")


class AlreadyRegisteredError(ValueError):
    """Somebody waits for that name."""


class OverloadedError(RuntimeError):
    """As many wait as may."""


class ReplyError(Exception):
    """The answer is an error: `reason` says which."""

    def __init__(self, reason: Any) -> None:
        super().__init__(reason)
        self.reason = reason


class ReplyCancelledError(ReplyError):
    """There will be no answer."""


_REFUSALS: dict[str, type[Exception]] = {
    "already_registered": AlreadyRegisteredError,
    "overloaded": OverloadedError,
}


class Waiter:
    """Who waits for one answer."""

    def __init__(self, trace_id: Any, timeout: float | None) -> None:
        self.trace_id = trace_id
        self._lock = threading.Lock()
        self._end: tuple[str, Any] | None = None
        self._wake: Callable[[], object] | None = None
        number = _vm().reply_register(trace_id, self._deliver, timeout)
        if isinstance(number, str):
            raise _REFUSALS.get(number, RuntimeError)(f"{trace_id!r}: {number}")
        self._number: int = number

    @property
    def state(self) -> str:
        """`waiting`, or how it ended: `success`, `error`, `cancelled`, `timeout`."""
        return "waiting" if self._end is None else self._end[0]

    def cancel(self, reason: Any = "cancelled") -> bool:
        """Ends it without an answer. Whether this call did."""
        won: bool = _vm().reply_end(None, self._number, "cancelled", reason)
        return won

    def wait(self) -> Any:
        """The answer, in code that no event loop runs."""
        bell = _vm().bell()
        try:
            while self._call_at_end(bell.ring):
                bell.wait()
        except BaseException:
            self.cancel()
            raise
        return self._answer()

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._wait().__await__()

    async def _wait(self) -> Any:
        library = sys.modules.get("sniffio")
        if library is not None and library.current_async_library() == "trio":
            await self._wait_in_trio()
        else:
            await self._wait_in_asyncio()
        return self._answer()

    async def _wait_in_asyncio(self) -> None:
        loop = asyncio.get_running_loop()
        future = loop.create_future()

        def settle() -> None:
            if not future.done():
                future.set_result(None)

        if not self._call_at_end(lambda: loop.call_soon_threadsafe(settle)):
            return
        try:
            await future
        except asyncio.CancelledError:
            self.cancel()
            raise

    async def _wait_in_trio(self) -> None:
        import trio

        token, task = trio.lowlevel.current_trio_token(), trio.lowlevel.current_task()
        waits = True

        def wake() -> None:
            if waits:
                trio.lowlevel.reschedule(task)

        def abort(_raise: Any) -> trio.lowlevel.Abort:
            nonlocal waits
            waits = False
            self.cancel()
            return trio.lowlevel.Abort.SUCCEEDED

        if self._call_at_end(lambda: token.run_sync_soon(wake)):
            await trio.lowlevel.wait_task_rescheduled(abort)
            waits = False

    def _call_at_end(self, wake: Callable[[], object]) -> bool:
        """Has `wake` called when it ends, on another thread. False if it has ended."""
        with self._lock:
            if self._end is None:
                if self._wake not in (None, wake):
                    raise RuntimeError("somebody waits for this already")
                self._wake = wake
            return self._end is None

    def _deliver(self, state: str, value: Any) -> None:
        """It has ended. On a thread of the bridge."""
        with self._lock:
            self._end, wake = (state, value), self._wake
        if wake is not None:
            # One whose loop is closed waits no more.
            with contextlib.suppress(RuntimeError):
                wake()

    def _answer(self) -> Any:
        state, value = self._end or ("cancelled", "interrupted")
        if state == "success":
            return value
        if state == "timeout":
            raise TimeoutError(f"no reply to {self.trace_id!r}")
        if isinstance(value, Exception):
            raise value
        raise (ReplyCancelledError if state == "cancelled" else ReplyError)(value)

    def __repr__(self) -> str:
        return f"<Waiter {self.trace_id!r} {self.state}>"


def register(trace_id: Any, timeout: float | None = TIMEOUT) -> Waiter:
    """Waits for the answer to a name, for so many seconds; refused as one of the errors above."""
    return Waiter(trace_id, timeout)


def complete(trace_id: Any, value: Any = None) -> bool:
    """Answers whoever waits for a name. Whether it was this call that ended the waiting."""
    return _end(trace_id, "success", value)


def fail(trace_id: Any, reason: Any) -> bool:
    """Answers with an error, likewise."""
    return _end(trace_id, "error", reason)


def cancel(trace_id: Any, reason: Any = "cancelled") -> bool:
    """Ends the waiting without an answer, likewise."""
    return _end(trace_id, "cancelled", reason)


def in_flight() -> int:
    """How many wait."""
    return _counters()["in_flight"]


def counters() -> dict[str, int]:
    """What has happened since the VM started."""
    return {name: number for name, number in _counters().items() if name != "in_flight"}


def _counters() -> dict[str, int]:
    counters: dict[str, int] = _vm().reply_counters()
    return counters


def _end(trace_id: Any, state: str, value: Any) -> bool:
    won: bool = _vm().reply_end(trace_id, None, state, value)
    return won
