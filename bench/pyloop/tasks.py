"""Tasks: switching between them, creating them, and ten thousand sleeps gathered."""

from __future__ import annotations

import asyncio

from pyloop.params import Params
from pyloop.report import MILLIS, Report, check, rate

SWITCHERS, SWITCHES = 10, 200
CREATED = 1_000
SLEEPS = 10_000


async def _switcher(times: int) -> int:
    for _ in range(times):
        await asyncio.sleep(0)
    return times


async def switch() -> int:
    counts = await asyncio.gather(*(_switcher(SWITCHES) for _ in range(SWITCHERS)))
    return sum(counts)


async def _answer(value: int) -> int:
    return value


async def create() -> int:
    loop = asyncio.get_running_loop()
    tasks = [loop.create_task(_answer(index)) for index in range(CREATED)]
    for index, task in enumerate(tasks):
        check(await task == index, "a task returned the result of another")
    return CREATED


async def sleeps() -> int:
    results = await asyncio.gather(*(asyncio.sleep(0.001, index) for index in range(SLEEPS)))
    check(results == list(range(SLEEPS)), "a sleep returned the result of another")
    return SLEEPS


def run(loop: asyncio.AbstractEventLoop, params: Params) -> Report:
    row, millis = params.text("row"), params.number("millis", MILLIS)
    params.finish()
    batch = {"switch": switch, "create": create, "sleeps": sleeps}[row]
    return loop.run_until_complete(rate(batch, millis))
