"""Owns the names of `erlang` that need the Erlang VM, where there is none: they can be imported, so that a
module may be tested on its own, and say what they lack when used.
"""

from typing import Any, NoReturn

_FUNCTIONS = (
    "async_call",
    "atom",
    "call",
    "consume_time_slice",
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
# For `isinstance`, `except` and annotations: nothing is one of these here.
_TYPES: dict[str, type] = {
    "Atom": object,
    "ErlangError": Exception,
    "ErlangHandler": object,
    "Interrupted": BaseException,
    "Pid": object,
    "Ref": object,
    "ScheduleMarker": object,
    "Term": object,
}

__all__ = [*_FUNCTIONS, *_TYPES]


def refuse(name: str) -> NoReturn:
    raise RuntimeError(
        f"erlang.{name} needs the Erlang VM, and this Python runs without it: call this code from Erlang, as "
        "with py:call/3"
    )


def _function(name: str) -> Any:
    def function(*args: Any, **kwargs: Any) -> NoReturn:
        refuse(name)

    function.__name__ = function.__qualname__ = name
    function.__module__ = "erlang"
    function.__doc__ = "Needs the Erlang VM."
    return function


def _type(name: str, base: type) -> Any:
    def new(cls: type, *args: Any, **kwargs: Any) -> NoReturn:
        refuse(name)

    body = {"__new__": new, "__module__": "erlang", "__doc__": "Comes from the Erlang VM."}
    return type(name, (base,), body)


_made: dict[str, Any] = {
    **{name: _function(name) for name in _FUNCTIONS},
    **{name: _type(name, base) for name, base in _TYPES.items()},
}


def __getattr__(name: str) -> Any:
    try:
        return _made[name]
    except KeyError:
        raise AttributeError(f"module 'erlang' has no attribute {name!r}") from None
