"""Owns asyncio's set of all tasks: a task enters and leaves it without a Python frame.

Up to 3.13 it is a `WeakSet`, which every task enters when it begins and leaves when it is freed, on any loop.
It remains that set, with the same content, for whoever looks into it.

From 3.14 on each thread has a list of the tasks that began there, and of a loop that runs only the list of
its own thread is looked at. A loop that is run by several threads in turn has tasks in other lists, too.
"""

import asyncio
import functools
import sys
from asyncio import events, tasks
from typing import Any
from weakref import WeakSet

from ._native import Roster


def quicken(known: Any) -> bool:
    """Gives a plain `WeakSet` native ways in and out; whether it has them. All else is left alone."""
    if type(known) is not WeakSet:
        return False
    parts = vars(known)
    if not parts.keys() >= {"data", "_iterating", "_pending_removals", "_remove"}:
        return False
    if "add" not in parts:
        roster = Roster(parts["data"], parts["_iterating"], parts["_pending_removals"])
        parts["_remove"] = roster.forget
        parts["add"] = roster.add
    return True


def quicken_all() -> None:
    """Does so for the set of all tasks, by the name it has before 3.12 and since."""
    for name in ("_all_tasks", "_scheduled_tasks"):
        quicken(getattr(tasks, name, None))


@functools.cache
def look_everywhere() -> None:
    """Has `asyncio.all_tasks` look at the lists of all threads, as it does for a loop that does not run."""
    if sys.version_info < (3, 14):
        return
    all_tasks = tasks.all_tasks

    @functools.wraps(all_tasks)
    def everywhere(loop: Any = None) -> Any:
        running = events._get_running_loop()
        if running is None or loop not in (None, running):
            return all_tasks(loop)
        events._set_running_loop(None)
        try:
            return all_tasks(running)
        finally:
            events._set_running_loop(running)

    tasks.all_tasks = asyncio.all_tasks = everywhere
