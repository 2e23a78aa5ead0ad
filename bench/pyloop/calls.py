"""`call_soon`: a thousand callbacks in one turn, and a chain in which each callback schedules the next."""

from __future__ import annotations

import asyncio

from pyloop.params import Params
from pyloop.report import MILLIS, Batch, Report, check, rate

BATCH = 1_000
CHAIN = 2_000


def _batch(loop: asyncio.AbstractEventLoop) -> Batch:
    seen = 0

    def tick(step: int) -> None:
        nonlocal seen
        seen += step

    async def once() -> int:
        nonlocal seen
        seen = 0
        done = loop.create_future()
        for _ in range(BATCH):
            loop.call_soon(tick, 1)
        loop.call_soon(done.set_result, None)
        await done
        check(seen == BATCH, f"{seen} callbacks ran, not {BATCH}")
        return BATCH

    return once


def _chain(loop: asyncio.AbstractEventLoop) -> Batch:
    async def once() -> int:
        done = loop.create_future()

        def link(left: int) -> None:
            if left:
                loop.call_soon(link, left - 1)
            else:
                done.set_result(None)

        loop.call_soon(link, CHAIN)
        await done
        return CHAIN

    return once


def run(loop: asyncio.AbstractEventLoop, params: Params) -> Report:
    row, millis = params.text("row"), params.number("millis", MILLIS)
    params.finish()
    batch = {"batch": _batch, "chain": _chain}[row](loop)
    return loop.run_until_complete(rate(batch, millis))
