"""`run_in_executor`: round trips to the default executor, one after another and a hundred at a time."""

from __future__ import annotations

import asyncio

from pyloop.params import Params
from pyloop.report import MILLIS, Batch, Report, check, rate

TRIPS = 100


def _double(value: int) -> int:
    return value * 2


def _one_by_one(loop: asyncio.AbstractEventLoop) -> Batch:
    async def once() -> int:
        for index in range(TRIPS):
            check(await loop.run_in_executor(None, _double, index) == index * 2, "another result came back")
        return TRIPS

    return once


def _at_once(loop: asyncio.AbstractEventLoop) -> Batch:
    async def once() -> int:
        trips = (loop.run_in_executor(None, _double, index) for index in range(TRIPS))
        results = await asyncio.gather(*trips)
        check(results == [index * 2 for index in range(TRIPS)], "other results came back")
        return TRIPS

    return once


async def _measure(loop: asyncio.AbstractEventLoop, batch: Batch, millis: int) -> Report:
    report = await rate(batch, millis)
    await loop.shutdown_default_executor()
    return report


def run(loop: asyncio.AbstractEventLoop, params: Params) -> Report:
    row, millis = params.text("row"), params.number("millis", MILLIS)
    params.finish()
    batch = {"trip": _one_by_one, "many": _at_once}[row](loop)
    return loop.run_until_complete(_measure(loop, batch, millis))
