"""Owns how the programs run: on stdlib's loop and on ours, in one process, with real servers of their own
where needed.
"""

import asyncio
import contextlib
import os
import pwd
import shutil
import socket
import subprocess
import time
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any

import loops
import pytest
from running import LOCAL, Run, type_of


@pytest.fixture(params=[column for column in loops.COLUMNS if column != "uvloop"])
def factory(request: pytest.FixtureRequest) -> loops.Factory:
    return loops.factory(request.param)


@pytest.fixture
def run(factory: loops.Factory) -> Run:
    def run(main: Coroutine[Any, Any, Any]) -> Any:
        with asyncio.Runner(loop_factory=factory) as runner:
            assert type(runner.get_loop()) is type_of(factory)
            return runner.run(asyncio.wait_for(main, 60))

    return run


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind((LOCAL, 0))
        port: int = sock.getsockname()[1]
    return port


def wait_for_port(port: int, process: subprocess.Popen[bytes]) -> None:
    """A server says that it is ready by accepting."""
    deadline = time.monotonic() + 60
    while True:
        with contextlib.suppress(OSError), socket.create_connection((LOCAL, port), 1):
            return
        assert process.poll() is None, "the server ended"
        assert time.monotonic() < deadline, "the server does not listen"
        time.sleep(0.02)


@pytest.fixture(scope="session")
def redis_port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    program = shutil.which("redis-server")
    if program is None:
        pytest.fail("redis-server is missing: make setup installs it")
    port = free_port()
    folder = tmp_path_factory.mktemp("redis")
    command = [program, "--port", str(port), "--bind", LOCAL, "--save", "", "--dir", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        wait_for_port(port, process)
        yield port
        process.terminate()


@pytest.fixture(scope="session")
def postgres_port() -> Iterator[int]:
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
    start = [
        *prefix,
        str(programs / "postgres"),
        "-D",
        str(data),
        "-p",
        str(port),
        "-h",
        LOCAL,
        "-k",
        str(folder),
        "-F",
    ]
    with subprocess.Popen(start, **options) as process:
        try:
            wait_for_port(port, process)
            ask = [str(programs / "pg_isready"), "-q", "-h", LOCAL, "-p", str(port)]
            while subprocess.run(ask, check=False).returncode:  # it listens before it is ready
                assert process.poll() is None, "the server ended"
                time.sleep(0.05)
            yield port
        finally:
            process.terminate()
            process.wait(30)
            shutil.rmtree(folder, ignore_errors=True)
