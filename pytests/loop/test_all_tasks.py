"""A set of weak references with native ways in and out is the set it was; asyncio's set of tasks is one."""

import asyncio
import gc
import sys
from asyncio import tasks
from typing import Any
from weakref import WeakSet

import pytest
from erlang import _tasks, new_event_loop
from erlang._native import Roster

with_parts = pytest.mark.skipif(
    sys.version_info >= (3, 14), reason="a WeakSet of other parts, which tasks do not use"
)


class Thing:
    """Something that can be referred to weakly."""


def quick() -> "WeakSet[Any]":
    known: WeakSet[Any] = WeakSet()
    assert _tasks.quicken(known)
    return known


@with_parts
def test_what_is_added_is_in_it_as_long_as_it_lives() -> None:
    known, thing, other = quick(), Thing(), Thing()
    known.add(thing)
    known.add(thing)
    known.add(other)
    assert thing in known
    assert len(known) == 2
    assert set(known) == {thing, other}
    del other
    assert len(known) == 1
    known.discard(thing)
    assert len(known) == 0
    del thing  # what left before is not missed


@with_parts
def test_nothing_leaves_while_somebody_iterates() -> None:
    known = quick()
    things = [Thing() for _ in range(10)]
    for thing in things:
        known.add(thing)
    del thing
    seen = 0
    for _ in known:
        things.clear()
        seen += 1
        del _
    assert seen == 1  # the others were gone when it was their turn
    assert len(known) == 0
    assert not vars(known)["data"]


@with_parts
def test_one_that_cannot_be_referred_to_is_refused_as_before() -> None:
    with pytest.raises(TypeError) as plain:
        WeakSet[Any]().add(7)
    with pytest.raises(TypeError) as ours:
        quick().add(7)
    assert str(ours.value) == str(plain.value)


def test_other_sets_are_left_alone() -> None:
    class Mine(WeakSet[Any]):
        pass

    assert not _tasks.quicken(Mine())
    assert not _tasks.quicken(set())
    assert not _tasks.quicken(None)
    of_other_parts: WeakSet[Any] = WeakSet()
    vars(of_other_parts).pop("_iterating", None)
    assert not _tasks.quicken(of_other_parts)
    assert "add" not in vars(of_other_parts)


@with_parts
def test_it_is_not_done_twice() -> None:
    known, thing = quick(), Thing()
    known.add(thing)
    add = vars(known)["add"]
    assert _tasks.quicken(known)
    assert vars(known)["add"] is add
    assert thing in known


def rosters() -> int:
    gc.collect()
    return sum(type(each) is Roster for each in gc.get_objects())


@with_parts
def test_the_set_and_its_inside_can_be_collected() -> None:
    before = rosters()
    known, thing = quick(), Thing()
    known.add(thing)
    assert rosters() == before + 1
    del known
    assert rosters() == before


@with_parts
def test_tasks_enter_and_leave_it_natively() -> None:
    known = tasks._all_tasks if sys.version_info < (3, 12) else tasks._scheduled_tasks  # type: ignore[attr-defined]
    assert isinstance(vars(known)["add"].__self__, Roster)

    async def main() -> int:
        others = [asyncio.create_task(asyncio.sleep(60)) for _ in range(100)]
        await asyncio.sleep(0)
        alive = asyncio.all_tasks()
        assert alive == {*others, asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        del others, task
        alive.clear()
        return len(asyncio.all_tasks())

    for factory in (asyncio.SelectorEventLoop, new_event_loop):
        with asyncio.Runner(loop_factory=factory) as runner:
            assert runner.run(main()) == 1
    gc.collect()
    assert not [task for task in known if not task.done()]
