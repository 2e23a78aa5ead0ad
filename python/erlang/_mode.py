"""Owns the answer to "how does this Python run": with a GIL for all, one per interpreter, or none."""

import enum
import sys

from . import _native


class ExecutionMode(enum.Enum):
    """How Python code of different threads and interpreters shares the machine."""

    FREE_THREADED = "free_threaded"
    """No GIL."""
    SUBINTERP = "subinterp"
    """A sub-interpreter, which may have a GIL of its own."""
    SHARED_GIL = "shared_gil"
    """The main interpreter, and one GIL for all its threads."""


def detect_mode() -> ExecutionMode:
    """How the calling code runs."""
    has_gil = getattr(sys, "_is_gil_enabled", None)
    if has_gil is not None and not has_gil():
        return ExecutionMode.FREE_THREADED
    if _native.interpreter_id() != 0:
        return ExecutionMode.SUBINTERP
    return ExecutionMode.SHARED_GIL
