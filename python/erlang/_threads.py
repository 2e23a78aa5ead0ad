"""Owns how threads are started and ended inside the VM.

On Python 3.11 an interrupt could go astray: the state of a new thread bears the ident of its starter until it
runs, so an interrupt for the one would end the other. While a thread is being started its starter is not
interrupted. Later Pythons are interrupted between a lock and the block it is for: who has the lock of
`threading` itself, without which no thread starts or ends, is interrupted afterwards.

A sub-interpreter ends without threads: those it has are told to stop, and waited for.
"""

import _thread
import atexit
import functools
import gc
import sys
import threading
import time
from typing import Any

from . import _bridge
from ._bridge import start_thread

PATIENCE = 3.0
"""How many seconds the threads of an interpreter have to end."""

_start = _thread.start_new_thread


def _start_new_thread(function: Any, args: Any, *kwargs: Any) -> Any:
    if not callable(function):
        return _start(function, args, *kwargs)
    begun = _thread.allocate_lock()
    begun.acquire()

    def run(*args: Any, **kwargs: Any) -> None:
        begun.release()
        function(*args, **kwargs)

    return start_thread(_start, begun, run, args, *kwargs)


class _Uninterrupted:
    """A lock: whoever has it is interrupted when it lets go."""

    def __init__(self, lock: Any) -> None:
        self.acquire = functools.partial(_bridge.hold, lock.acquire)
        self.release = functools.partial(_bridge.let_go, lock.release)

    def __enter__(self) -> Any:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


def install() -> None:
    """Once, before any code of users runs."""
    if sys.version_info < (3, 12):
        _thread.start_new_thread = _thread.start_new = _start_new_thread
        threading._start_new_thread = _start_new_thread  # type: ignore[attr-defined]
    else:
        lock = threading._active_limbo_lock  # type: ignore[attr-defined]
        threading._active_limbo_lock = _Uninterrupted(lock)  # type: ignore[attr-defined]


def _others() -> list[int]:
    """The threads that were started here.

    Not by `sys._current_frames()`, which shows those of other interpreters too. What `threading` takes for
    the main thread of a sub-interpreter is that of the whole process.
    """
    aside = (threading._MainThread, threading._DummyThread)  # type: ignore[attr-defined]
    started = [thread for thread in threading.enumerate() if not isinstance(thread, aside)]
    return [thread.ident for thread in started if thread.ident is not None]


def end() -> None:
    """The interpreter ends: what `atexit` knows is run, and its other threads are stopped.

    Afterwards nothing is left that Python itself would run or wait for at the end.
    """
    from . import _loops

    try:
        atexit._run_exitfuncs()
        deadline = time.monotonic() + PATIENCE
        pause = 0.001
        while others := _others():
            for thread in others:
                _bridge.interrupt(thread)
                _loops.wake(thread)
            if time.monotonic() > deadline:
                return
            time.sleep(pause)
            pause = min(pause * 2, 0.1)
        threading._shutdown()  # type: ignore[attr-defined]
        gc.collect()
    finally:
        atexit._clear()
        gc.disable()
