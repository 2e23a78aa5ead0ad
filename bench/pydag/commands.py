"""GETs of a short value by redis-py on uvloop, so many in flight: commands a second, over a Unix socket."""

from __future__ import annotations

import asyncio
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from pyloop import loops
from pyloop.params import Params
from pyloop.report import Report, check

VALUE = b"sixteen bytes..."


async def _connected(path: Path, connections: int) -> Any:
    """A client, as soon as the server listens."""
    import redis.asyncio

    client = redis.asyncio.Redis(unix_socket_path=str(path), max_connections=connections)
    until = time.monotonic() + 30
    while True:
        try:
            await client.set("key", VALUE)
            return client
        except redis.asyncio.ConnectionError:
            if time.monotonic() > until:
                raise
            await asyncio.sleep(0.005)


async def _measure(path: Path, in_flight: int, commands: int) -> Report:
    client = await _connected(path, in_flight)
    left = commands

    async def worker() -> None:
        nonlocal left
        while left > 0:
            left -= 1
            check(await client.get("key") == VALUE, "another value")

    # A command has a connection to itself while it is in flight: they are made before the clock starts.
    await asyncio.gather(*(client.ping() for _ in range(in_flight)))
    cpu, start = time.process_time(), time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for _ in range(in_flight):
            group.create_task(worker())
    taken = time.perf_counter() - start
    cpu = time.process_time() - cpu
    await client.aclose()
    return Report(commands / taken, cpu, commands)


def run(arm: str, params: Params) -> Report:
    in_flight, commands = params.number("in_flight", 100), params.number("commands", 20_000)
    commands = max(in_flight, commands // params.number("part", 1))
    params.finish()
    loop = loops.make(arm)
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "redis.sock")
        server = subprocess.Popen(
            ("redis-server", "--port", "0", "--unixsocket", str(path), "--save", ""),
            cwd=directory,
            stdout=subprocess.DEVNULL,
        )
        try:
            return loop.run_until_complete(_measure(path, in_flight, commands))
        finally:
            server.kill()
            server.wait()
            loop.close()
