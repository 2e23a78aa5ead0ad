"""Child processes: `true` started and waited for, and `cat` fed and read through pipes."""

from __future__ import annotations

import asyncio
import shutil
from asyncio.subprocess import PIPE

from pyloop.params import Params
from pyloop.report import MILLIS, Report, check, rate

SPAWNS = 4
TEXT = b"what goes in comes out\n" * 40


def _program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise SystemExit(f"{name} is not there")
    return found


async def spawn() -> int:
    program = _program("true")
    for _ in range(SPAWNS):
        child = await asyncio.create_subprocess_exec(program)
        check(await child.wait() == 0, "true said false")
    return SPAWNS


async def pipes() -> int:
    program = _program("cat")
    for _ in range(SPAWNS):
        child = await asyncio.create_subprocess_exec(program, stdin=PIPE, stdout=PIPE)
        out, _ = await child.communicate(TEXT)
        check(out == TEXT and child.returncode == 0, "cat changed its input")
    return SPAWNS


def run(loop: asyncio.AbstractEventLoop, params: Params) -> Report:
    row, millis = params.text("row"), params.number("millis", MILLIS)
    params.finish()
    asyncio.set_event_loop(loop)
    return loop.run_until_complete(rate({"spawn": spawn, "pipes": pipes}[row], millis))
