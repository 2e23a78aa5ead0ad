"""What a call through pyrt costs, next to C code of the standard library doing the like.

Run by `BENCH=1 tools/probe_ext.sh PYTHON`.
"""

import functools
import itertools
import operator
import sys
import time
from collections import deque

import probe

COUNT = 1_000_000


def best(work, count=COUNT):
    """Nanoseconds per item, the best of seven runs."""
    times = []
    for _ in range(7):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times) / count * 1e9


def loop(function, *args):
    """Calls a function from a C loop, so that the interpreter adds nothing."""

    def work():
        deque(itertools.starmap(function, itertools.repeat(args, COUNT)), maxlen=0)

    return best(work)


def python_function(x):
    return x


def main():
    counter, adder, values = probe.Counter(), probe.Adder(10), [0]
    iterator = itertools.count()
    partial = functools.partial(operator.add, 10)
    rows = [
        (
            "method without arguments",
            loop(counter.increment),
            "itertools.count.__next__",
            loop(iterator.__next__),
        ),
        (
            "method, one keyword",
            loop(functools.partial(counter.add, amount=1)),
            "int.from_bytes by partial",
            loop(functools.partial(int.from_bytes, b"a", byteorder="big")),
        ),
        (
            "method, two positional",
            loop(counter.add, 1, 1),
            "list.__setitem__",
            loop(values.__setitem__, 0, 1),
        ),
        ("call of an instance", loop(adder, 5), "functools.partial(add, 10)", loop(partial, 5)),
        (
            "make and drop, tracked, from Rust",
            best(lambda: probe.create_many(True, COUNT)),
            "object()",
            loop(object),
        ),
        ("make and drop, untracked, from Rust", best(lambda: probe.create_many(False, COUNT)), "", None),
        (
            "make and drop, from Python",
            loop(probe.Link, None),
            "itertools.repeat(None)",
            loop(itertools.repeat, None),
        ),
        (
            "call a Python function from Rust",
            best(lambda: probe.call_many(python_function, 1, COUNT)),
            "map() over it",
            best(lambda: deque(map(python_function, itertools.repeat(1, COUNT)), maxlen=0)),
        ),
        (
            "call a C function from Rust",
            best(lambda: probe.call_many(abs, 1, COUNT)),
            "map() over it",
            best(lambda: deque(map(abs, itertools.repeat(1, COUNT)), maxlen=0)),
        ),
        (
            "call a method by name from Rust",
            best(lambda: probe.method_many(counter, COUNT)),
            "operator.methodcaller",
            loop(operator.methodcaller("increment"), counter),
        ),
    ]
    print(sys.version.split()[0], "ns per call, best of 7")
    for name, ours, peer, theirs in rows:
        print(f"  {name:38} {ours:7.1f}   {peer:28} " + ("" if theirs is None else f"{theirs:7.1f}"))


main()
