"""Owns loops whose time() is a user's: set on the loop or defined by its class. Timers follow it, wherever it
jumps.
"""

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import pytest
from peers import Loop


class Clock:
    """Shows what it is told to."""

    def __init__(self, shown: float) -> None:
        self.shown = shown

    def __call__(self) -> float:
        return self.shown


@pytest.fixture
def clock() -> Clock:
    return Clock(100.0)


@pytest.fixture(params=["attribute", "class"])
def told(request: pytest.FixtureRequest, loop: Loop, clock: Clock) -> Iterator[Any]:
    """A loop that goes by the clock, in either way to say so."""
    if request.param == "attribute":
        setattr(loop, "time", clock)  # noqa: B010
        yield loop
        return
    kind: Any = type(loop)

    class Told(kind):  # type: ignore[misc]
        def time(self) -> float:
            return clock()

    made = Told()
    made.set_debug(loop.get_debug())
    yield made
    made.close()


def turn(loop: Any) -> None:
    loop.call_soon(loop.stop)
    loop.run_forever()


def test_a_jump_forward_fires_in_the_next_turn_what_is_due_by_then(told: Any, clock: Clock) -> None:
    fired: list[str] = []
    late = told.call_later(3600, fired.append, "late")
    early = told.call_at(110, fired.append, "early")
    assert (told.time(), late.when(), early.when()) == (100, 3700, 110)
    turn(told)
    clock.shown = 109.999
    turn(told)
    assert fired == []
    clock.shown = 110
    turn(told)
    assert fired == ["early"]
    clock.shown = 1e6
    told.call_later(-1, fired.append, "overdue")
    turn(told)
    assert fired == ["early", "late", "overdue"]


def test_after_a_jump_back_a_timer_waits_for_its_time_to_come_again(told: Any, clock: Clock) -> None:
    fired: list[str] = []
    told.call_later(10, fired.append, "timer")
    for clock.shown in (0.0, 109.0):
        turn(told)
        assert fired == []
    clock.shown = 110.0
    turn(told)
    assert fired == ["timer"]


@pytest.mark.parametrize("ahead", [1e6, -0.0, None])
def test_a_wait_is_as_long_as_the_clock_says(loop: Loop, ahead: float | None) -> None:
    start = time.monotonic()
    ahead = -start if ahead is None else ahead
    setattr(loop, "time", lambda: time.monotonic() + ahead)  # noqa: B010
    times: list[float] = []
    handle = loop.call_later(0.02, lambda: times.append(loop.time()))
    loop.call_later(0.03, loop.stop)
    loop.run_forever()
    assert times[0] >= handle.when()
    assert time.monotonic() - start >= 0.03


def test_sleeps_and_timeouts_go_by_the_clock(told: Any, clock: Clock) -> None:
    async def main() -> str:
        try:
            async with asyncio.timeout(60):
                await asyncio.sleep(3600)
        except TimeoutError:
            return "timeout"
        return "slept"

    task = told.create_task(main())
    turn(told)
    clock.shown += 59
    turn(told)
    assert not task.done()
    clock.shown += 1
    assert told.run_until_complete(task) == "timeout"


def test_timers_made_before_the_clock_was_replaced_follow_it_too(loop: Loop) -> None:
    fired: list[str] = []
    loop.call_later(3600, fired.append, "timer")
    loop.call_soon(setattr, loop, "time", Clock(loop.time() + 3600))
    turn(loop)
    assert fired == []
    turn(loop)
    assert fired == ["timer"]


def test_a_clock_that_is_removed_leaves_the_loops_own(loop: Any) -> None:
    fired: list[str] = []
    loop.time = Clock(1e9)
    handle = loop.call_later(10, fired.append, "far")
    loop.call_at(0, fired.append, "due")
    turn(loop)
    del loop.time
    turn(loop)
    assert fired == ["due"] and handle.when() == 1e9 + 10
    assert time.monotonic() <= loop.time() <= time.monotonic()
    before = loop.time()
    loop.call_later(0.001, loop.stop)
    loop.run_forever()
    assert loop.time() >= before + 0.001
    assert fired == ["due"]
    handle.cancel()
    with pytest.raises(AttributeError):
        del loop.time


def test_a_clock_that_raises_ends_the_run_and_calls(loop: Any) -> None:
    def broken() -> float:
        raise LookupError("no time")

    ran: list[str] = []
    loop.call_later(0, ran.append, "timer")
    loop.time = broken
    with pytest.raises(LookupError, match="no time"):
        loop.call_later(1, ran.append, "never")
    loop.call_soon(ran.append, "soon")
    with pytest.raises(LookupError, match="no time"):
        loop.run_forever()
    assert ran == [] and not loop.is_running()
    del loop.time
    turn(loop)
    assert sorted(ran) == ["soon", "timer"]


def test_a_class_may_ask_the_loops_own_clock(loop: Loop) -> None:
    kind: Any = type(loop)

    class Late(kind):  # type: ignore[misc]
        def time(self) -> float:
            return float(super().time()) - 1000

    made = Late()
    made.set_debug(loop.get_debug())
    made.call_later(0.001, made.stop)
    made.run_forever()
    assert made.time() <= time.monotonic() - 1000
    made.close()
