"""Owns the databases that tests talk to: started on a free port of their own, and ended. Fixtures over them.

Inside the Erlang VM no program can be started: there the ports come from whoever did, by the environment.
"""

import contextlib
import os
import pwd
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

LOCAL = "127.0.0.1"
REDIS, POSTGRES = "TEST_REDIS_PORT", "TEST_POSTGRES_PORT"


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind((LOCAL, 0))
        port: int = sock.getsockname()[1]
    return port


def _wait_for_port(port: int, process: subprocess.Popen[bytes]) -> None:
    """A server says that it is ready by accepting."""
    deadline = time.monotonic() + 60
    while True:
        with contextlib.suppress(OSError), socket.create_connection((LOCAL, port), 1):
            return
        assert process.poll() is None, "the server ended"
        assert time.monotonic() < deadline, "the server does not listen"
        time.sleep(0.02)


def _redis(folder: Path) -> Iterator[int]:
    program = shutil.which("redis-server")
    if program is None:
        pytest.fail("redis-server is missing: make setup installs it")
    port = free_port()
    command = [program, "--port", str(port), "--bind", LOCAL, "--save", "", "--dir", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        _wait_for_port(port, process)
        yield port
        process.terminate()


def _postgres() -> Iterator[int]:
    """A cluster of its own, run by an unprivileged user, as initdb refuses root."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if not found:
        pytest.fail("PostgreSQL is missing: make setup installs it")
    programs = found[-1].parent
    port = free_port()
    folder = Path(subprocess.run(["mktemp", "-d"], capture_output=True, text=True, check=True).stdout.strip())
    prefix: list[str] = []
    if os.geteuid() == 0:
        user = pwd.getpwnam("nobody")
        os.chown(folder, user.pw_uid, user.pw_gid)
        prefix = ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]
    data = folder / "data"
    options: Any = {"cwd": folder, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    make = [*prefix, str(programs / "initdb"), "-D", str(data), "-U", "tester", "-A", "trust", "--no-sync"]
    subprocess.run(make, check=True, **options)
    place = ["-D", str(data), "-p", str(port), "-h", LOCAL, "-k", str(folder)]
    with subprocess.Popen([*prefix, str(programs / "postgres"), *place, "-F"], **options) as process:
        try:
            _wait_for_port(port, process)
            ask = [str(programs / "pg_isready"), "-q", "-h", LOCAL, "-p", str(port)]
            while subprocess.run(ask, check=False).returncode:  # it listens before it is ready
                assert process.poll() is None, "the server ended"
                time.sleep(0.05)
            yield port
        finally:
            process.terminate()
            process.wait(30)
            shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def redis_port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    given = os.environ.get(REDIS)
    yield from [int(given)] if given else _redis(tmp_path_factory.mktemp("redis"))


@pytest.fixture(scope="session")
def postgres_port() -> Iterator[int]:
    given = os.environ.get(POSTGRES)
    yield from [int(given)] if given else _postgres()
