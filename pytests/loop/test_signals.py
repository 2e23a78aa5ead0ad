"""Owns signals: handlers of the loop, Ctrl-C, and the wake-up of a loop that waits."""

import asyncio
import contextvars
import gc
import os
import signal
import threading
import time
from asyncio import AbstractEventLoop

import erlang
import pytest

pytestmark = pytest.mark.own_process

NUMBER: contextvars.ContextVar[int] = contextvars.ContextVar("number")


def test_a_signal_handler_is_called_and_removed(loop: AbstractEventLoop) -> None:
    got: list[int] = []

    def handler(number: int) -> None:
        got.append(number)
        loop.stop()

    loop.add_signal_handler(signal.SIGUSR1, handler, 7)
    loop.call_later(0.01, os.kill, os.getpid(), signal.SIGUSR1)
    loop.run_forever()
    assert got == [7]
    assert loop.remove_signal_handler(signal.SIGUSR1)
    assert not loop.remove_signal_handler(signal.SIGUSR1)
    assert signal.getsignal(signal.SIGUSR1) == signal.SIG_DFL
    assert signal.set_wakeup_fd(-1) == -1


def test_ctrl_c_ends_a_loop_that_waits(loop: AbstractEventLoop) -> None:
    timer = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    loop.call_later(10, loop.stop)
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        loop.run_forever()
    timer.join()
    assert time.monotonic() - start < 5
    assert not loop.is_running()


def test_ctrl_c_cancels_the_program_of_run() -> None:
    cleaned = False

    async def main() -> None:
        nonlocal cleaned
        asyncio.get_running_loop().call_later(0.01, os.kill, os.getpid(), signal.SIGINT)
        try:
            await asyncio.sleep(10)
        finally:
            cleaned = True

    with pytest.raises(KeyboardInterrupt):
        erlang.run(main())
    assert cleaned


def test_a_handler_written_in_python_runs_while_the_loop_waits(loop: AbstractEventLoop) -> None:
    got: list[float] = []
    before = signal.signal(signal.SIGUSR2, lambda *_: got.append(loop.time()))
    try:
        timer = threading.Timer(0.02, os.kill, (os.getpid(), signal.SIGUSR2))
        start = loop.time()
        loop.call_later(0.5, loop.stop)
        timer.start()
        loop.run_forever()
        timer.join()
    finally:
        signal.signal(signal.SIGUSR2, before)
    assert len(got) == 1 and got[0] - start < 0.4


def test_a_handler_of_signals_runs_in_the_context_of_whoever_runs_the_loop(loop: AbstractEventLoop) -> None:
    def killed(_signal: int, _frame: object) -> None:
        NUMBER.set(NUMBER.get() + 1)
        loop.call_soon_threadsafe(loop.stop)

    def run() -> int:
        NUMBER.set(1)
        asked = threading.Lock()
        asked.acquire()

        def kill() -> None:
            asked.acquire()
            os.kill(os.getpid(), signal.SIGUSR1)
            # A signal that comes right before the wait does not end it.
            loop.call_soon_threadsafe(gc.isenabled)

        killer = threading.Thread(target=kill)
        killer.start()
        # Several without variables, then nothing: the loop waits when the signal comes, or is about to. None
        # of them is Python code, which would run the handler where it is.
        for callback in (gc.isenabled, gc.isenabled, asked.release):
            contextvars.Context().run(loop.call_soon, callback)
        loop.run_forever()
        killer.join()
        return NUMBER.get()

    before = signal.signal(signal.SIGUSR1, killed)
    try:
        assert contextvars.Context().run(run) == 2
    finally:
        signal.signal(signal.SIGUSR1, before)
