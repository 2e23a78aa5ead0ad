"""Owns what the tests of programs in the VM share: the built application, and the environment they run in."""

import os
import subprocess
import sys
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


@pytest.fixture(scope="session")
def application() -> Path:
    """The compiled application's `ebin`."""
    built = run("rebar3", "compile")
    assert built.returncode == 0, built.stdout + built.stderr
    return BUILT / "default/lib/erlang_python/ebin"
