"""Owns the shared state, `erlang.state_*`: values that Erlang keeps, for itself and for every context.

What is kept is what Erlang makes of a value, so a tuple comes back as a tuple, and an object that has no
counterpart there is refused.
"""

from typing import Any

from ._bridge import call

__all__ = [
    "state_clear",
    "state_decr",
    "state_delete",
    "state_fetch",
    "state_get",
    "state_incr",
    "state_keys",
    "state_remove",
    "state_set",
    "state_store",
]


def state_set(key: Any, value: Any) -> None:
    """Keeps a value under a key, for Erlang and for Python everywhere in this VM."""
    _raise_if_refused(call("py.state.store", key, value))


def state_get(key: Any, default: Any = None) -> Any:
    """The value of a key, or `default` if there is none."""
    outcome, value = call("py.state.fetch", key)
    return value if outcome == "ok" else default


def state_delete(key: Any) -> None:
    """Forgets a key, if it is there."""
    call("py.state.remove", key)


def state_keys() -> list[Any]:
    """All keys, in no order."""
    keys: list[Any] = call("py.state.keys")
    return keys


def state_clear() -> None:
    """Forgets everything."""
    call("py.state.clear")


def state_incr(key: Any, amount: int = 1) -> int:
    """Adds to a counter, which begins at 0, in one step: its new value."""
    if not isinstance(amount, int):
        raise TypeError(f"a counter counts in integers, not {amount!r}")
    value: int = _raise_if_refused(call("py.state.incr", key, amount))
    return value


def state_decr(key: Any, amount: int = 1) -> int:
    """Subtracts from a counter likewise."""
    if not isinstance(amount, int):
        raise TypeError(f"a counter counts in integers, not {amount!r}")
    return state_incr(key, -amount)


def _raise_if_refused(answer: Any) -> Any:
    if answer == "ok":
        return None
    outcome, value = answer
    if outcome == "ok":
        return value
    what, detail = value
    if what == "state_full":
        raise RuntimeError(f"the shared state has {detail} keys, which is its limit (state_limit)")
    raise TypeError(f"the value of {detail!r} is not an integer")


# The names that Erlang has for the same.
state_store = state_set
state_fetch = state_get
state_remove = state_delete
