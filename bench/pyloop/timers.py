"""Timers: fired, cancelled all at once, cancelled one by one, and below `asyncio.timeout`."""

from __future__ import annotations

import asyncio
import dataclasses
import time

from pyloop.params import Params
from pyloop.report import MILLIS, Batch, Report, check, rate

TIMERS = 5_000
PAIRS = 1_000


class Fire:
    """`TIMERS` timers due 1 to 5 ms later, in a fixed order that is not theirs; until the last has fired."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._delays = [0.001 + (index * 7919 % TIMERS) / TIMERS * 0.004 for index in range(TIMERS)]
        self.early = 0
        self.fired = 0

    async def batch(self) -> int:
        done = self._loop.create_future()
        left = TIMERS
        now = time.monotonic

        def fire(due: float) -> None:
            nonlocal left
            if now() < due:
                self.early += 1
            left -= 1
            if not left:
                done.set_result(None)

        call_later = self._loop.call_later
        for delay in self._delays:
            call_later(delay, fire, now() + delay)
        await done
        self.fired += TIMERS
        return TIMERS


def _never() -> None:
    raise SystemExit("wrong result: a cancelled timer fired")


def _cancel(loop: asyncio.AbstractEventLoop) -> Batch:
    async def once() -> int:
        handles = [loop.call_later(1 + index % 60, _never) for index in range(TIMERS)]
        for handle in handles:
            handle.cancel()
        await asyncio.sleep(0)
        return TIMERS

    return once


def _pair(loop: asyncio.AbstractEventLoop) -> Batch:
    async def once() -> int:
        for _ in range(PAIRS):
            loop.call_later(60, _never).cancel()
        await asyncio.sleep(0)
        return PAIRS

    return once


async def _timeout() -> int:
    for _ in range(PAIRS):
        async with asyncio.timeout(60):
            await asyncio.sleep(0)
    return PAIRS


def run(loop: asyncio.AbstractEventLoop, params: Params) -> Report:
    row, millis = params.text("row"), params.number("millis", MILLIS)
    params.finish()
    if row == "fire":
        fire = Fire(loop)
        report = loop.run_until_complete(rate(fire.batch, millis))
        check(fire.fired > 0, "no timer fired")
        return dataclasses.replace(report, also={"early_percent": 100 * fire.early / fire.fired})
    batches: dict[str, Batch] = {"cancel": _cancel(loop), "pair": _pair(loop), "timeout": _timeout}
    return loop.run_until_complete(rate(batches[row], millis))
