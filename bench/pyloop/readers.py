"""`add_reader`: added and removed, armed for one event at a time, and left in place while events come."""

from __future__ import annotations

import asyncio
import contextlib
import socket

from pyloop.params import Params
from pyloop.report import MILLIS, Batch, Report, check, rate

CHURN = 500
EVENTS = 1_000
PAIRS = 16


def _nothing() -> None:
    pass


def _churn(loop: asyncio.AbstractEventLoop, pairs: list[tuple[socket.socket, socket.socket]]) -> Batch:
    reader = pairs[0][0].fileno()

    async def once() -> int:
        for _ in range(CHURN):
            loop.add_reader(reader, _nothing)
            loop.remove_reader(reader)
        await asyncio.sleep(0)
        return CHURN

    return once


def _oneshot(loop: asyncio.AbstractEventLoop, pairs: list[tuple[socket.socket, socket.socket]]) -> Batch:
    """As libraries with a socket of their own do it: arm, wait, disarm, read."""
    ours, theirs = pairs[0]
    fd = ours.fileno()

    async def once() -> int:
        for _ in range(CHURN):
            ready = loop.create_future()
            loop.add_reader(fd, ready.set_result, None)
            theirs.send(b"x")
            await ready
            loop.remove_reader(fd)
            check(ours.recv(16) == b"x", "another byte was read")
        return CHURN

    return once


def _events(loop: asyncio.AbstractEventLoop, pairs: list[tuple[socket.socket, socket.socket]]) -> Batch:
    """Each pair throws one byte back and forth, both ends watched."""

    async def once() -> int:
        done = loop.create_future()
        left = EVENTS

        def bounce(end: socket.socket) -> None:
            nonlocal left
            byte = end.recv(16)
            left -= 1
            if left > 0:
                end.send(byte)
            elif left == 0:
                done.set_result(None)

        for pair in pairs:
            for end in pair:
                loop.add_reader(end.fileno(), bounce, end)
            pair[0].send(b"x")
        await done
        for pair in pairs:
            for end in pair:
                loop.remove_reader(end.fileno())
                with contextlib.suppress(BlockingIOError):
                    end.recv(16)
        return EVENTS

    return once


def run(loop: asyncio.AbstractEventLoop, params: Params) -> Report:
    row, millis = params.text("row"), params.number("millis", MILLIS)
    params.finish()
    pairs = [socket.socketpair() for _ in range(PAIRS)]
    for end in (end for pair in pairs for end in pair):
        end.setblocking(False)
    try:
        batch = {"churn": _churn, "oneshot": _oneshot, "events": _events}[row](loop, pairs)
        return loop.run_until_complete(rate(batch, millis))
    finally:
        for end in (end for pair in pairs for end in pair):
            end.close()
