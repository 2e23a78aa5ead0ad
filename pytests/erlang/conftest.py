"""Owns what the tests of programs in the VM share: the built application, and the environment they run in."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BUILT = ROOT / "build/erl"


def environment(python: str = sys.executable) -> dict[str, str]:
    """That of a user: nothing of the checkout on the path of Python."""
    env = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    return env | {
        "PYTHON": python,
        "ERLANG_PYTHON": python,
        "REBAR_BASE_DIR": str(BUILT),
        "ERL_CRASH_DUMP": "/dev/null",
    }


def run(*command: str | Path, timeout: float = 600, **more: str) -> subprocess.CompletedProcess[str]:
    """Runs a program in the root of the repository, without a terminal."""
    return subprocess.run(
        [str(word) for word in command],
        cwd=ROOT,
        env=environment() | more,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


@contextmanager
def serving(script: str) -> Iterator[str]:
    """A site that a script of tools/ serves, by the address it prints, until the end of the `with`."""
    with subprocess.Popen(
        [ROOT / "tools" / script],
        cwd=ROOT,
        env=environment() | {"PORT": "0"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as server:
        try:
            assert server.stdout is not None
            found = (re.search(r"serving at http://(\S+?)/", line) for line in server.stdout)
            yield next(address[1] for address in found if address)
        finally:
            os.killpg(server.pid, signal.SIGKILL)


@pytest.fixture(scope="session")
def application() -> Path:
    """The compiled application's `ebin`."""
    built = run("rebar3", "compile")
    assert built.returncode == 0, built.stdout + built.stderr
    return BUILT / "default/lib/erlang_python/ebin"
