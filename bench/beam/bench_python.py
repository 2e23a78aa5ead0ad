"""What the measurements run in Python: counted casts, callbacks, chains of steps, calls that block."""

import time
from typing import Any

_total = 0


def add(number: int) -> None:
    global _total
    _total += number


def total() -> int:
    return _total


def callbacks(count: int) -> int:
    """Calls Erlang as often, and says how many answers were right."""
    import erlang

    return sum(erlang.call("bench_same", number) == number for number in range(count))


def chain(how: str, left: int) -> Any:
    """Takes `left` steps, each a call of its own."""
    import erlang

    if left == 0:
        return "done"
    return getattr(erlang, how)("bench_python", "chain", [how, left - 1])


def block(seconds: float) -> None:
    time.sleep(seconds)
