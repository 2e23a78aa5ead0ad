"""What the measurements run on loops inside the VM."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import struct
import time
from pathlib import Path
from typing import Any

from pyloop import client, lateness, servers, timers
from pyloop.report import Report, percentile, rate

_spawned = 0


async def same(value: float) -> float:
    """The smallest task."""
    return value


async def count() -> None:
    global _spawned
    _spawned += 1


async def counted() -> int:
    return _spawned


def block(function: str, args: list[Any]) -> Any:
    """The same inside of a call."""
    import erlang

    return erlang.run(globals()[function](*args))


def _numbers(report: Report) -> dict[str, float]:
    cpu_us = report.cpu_seconds / report.operations * 1e6 if report.operations else 0.0
    return {"value": report.value, "cpu_seconds": report.cpu_seconds, "cpu_us": cpu_us, **report.also}


async def fire(millis: int) -> dict[str, float]:
    """Timers until they have fired, as `pyloop.timers` counts them."""
    firing = timers.Fire(asyncio.get_running_loop())
    report = await rate(firing.batch, millis)
    return _numbers(dataclasses.replace(report, also={"early_percent": 100 * firing.early / firing.fired}))


async def late(sleeps: int) -> dict[str, float]:
    await lateness.sleeps(5)
    return _numbers(await lateness.sleeps(sleeps))


async def echo(listener: Any, load: dict[str, int]) -> None:
    """Serves until the process that listens has had its answer: it is sent the client's command line."""
    import erlang

    async with servers.protocol(Path()) as address:
        command = client.command("echo", {"net": "tcp", "at": address, "server": os.getpid(), **load})
        erlang.send(listener, ("client", command))
        await erlang.async_call("bench_over")


def echoed(said: str) -> dict[str, float]:
    """What the client says, as a measurement."""
    answer = json.loads(said)
    report = Report(
        value=answer["ops"] / answer["seconds"],
        cpu_seconds=answer["server_cpu"],
        operations=answer["ops"],
        also={"client_percent": 100 * answer["client_cpu"] / answer["seconds"]},
    )
    return _numbers(report)


async def wakeups(fd: int, number: int) -> dict[str, float]:
    """How old the times are that come in by a descriptor, one by one, when the loop sees them."""
    loop = asyncio.get_running_loop()
    late: list[float] = []
    over = loop.create_future()

    def seen() -> None:
        now = time.time_ns()
        late.append((now - struct.unpack("=q", os.read(fd, 8))[0]) / 1000)
        if len(late) == number:
            over.set_result(None)

    loop.add_reader(fd, seen)
    cpu = time.process_time()
    await over
    cpu = time.process_time() - cpu
    loop.remove_reader(fd)
    return _numbers(Report(percentile(late, 50), cpu, number, {"p99": percentile(late, 99)}))


async def age(stamp: int) -> float:
    """How long ago that was, in microseconds."""
    return (time.time_ns() - stamp) / 1000
