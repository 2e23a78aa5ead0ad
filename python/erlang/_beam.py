"""Owns the names of `erlang` that need the Erlang VM, inside of it: a thin layer over `_bridge`.

A function that Erlang registered is an attribute of the module, so `erlang.name(...)` and
`from erlang import name` find it.
"""

import functools
import gc as _gc
import platform
import sys
import traceback
from typing import Any

from . import _logging, _loops, _output, _sandbox, _threads, _venv
from ._bridge import (
    Atom,
    Pid,
    Ref,
    ScheduleMarker,
    Term,
    atom,
    call,
    consume_time_slice,
    has_function,
    schedule,
    schedule_inline,
    schedule_py,
    send,
    whereis,
)
from ._logging import ErlangHandler, setup_logging
from ._loops import async_call
from ._state import (
    state_clear,
    state_decr,
    state_delete,
    state_fetch,
    state_get,
    state_incr,
    state_keys,
    state_remove,
    state_set,
    state_store,
)

__all__ = [
    "Atom",
    "ErlangError",
    "ErlangHandler",
    "Interrupted",
    "Pid",
    "Ref",
    "ScheduleMarker",
    "Term",
    "async_call",
    "atom",
    "call",
    "consume_time_slice",
    "schedule",
    "schedule_inline",
    "schedule_py",
    "send",
    "setup_logging",
    "state_clear",
    "state_decr",
    "state_delete",
    "state_fetch",
    "state_get",
    "state_incr",
    "state_keys",
    "state_remove",
    "state_set",
    "state_store",
    "whereis",
]


class ErlangError(Exception):
    """An Erlang function failed: `kind` is `error`, `exit` or `throw`, and `reason` what it failed with."""

    def __init__(self, kind: str, reason: Any, text: str = "") -> None:
        super().__init__(kind, reason)
        self.kind = kind
        self.reason = reason
        self._text = text or repr(reason)

    def __str__(self) -> str:
        return f"{self.kind}: {self._text}"


class Interrupted(KeyboardInterrupt):
    """Erlang wants this code to stop: its caller gave up, died, or cancelled it.

    It ends a loop that runs, as Ctrl-C does, and not just one of its callbacks.
    """


def describe(exception: BaseException) -> str:
    """The exception with its traceback, as the interpreter would print it."""
    return "".join(traceback.format_exception(exception))


activate_venv = _venv.activate
deactivate_venv = _venv.deactivate
venv_info = _venv.info


def version() -> str:
    return platform.python_version()


def gc(generation: int = 2) -> int:
    return _gc.collect(generation)


def memory_stats() -> dict[str, Any]:
    """What Python says about its memory."""
    return {
        "gc_counts": list(_gc.get_count()),
        "gc_thresholds": list(_gc.get_threshold()),
        "gc_stats": _gc.get_stats(),
        "allocated_blocks": sys.getallocatedblocks(),
        "modules": len(sys.modules),
    }


def execution_mode() -> str:
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        return "free_threaded"
    return "subinterp" if sys.version_info >= (3, 12) else "multi_executor"


def __getattr__(name: str) -> Any:
    if not has_function(name):
        raise AttributeError(
            f"module 'erlang' has no attribute {name!r}, and no Erlang function has that name"
        )
    function = functools.partial(call, name)
    function.__doc__ = f"The Erlang function registered as {name}."
    return function


_output.install()
_loops.install()
_threads.install()
_sandbox.install()
_logging.install()
