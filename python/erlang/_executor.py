"""Owns `run_in_executor`: what is called on another thread, and how its outcome comes back.

As `asyncio.wrap_future` does it, but for the one kind of futures that the stdlib's executors give: neither of
the two is asked again and again which kind it is, and two locks are taken where that takes four.
"""

import sys
from asyncio import Future, events, futures
from collections.abc import Callable
from concurrent.futures import CancelledError, Executor, ThreadPoolExecutor
from concurrent.futures import Future as Call
from typing import Any, TypeVar, TypeVarTuple

from ._stdlib import StdlibLoop, convert_exception

_T = TypeVar("_T")
_Ts = TypeVarTuple("_Ts")

_AT_ONCE = sys.version_info >= (3, 14)
"""Whether a call that has ended on the loop's own thread is answered there and then."""


class Executors(StdlibLoop):
    """The part of the loop that has others do what would block it."""

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[*_Ts], _T], *args: *_Ts
    ) -> Future[_T]:
        """Calls a function on a thread of an executor, the loop's own if none is given."""
        self._check_closed()
        if self._debug:
            self._check_callback(func, "run_in_executor")
        if executor is None:
            executor = self._default_executor
            self._check_default_executor()
            if executor is None:
                executor = self._default_executor = ThreadPoolExecutor(thread_name_prefix="asyncio")
        call = executor.submit(func, *args)
        if type(call) is not Call:
            return futures.wrap_future(call, loop=self)
        answer: Future[_T] = self.create_future()
        _chain(self, call, answer)
        return answer


def _chain(loop: StdlibLoop, call: Call[Any], answer: Future[Any]) -> None:
    """The outcome goes one way, a cancellation the other."""

    def take_back(answer: Future[Any]) -> None:
        if answer.cancelled():
            call.cancel()

    def pass_on(call: Call[Any]) -> None:
        # Whoever has ended the call runs this: a thread of the executor, or who has cancelled it.
        if loop.is_closed():
            return
        if _AT_ONCE and events._get_running_loop() is loop:
            _deliver(call, answer)
        else:
            loop.call_soon_threadsafe(_deliver, call, answer)

    answer.add_done_callback(take_back)
    call.add_done_callback(pass_on)


def _deliver(call: Call[Any], answer: Future[Any]) -> None:
    if answer.cancelled():
        return
    try:
        error = call.exception()
    except CancelledError:
        answer.cancel()
        return
    if error is None:
        answer.set_result(call.result())
    else:
        answer.set_exception(convert_exception(error))
