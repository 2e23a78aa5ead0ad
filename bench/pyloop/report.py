"""What a measurement says: one JSON line. And how batches are repeated until the clock says enough."""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

MILLIS = 300
"""The measured time of one process, unless `millis=` says otherwise."""


@dataclass(frozen=True)
class Report:
    """`cpu_seconds` is of the measured part and of the measured process alone, all its threads."""

    value: float
    cpu_seconds: float
    operations: float
    also: dict[str, float] = field(default_factory=dict)

    def json(self, topic: str, name: str) -> str:
        line: dict[str, float | str] = {
            "topic": topic,
            "impl": name,
            "value": self.value,
            "cpu_seconds": self.cpu_seconds,
            "cpu_us": self.cpu_seconds / self.operations * 1e6 if self.operations else 0.0,
        }
        return json.dumps({**line, **self.also})


Batch = Callable[[], Awaitable[int]]
"""Does some operations and says how many."""


SLICE = 0.02
"""Seconds. Who takes the core away for a while, as happens on a shared machine, spoils some slices only."""


async def rate(batch: Batch, millis: int) -> Report:
    """Operations a second of `batch`, which does and counts some: the median slice of the measured time.

    The first batch only warms up.
    """
    await batch()
    slices: list[Report] = []
    until = time.perf_counter() + millis / 1000
    while not slices or time.perf_counter() < until:
        done, cpu, start = 0, time.process_time(), time.perf_counter()
        now = start
        while now < start + SLICE:
            done += await batch()
            now = time.perf_counter()
        cpu = time.process_time() - cpu
        slices.append(Report(value=done / (now - start), cpu_seconds=cpu, operations=done))
    return sorted(slices, key=lambda report: report.value)[len(slices) // 2]


def percentile(samples: list[float], percent: int) -> float:
    """The nearest rank, `percent` in 1..100."""
    rank = -(-len(samples) * percent // 100)
    return sorted(samples)[max(rank, 1) - 1]


def check(holds: bool, what: str) -> None:
    """Ends the process where a result is wrong: there is nothing to measure then."""
    if not holds:
        raise SystemExit(f"wrong result: {what}")
