"""`run_in_executor`: results, exceptions and cancellations go their way, whatever the executor is."""

import asyncio
import concurrent.futures
import contextvars
import gc
import logging
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any

import pytest

Loop = asyncio.AbstractEventLoop
Call = concurrent.futures.Future


class Inline(concurrent.futures.Executor):
    """Has done it when it returns."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Call[Any]:
        call: Call[Any] = Call()
        try:
            call.set_result(fn(*args, **kwargs))
        except BaseException as error:
            call.set_exception(error)
        return call


class Patient(concurrent.futures.Executor):
    """Does nothing by itself: its calls are ended by the test."""

    def __init__(self, kind: type[Call[Any]] = Call) -> None:
        self.calls: list[Call[Any]] = []
        self.kind = kind

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Call[Any]:
        self.calls.append(self.kind())
        return self.calls[-1]


class OfOthers(Call[Any]):
    """A future of an executor's own kind."""


async def test_many_calls_have_their_own_results(loop: Loop) -> None:
    calls = [loop.run_in_executor(None, divmod, number, 7) for number in range(500)]
    assert await asyncio.gather(*calls) == [divmod(number, 7) for number in range(500)]


async def test_an_exception_is_the_very_one_that_was_raised(loop: Loop) -> None:
    raised = KeyError("x")

    def fail() -> None:
        raise raised

    with pytest.raises(KeyError) as caught:
        await loop.run_in_executor(None, fail)
    assert caught.value is raised
    assert [frame.name for frame in caught.traceback][-1] == "fail"


async def test_exceptions_of_concurrent_futures_have_the_names_of_asyncio(loop: Loop) -> None:
    def fail(error: BaseException) -> None:
        raise error

    for theirs, ours in (
        (concurrent.futures.CancelledError("c"), asyncio.CancelledError),
        (concurrent.futures.InvalidStateError("i"), asyncio.InvalidStateError),
        (concurrent.futures.TimeoutError("t"), asyncio.TimeoutError),
    ):
        with pytest.raises(ours) as caught:
            await loop.run_in_executor(None, fail, theirs)
        assert type(caught.value) is ours and caught.value.args == theirs.args


@pytest.mark.parametrize("kind", [Call, OfOthers])
async def test_cancelling_the_answer_cancels_a_call_that_has_not_begun(
    loop: Loop, kind: type[Call[Any]]
) -> None:
    executor = Patient(kind)
    answer = loop.run_in_executor(executor, int)
    assert answer.cancel()
    with pytest.raises(asyncio.CancelledError):
        await answer
    await asyncio.sleep(0)
    assert executor.calls[0].cancelled()


@pytest.mark.parametrize("kind", [Call, OfOthers])
async def test_cancelling_the_call_cancels_the_answer(loop: Loop, kind: type[Call[Any]]) -> None:
    executor = Patient(kind)
    answer = loop.run_in_executor(executor, int)
    thread = threading.Thread(target=executor.calls[0].cancel)
    thread.start()
    with pytest.raises(asyncio.CancelledError):
        await answer
    thread.join()


async def test_the_result_of_a_call_that_was_given_up_is_dropped(loop: Loop) -> None:
    begun, end = threading.Event(), threading.Event()

    def work() -> str:
        begun.set()
        assert end.wait(30)
        return "late"

    with concurrent.futures.ThreadPoolExecutor(1) as executor:
        answer = loop.run_in_executor(executor, work)
        await loop.run_in_executor(None, begun.wait)
        answer.cancel()
        with pytest.raises(asyncio.CancelledError):
            await answer
        end.set()
        # What comes after it on that thread comes after it here, too.
        assert await loop.run_in_executor(executor, int) == 0
    assert answer.cancelled()


async def test_a_call_that_ends_at_once_is_answered(loop: Loop) -> None:
    answer = loop.run_in_executor(Inline(), pow, 2, 5)
    reference = asyncio.Future[int](loop=loop)
    done: Call[int] = Call()
    done.set_result(32)
    asyncio.futures._chain_future(done, reference)  # type: ignore[attr-defined]
    assert answer.done() is reference.done()
    assert await answer == 32
    with pytest.raises(ZeroDivisionError):
        await loop.run_in_executor(Inline(), divmod, 1, 0)


def test_a_call_that_outlives_its_loop_tells_nobody(loop: Loop, caplog: pytest.LogCaptureFixture) -> None:
    executor = Patient()
    with caplog.at_level(logging.DEBUG, "concurrent.futures"):
        answer = loop.run_in_executor(executor, int)
        loop.close()
        executor.calls[0].set_result(1)
    assert not answer.done()
    assert [record.getMessage() for record in caplog.records if record.name == "concurrent.futures"] == []


async def test_nothing_is_kept_of_a_call_that_has_ended(loop: Loop) -> None:
    class Result:
        pass

    gc.collect()
    gc.disable()
    try:
        answer = loop.run_in_executor(None, Result)
        result = weakref.ref(await answer)
        del answer
        while result() is not None:
            # The thread lets go of its own part when it looks for more to do.
            await loop.run_in_executor(None, int)
    finally:
        gc.enable()


async def test_callbacks_of_the_answer_run_in_their_own_context(loop: Loop) -> None:
    who = contextvars.ContextVar("who", default="nobody")
    seen: list[str] = []
    who.set("caller")
    answer = loop.run_in_executor(None, lambda: seen.append(who.get()))
    answer.add_done_callback(lambda _answer: seen.append(who.get()))
    who.set("later")
    await answer
    await asyncio.sleep(0)
    # Without a GIL a thread has the variables of whoever starts it.
    inherits = getattr(sys.flags, "thread_inherit_context", False)
    assert seen == ["caller" if inherits else "nobody", "caller"]
