"""Owns the names of `erlang` that need the Erlang VM, where there is none: they can be imported, so that a
module may be tested on its own, and say what they lack when used.
"""

from typing import Any, NoReturn

_FUNCTIONS = (
    "async_call",
    "atom",
    "call",
    "consume_time_slice",
    "reply",
    "schedule",
    "schedule_inline",
    "schedule_py",
    "send",
    "setup_logging",
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
    "whereis",
)
_TYPES = ("Atom", "Pid", "Ref", "ScheduleMarker")

NAMES = frozenset((*_FUNCTIONS, *_TYPES))
__all__ = [*_FUNCTIONS, *_TYPES]


def _refuse(name: str) -> NoReturn:
    raise RuntimeError(
        f"erlang.{name} needs the Erlang VM, and this Python runs without it: call this code from Erlang, as "
        "with py:call/3"
    )


def _function(name: str) -> Any:
    def function(*args: Any, **kwargs: Any) -> NoReturn:
        _refuse(name)

    function.__name__ = function.__qualname__ = name
    function.__module__ = "erlang"
    function.__doc__ = "Needs the Erlang VM."
    return function


def _type(name: str) -> Any:
    """A class, for `isinstance` and annotations: nothing is one of these here."""

    def new(cls: type, *args: Any, **kwargs: Any) -> NoReturn:
        _refuse(name)

    return type(name, (), {"__new__": new, "__module__": "erlang", "__doc__": "Comes from the Erlang VM."})


_made: dict[str, Any] = {
    **{name: _function(name) for name in _FUNCTIONS},
    **{name: _type(name) for name in _TYPES},
}


def __getattr__(name: str) -> Any:
    try:
        return _made[name]
    except KeyError:
        raise AttributeError(f"module 'erlang' has no attribute {name!r}") from None
