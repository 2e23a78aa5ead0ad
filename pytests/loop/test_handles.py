"""Owns handles: that ours are asyncio's as far as anybody can tell, and let go of what they held."""

import asyncio
import contextvars
import gc
import weakref
from asyncio import AbstractEventLoop
from typing import Any

import pytest


def nothing(*args: Any) -> None:
    """A callback."""


def test_a_handle_is_an_asyncio_handle(loop: AbstractEventLoop) -> None:
    handle: Any = loop.call_soon(nothing, 1, 2)
    timer = loop.call_later(1, nothing)
    assert isinstance(handle, asyncio.Handle)
    assert not isinstance(handle, asyncio.TimerHandle)
    assert isinstance(timer, asyncio.TimerHandle)
    assert weakref.ref(handle)() is handle
    assert weakref.ref(timer)() is timer
    inside: Any = handle
    assert (inside._callback, inside._args, inside._cancelled) == (nothing, (1, 2), False)
    assert inside._loop is loop
    handle.cancel()
    timer.cancel()
    assert handle.cancelled() and timer.cancelled()
    assert handle._args is None


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 9])
def test_any_number_of_arguments_arrives(loop: AbstractEventLoop, count: int) -> None:
    got: list[tuple[Any, ...]] = []

    def take(*args: Any) -> None:
        got.append(args)

    args = tuple(range(count))
    assert loop.call_soon(take, *args)._args == args
    loop.call_later(0, take, *args)
    loop.call_later(0.001, loop.stop)
    loop.run_forever()
    assert got == [args, args]


def test_the_repr_is_asyncios(loop: AbstractEventLoop) -> None:
    stdlib = asyncio.Handle(nothing, (1, "two"), loop)
    ours = loop.call_soon(nothing, 1, "two")
    assert repr(ours).split(" created at")[0].rstrip(">") == repr(stdlib).split(" created at")[0].rstrip(">")
    stdlib.cancel()
    ours.cancel()
    assert repr(ours).split(" created at")[0].rstrip(">") == repr(stdlib).split(" created at")[0].rstrip(">")
    timer = loop.call_at(12345, nothing)
    assert repr(timer).startswith("<TimerHandle when=12345 nothing() at ")
    timer.cancel()


def test_timer_handles_compare_by_time(loop: AbstractEventLoop) -> None:
    early, late = loop.call_at(10.0, nothing), loop.call_at(20.0, nothing)
    same = loop.call_at(10.0, nothing)
    stdlib = asyncio.TimerHandle(10.0, nothing, (), loop)
    assert early < late and early <= late and late > early and late >= early
    assert early == same == stdlib and early != late
    assert hash(early) == hash(same) == hash(10.0)
    assert sorted([late, early]) == [early, late]
    assert early != 10.0
    with pytest.raises(TypeError):
        assert early < 10.0  # type: ignore[operator]
    for handle in (early, late, same):
        handle.cancel()


def test_a_callback_runs_in_the_context_it_was_scheduled_in(loop: AbstractEventLoop) -> None:
    name: contextvars.ContextVar[str] = contextvars.ContextVar("name", default="nobody")
    seen: list[str] = []

    def see() -> None:
        seen.append(name.get())

    token = name.set("then")
    loop.call_soon(see)
    other = contextvars.Context()
    other.run(name.set, "other")
    loop.call_soon(see, context=other)
    loop.call_later(0, see, context=other)
    name.reset(token)
    loop.call_later(0.001, loop.stop)
    loop.run_forever()
    assert seen == ["then", "other", "other"]


def test_an_exception_goes_to_the_handler_with_asyncios_context(loop: AbstractEventLoop) -> None:
    contexts: list[dict[str, Any]] = []
    loop.set_exception_handler(lambda _, context: contexts.append(context))

    def boom(text: str) -> None:
        raise ValueError(text)

    handle = loop.call_soon(boom, "x")
    loop.call_soon(loop.stop)
    loop.run_forever()
    [context] = contexts
    assert context["message"].startswith("Exception in callback ")
    assert "boom(" in context["message"]
    assert isinstance(context["exception"], ValueError)
    assert context["handle"] is handle
    assert ("source_traceback" in context) == loop.get_debug()


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt])
def test_what_ends_the_program_ends_the_run_and_the_rest_runs_later(
    loop: AbstractEventLoop, kind: type[BaseException]
) -> None:
    done: list[str] = []

    def end() -> None:
        raise kind

    loop.call_soon(done.append, "before")
    loop.call_soon(end)
    loop.call_soon(done.append, "after")
    with pytest.raises(kind):
        loop.run_forever()
    assert done == ["before"]
    assert not loop.is_running()
    loop.call_soon(loop.stop)
    loop.run_forever()
    assert done == ["before", "after"]


class Owner:
    """Has a handle that refers back to it."""

    handle: asyncio.Handle

    def call(self) -> None:
        """The callback."""


@pytest.mark.parametrize("method", ["call_soon", "call_later"])
@pytest.mark.parametrize("end", ["run", "cancel", "close"])
def test_a_handle_that_is_done_keeps_nothing_alive(loop: AbstractEventLoop, end: str, method: str) -> None:
    owner = Owner()
    owner.handle = loop.call_soon(owner.call) if method == "call_soon" else loop.call_later(0, owner.call)
    gone = weakref.ref(owner)
    if end == "cancel":
        owner.handle.cancel()
    if end == "close":
        loop.close()
    else:
        loop.call_later(0.001, loop.stop)
        loop.run_forever()
    del owner
    gc.collect()
    assert gone() is None


def test_debug_mode_names_slow_callbacks(loop: AbstractEventLoop, caplog: pytest.LogCaptureFixture) -> None:
    import time

    loop.slow_callback_duration = 0.001
    loop.call_soon(time.sleep, 0.01)
    loop.call_soon(loop.stop)
    loop.run_forever()
    slow = [record.getMessage() for record in caplog.records if "took" in record.getMessage()]
    if loop.get_debug():
        assert slow[0].startswith("Executing <Handle sleep(0.01)")
    else:
        assert slow == []
