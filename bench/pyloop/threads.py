"""`call_soon_threadsafe`: a flood from another thread, and two loops in two threads answering each other."""

from __future__ import annotations

import asyncio
import threading

from pyloop import loops
from pyloop.params import Params
from pyloop.report import MILLIS, Batch, Report, check, rate

POSTS = 5_000
TRIPS = 300


def _flood(loop: asyncio.AbstractEventLoop) -> Batch:
    async def once() -> int:
        done = loop.create_future()
        seen = 0

        def tick(index: int) -> None:
            nonlocal seen
            check(index == seen, "callbacks ran out of order")
            seen += 1
            if seen == POSTS:
                done.set_result(None)

        def post() -> None:
            for index in range(POSTS):
                loop.call_soon_threadsafe(tick, index)

        poster = threading.Thread(target=post)
        poster.start()
        await done
        poster.join()
        return POSTS

    return once


def _ping_pong(loop: asyncio.AbstractEventLoop, other: asyncio.AbstractEventLoop) -> Batch:
    async def once() -> int:
        done = loop.create_future()

        def ping(left: int) -> None:
            if left:
                other.call_soon_threadsafe(pong, left)
            else:
                done.set_result(None)

        def pong(left: int) -> None:
            loop.call_soon_threadsafe(ping, left - 1)

        ping(TRIPS)
        await done
        return TRIPS

    return once


def run(loop: asyncio.AbstractEventLoop, params: Params) -> Report:
    row, millis = params.text("row"), params.number("millis", MILLIS)
    params.finish()
    if row == "flood":
        return loop.run_until_complete(rate(_flood(loop), millis))
    check(row == "pingpong", f"no such row: {row}")
    other = loops.like(loop)
    thread = threading.Thread(target=other.run_forever)
    thread.start()
    try:
        return loop.run_until_complete(rate(_ping_pong(loop, other), millis))
    finally:
        other.call_soon_threadsafe(other.stop)
        thread.join()
        other.close()
