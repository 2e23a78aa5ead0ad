"""How late `sleep(1 ms)` wakes an idle loop: the time beyond the millisecond, and how often too early."""

from __future__ import annotations

import asyncio
import time

from pyloop.params import Params
from pyloop.report import Report, percentile

DELAY = 0.001


async def sleeps(count: int) -> Report:
    late: list[float] = []
    cpu = time.process_time()
    for _ in range(count):
        start = time.perf_counter()
        await asyncio.sleep(DELAY)
        late.append((time.perf_counter() - start - DELAY) * 1e6)
    cpu = time.process_time() - cpu
    early = 100 * sum(1 for one in late if one < 0) / count
    return Report(
        value=percentile(late, 50),
        cpu_seconds=cpu,
        operations=count,
        also={"p99": percentile(late, 99), "early_percent": early},
    )


def run(loop: asyncio.AbstractEventLoop, params: Params) -> Report:
    count = params.number("sleeps", 250)
    params.finish()
    loop.run_until_complete(sleeps(5))
    return loop.run_until_complete(sleeps(count))
