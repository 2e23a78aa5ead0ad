"""Owns how threads are started inside the VM, where an interrupt could go astray: on Python 3.11.

The state of a new thread bears the ident of its starter until it runs, so an interrupt for the one
would end the other. While a thread is being started its starter is not interrupted.
"""

import _thread
import sys
import threading
from typing import Any

from ._bridge import start_thread

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


def install() -> None:
    """Has all threads started this way, where it matters."""
    if sys.version_info < (3, 12):
        _thread.start_new_thread = _thread.start_new = _start_new_thread
        threading._start_new_thread = _start_new_thread  # type: ignore[attr-defined]
