"""Owns what Python may not do inside the Erlang VM: fork, run programs, take signals, end the process.

An audit hook of the VM refuses what CPython tells hooks of; here is what it does not tell them of. It is no
jail for hostile code (`ctypes` is open to it), but it keeps a library from taking the VM apart by accident.
"""

import _posixsubprocess
import _signal  # type: ignore[import-not-found]
import os
import posix
import signal
import subprocess
from typing import Any, NoReturn

from ._loop import ErlangEventLoop

PROGRAMS = (
    "is refused inside the Erlang VM, whose threads a forked child would not have: start programs in Erlang, "
    "with open_port/2, and register a function for it that Python calls"
)
SIGNALS = (
    "is not available inside the Erlang VM, which has the signals to itself: handle them in Erlang, with "
    "os:set_signal/2 and the erl_signal_server event manager"
)
END = "is refused inside the Erlang VM, which it would end: raise an exception, or call init:stop/0 in Erlang"


class NoSignalsError(NotImplementedError, ValueError):
    """Also a `ValueError`: what Python raises outside of its main thread, and libraries are prepared for."""


def _refusing(name: str, why: str, error: type[Exception]) -> Any:
    def function(*args: Any, **kwargs: Any) -> NoReturn:
        raise error(f"{name} {why}")

    function.__name__ = function.__qualname__ = name.rpartition(".")[2]
    function.__doc__ = f"{name} {why}."
    return function


def _replace(modules: tuple[Any, ...], name: str, why: str, error: type[Exception]) -> None:
    function = _refusing(f"{modules[0].__name__}.{name}", why, error)
    for module in modules:
        if hasattr(module, name):
            setattr(module, name, function)


def install() -> None:
    """Once, before any code of users runs."""
    fork_exec = _refusing("_posixsubprocess.fork_exec", PROGRAMS, PermissionError)
    _posixsubprocess.fork_exec = fork_exec
    if hasattr(subprocess, "_fork_exec"):
        subprocess._fork_exec = fork_exec
    for name in ("alarm", "setitimer", "signal", "siginterrupt", "set_wakeup_fd", "pause"):
        _replace((signal, _signal), name, SIGNALS, NoSignalsError)
    for name in ("_exit", "abort"):
        _replace((os, posix), name, END, PermissionError)
    for name in ("add_signal_handler", "remove_signal_handler"):
        setattr(ErlangEventLoop, name, _refusing(f"loop.{name}", SIGNALS, NotImplementedError))
    for name in ("subprocess_exec", "subprocess_shell"):
        # Raised by the call, not by awaiting what it returns.
        setattr(ErlangEventLoop, name, _refusing(f"loop.{name}", PROGRAMS, NotImplementedError))
