"""A loop with nothing to do: the memory of a thousand idle connections, and wake-ups while it sleeps."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import resource
import time
from collections.abc import AsyncIterator
from pathlib import Path

from pyloop import client, servers
from pyloop.params import Params
from pyloop.report import Report, check

SECONDS = 1


def resident_kib() -> int:
    """Memory that is the process's own, counted page by page: /proc/self/statm is behind by dozens."""
    lines = Path("/proc/self/smaps_rollup").read_text(encoding="ascii").splitlines()
    (anonymous,) = (line for line in lines if line.startswith("Anonymous:"))
    return int(anonymous.split()[1])


@contextlib.asynccontextmanager
async def _held(address: str, conns: int) -> AsyncIterator[None]:
    """So many connections, each of which has echoed one byte."""
    loop = asyncio.get_running_loop()
    holder = client.hold(at=address, conns=conns)
    assert holder.stdout is not None and holder.stdin is not None
    line = await loop.run_in_executor(None, holder.stdout.readline)
    check(f'"held":{conns}' in line, "the client did not get its connections")
    yield
    holder.stdin.close()
    await loop.run_in_executor(None, holder.wait)
    holder.stdout.close()


async def memory(conns: int) -> Report:
    """KiB of resident memory a connection. What the kernel holds is not in it.

    As many are there before the counting starts: they use up what the allocators have left over from the
    start. Allocators take memory by the megabyte, so it is thousands of connections that are counted.
    """
    async with servers.protocol(Path()) as address, _held(address, conns):
        gc.collect()
        before, cpu = resident_kib(), time.process_time()
        async with _held(address, conns):
            gc.collect()
            kib = (resident_kib() - before) / conns
            cpu = time.process_time() - cpu
    await asyncio.sleep(0.05)
    return Report(value=kib, cpu_seconds=cpu, operations=conns)


async def wakeups() -> Report:
    """With a server and a far timer in place: how often a thread of the process gave up its core to wait."""
    loop = asyncio.get_running_loop()
    far = loop.call_later(3600, print)
    async with servers.protocol(Path()):
        await asyncio.sleep(0.05)
        before, cpu = resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw, time.process_time()
        await asyncio.sleep(SECONDS)
        count = resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw - before
        cpu = time.process_time() - cpu
    far.cancel()
    return Report(value=count / SECONDS, cpu_seconds=cpu, operations=max(count, 1))


def run(loop: asyncio.AbstractEventLoop, params: Params) -> Report:
    row = params.text("row")
    if row == "wakeups":
        params.finish()
        return loop.run_until_complete(wakeups())
    check(row == "memory", f"no such row: {row}")
    conns = params.number("conns", 4000)
    params.finish()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < 3 * conns:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 3 * conns), hard))
    return loop.run_until_complete(memory(conns))
