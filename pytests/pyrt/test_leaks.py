"""Nothing grows: the same work repeated leaves the number of allocated blocks where it was."""

import contextlib
import gc
import sys

import probe
import pytest


class Sub(probe.Counter):
    pass


def failing_call():
    with contextlib.suppress(TypeError):
        probe.two(1, zzz=2)


def failing_errno():
    with contextlib.suppress(OSError):
        probe.os_error(2)


def cycle():
    counter = probe.Counter(0, listener=[])
    counter.listener.append(counter)
    counter.remember([counter])


def awaiting():
    soon = probe.Soon(object())
    next(soon)
    with contextlib.suppress(StopIteration):
        next(soon)


def channel():
    one = probe.Channel()
    one._extra = {"me": one}


COUNTER = probe.Counter(0, lambda counter: None)
WORK = {
    "increment": lambda: COUNTER.increment(),
    "add": lambda: COUNTER.add(amount=1, times=2),
    "tell": lambda: COUNTER.tell(),
    "make": lambda: probe.Counter(3, listener=None),
    "make_by_tuple": lambda: probe.Counter.__new__(probe.Counter, *(3,), listener=None),
    "attributes": lambda: setattr(probe.Counter(), "a", 1),
    "subclass": lambda: setattr(Sub(), "a", 1),
    "hidden": lambda: probe.hidden(4),
    "adder": lambda: probe.Adder(4)(number=3),
    "blob": lambda: memoryview(probe.Blob(b"abc", lambda blob: None)).tobytes(),
    "bytes": lambda: probe.read_bytes(1000, 10),
    "failing_call": failing_call,
    "failing_errno": failing_errno,
    "awaiting": awaiting,
    "cycle": cycle,
    "channel": channel,
    "context": lambda: probe.run_in_copy(lambda: 1),
    "collect": lambda: probe.collect(1, 2, 3, k=4),
}


@pytest.mark.parametrize("name", WORK)
def test_allocated_blocks_stay_flat(name) -> None:
    work = WORK[name]
    count = 5_000 if name in ("cycle", "channel") else 100_000

    def run(times):
        for _ in range(times):
            work()
        gc.collect()
        return sys.getallocatedblocks()

    run(1000)
    before = run(1000)
    after = run(count)
    assert after - before < 200, (before, after)


def test_types_keep_their_reference_count() -> None:
    def work():
        for _ in range(10_000):
            probe.Counter(), probe.Adder(1), probe.hidden(1), Sub(), probe.Link(None)

    kinds = (probe.Counter, probe.Adder, probe.Hidden, Sub, probe.Link, probe, None, True)
    work()
    gc.collect()
    before = [sys.getrefcount(kind) for kind in kinds]
    work()
    gc.collect()
    assert [sys.getrefcount(kind) for kind in kinds] == before
