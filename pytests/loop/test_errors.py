"""Owns the parity of complaints: what is refused, and in which words, is what stdlib's loop refuses."""

import asyncio
import tempfile
from asyncio import AbstractEventLoop
from collections.abc import Callable
from pathlib import Path
from typing import Any

import erlang
import pytest

Case = Callable[[Any], Any]


async def coroutine() -> None:
    """Not a callback."""


CASES: dict[str, Case] = {
    "call_soon without a callback": lambda loop: loop.call_soon(),
    "call_soon with an unknown keyword": lambda loop: loop.call_soon(print, nope=1),
    "call_later without a delay": lambda loop: loop.call_later(None, print),
    "call_later with a delay that is no number": lambda loop: loop.call_later("x", print),
    "call_later without a callback": lambda loop: loop.call_later(1),
    "call_at without a time": lambda loop: loop.call_at(None, print),
    "call_soon of a coroutine function in debug mode": lambda loop: (
        loop.set_debug(True),
        loop.call_soon(coroutine),
    ),
    "call_soon of what cannot be called in debug mode": lambda loop: (
        loop.set_debug(True),
        loop.call_soon(5),
    ),
    "call_at of what cannot be called in debug mode": lambda loop: (loop.set_debug(True), loop.call_at(5, 5)),
    "add_reader of a negative fd": lambda loop: loop.add_reader(-1, print),
    "add_reader of what has no fd": lambda loop: loop.add_reader("x", print),
    "add_writer of a closed fd": lambda loop: loop.add_writer(9999, print),
    "remove_reader of a negative fd": lambda loop: loop.remove_reader(-1),
    "remove_reader of nobody's fd": lambda loop: loop.remove_reader(9999),
    "a regular file is not polled": lambda loop: _with_file(loop),
    "a signal that cannot be caught": lambda loop: loop.add_signal_handler(9, print),
    "no such signal": lambda loop: loop.add_signal_handler(9999, print),
    "a signal by name": lambda loop: loop.add_signal_handler("INT", print),
    "a coroutine for a signal": lambda loop: loop.add_signal_handler(10, coroutine),
    "run_until_complete of nothing": lambda loop: loop.run_until_complete(None),
    "a future of another loop": lambda loop: loop.run_until_complete(_foreign_future()),
    "a loop stopped before its future": lambda loop: (
        loop.call_soon(loop.stop),
        loop.run_until_complete(loop.create_future()),
    ),
    "closed: call_soon": lambda loop: (loop.close(), loop.call_soon(print)),
    "closed: call_soon_threadsafe": lambda loop: (loop.close(), loop.call_soon_threadsafe(print)),
    "closed: call_later": lambda loop: (loop.close(), loop.call_later(1, print)),
    "closed: call_at": lambda loop: (loop.close(), loop.call_at(1, print)),
    "closed: run_forever": lambda loop: (loop.close(), loop.run_forever()),
    "closed: add_reader": lambda loop: (loop.close(), loop.add_reader(0, print)),
    "closed: remove_reader": lambda loop: (loop.close(), loop.remove_reader(0)),
    "closed: run_in_executor": lambda loop: (loop.close(), loop.run_in_executor(None, print)),
    "closed: close": lambda loop: (loop.close(), loop.close()),
    "closed: add_signal_handler": lambda loop: (loop.close(), loop.add_signal_handler(10, print)),
    "task factory that cannot be called": lambda loop: loop.set_task_factory(5),
    "exception handler that cannot be called": lambda loop: loop.set_exception_handler(5),
    "executor that is none": lambda loop: loop.set_default_executor(5),
}


def _with_file(loop: AbstractEventLoop) -> None:
    with tempfile.TemporaryFile() as file:
        loop.add_reader(file, print)


def _foreign_future() -> asyncio.Future[None]:
    loop = asyncio.SelectorEventLoop()
    future = loop.create_future()
    loop.close()
    return future


def open_fds() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def outcome(loop: Any, case: Case) -> tuple[str, str]:
    """What a case comes to, as type and text."""
    try:
        result = case(loop)
    except Exception as error:
        return type(error).__name__, str(error)
    finally:
        loop.close()
    return "returned", repr(result[-1] if isinstance(result, tuple) else result)


NAMES = [pytest.param(name, marks=pytest.mark.own_process) if "signal" in name else name for name in CASES]


@pytest.mark.filterwarnings("ignore:coroutine")
@pytest.mark.parametrize("name", NAMES)
def test_bad_input_gets_the_same_answer_as_from_stdlibs_loop(name: str) -> None:
    stdlib = outcome(asyncio.SelectorEventLoop(), CASES[name])
    ours = outcome(erlang.new_event_loop(), CASES[name])
    assert ours == stdlib


def test_a_closed_loop_gives_its_fds_back() -> None:
    before = open_fds()
    loop = erlang.new_event_loop()
    assert open_fds() > before
    loop.close()
    assert open_fds() == before


def test_an_unclosed_loop_warns() -> None:
    loop = erlang.new_event_loop()
    with pytest.warns(ResourceWarning, match="unclosed event loop"):
        del loop
