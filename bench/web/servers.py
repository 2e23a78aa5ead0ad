"""The servers: each a process group of its own, with one worker, at a port that was free."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
EBIN = ROOT / "_build" / "default" / "lib" / "erlang_python" / "ebin"
APP = "web.site:app"
HOST = "127.0.0.1"
PATIENCE = 60.0
"""Seconds that a server may take to start."""

_VM = """
    {{ok, _}} = application:ensure_all_started(erlang_python),
    {{ok, _}} = py:call(sys, 'path.append', [<<"{bench}">>]),
    {{ok, _}} = py_asgi:serve(#{{app => <<"{app}">>, port => {port}, loops => 1, lifespan => off}}).
"""


def _python(*words: str) -> Callable[[int], list[str]]:
    """A command of this Python's; `PORT` stands for the port."""
    return lambda port: [sys.executable, "-m", *(word.replace("PORT", str(port)) for word in words)]


def _vm(port: int) -> list[str]:
    program = _VM.format(bench=ROOT / "bench", app=APP, port=port)
    return ["erl", "-noshell", "-pa", str(EBIN), "-eval", program]


COMMANDS: dict[str, Callable[[int], list[str]]] = {
    "vm": _vm,
    "standalone": _python("erlang", "serve", APP, "--port", "PORT", "--lifespan", "off"),
    "uvicorn": _python(
        *("uvicorn", APP, "--port", "PORT", "--loop", "uvloop", "--http", "httptools", "--lifespan", "off"),
        *("--no-access-log", "--log-level", "warning"),
    ),
    "granian": _python(
        *("granian", "--interface", "asginl", "--port", "PORT", "--workers", "1", "--loop", "uvloop"),
        *("--log-level", "warning", APP),
    ),
    "hypercorn": _python("hypercorn", "--bind", f"{HOST}:PORT", "--worker-class", "uvloop", APP),
}


def _free_port() -> int:
    with socket.socket() as sock:
        sock.bind((HOST, 0))
        port: int = sock.getsockname()[1]
        return port


def _is_there(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection((HOST, port)):
        return True
    return False


class Group:
    """The processes of a server: what they are, and the CPU time they have used."""

    def __init__(self, leader: int, port: int) -> None:
        self.leader, self.port = leader, port

    def members(self) -> list[int]:
        found = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdecimal()]
        return [pid for pid in found if self._has(pid)]

    def _has(self, pid: int) -> bool:
        try:
            return os.getsid(pid) == self.leader
        except ProcessLookupError:
            return False

    def cpu_seconds(self) -> float:
        """By the clock of each process, which clock_getcpuclockid(3) makes of its id: all its threads."""
        total = 0.0
        for pid in self.members():
            with contextlib.suppress(OSError):
                total += time.clock_gettime((~pid << 3) | 2)
        return total


@contextlib.contextmanager
def serving(name: str) -> Iterator[Group]:
    """A server that listens, on the core that this process has."""
    port = _free_port()
    environment = os.environ | {"ERLANG_PYTHON": sys.executable, "ERL_CRASH_DUMP": "/dev/null"}
    with subprocess.Popen(
        COMMANDS[name](port), start_new_session=True, env=environment, stdout=subprocess.DEVNULL
    ) as process:
        try:
            until = time.monotonic() + PATIENCE
            while not _is_there(port):
                if process.poll() is not None or time.monotonic() > until:
                    raise SystemExit(f"{name} does not serve")
                time.sleep(0.02)
            yield Group(process.pid, port)
        finally:
            for pid in Group(process.pid, port).members():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
