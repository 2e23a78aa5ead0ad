"""Owns the event loop policy, for programs from before `asyncio.Runner`. Deprecated by Python since 3.12.

Imported when first asked for, as newer Pythons warn about policies, and one day have none.
"""

import asyncio
import sys
import warnings
from asyncio import unix_events
from typing import TYPE_CHECKING, Any

from ._loop import ErlangEventLoop

_GONE = (
    "this Python has no event loop policies any more: use erlang.run() or asyncio.Runner(loop_factory=...)"
)

if TYPE_CHECKING:
    _Base = asyncio.DefaultEventLoopPolicy
else:
    # Under its second name from 3.14 on, as the public one warns.
    _Base = getattr(unix_events, "_DefaultEventLoopPolicy", None) or getattr(
        unix_events, "DefaultEventLoopPolicy", None
    )

if _Base is not None:

    class EventLoopPolicy(_Base):
        """asyncio's default policy, with an `ErlangEventLoop` for every new loop."""

        _loop_factory = ErlangEventLoop


def get_event_loop_policy() -> "EventLoopPolicy":
    """A policy to hand to `asyncio.set_event_loop_policy`."""
    if _Base is None:
        raise RuntimeError(_GONE)
    return EventLoopPolicy()


def install() -> None:
    """Makes `asyncio.run` and `asyncio.new_event_loop` use the `ErlangEventLoop`."""
    policy = get_event_loop_policy()
    if sys.version_info >= (3, 12):
        warnings.warn(
            "erlang.install() is deprecated, as event loop policies are: use erlang.run() instead",
            DeprecationWarning,
            stacklevel=2,
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        asyncio.set_event_loop_policy(policy)


def current_event_loop() -> Any:
    """The loop that was set for this thread, or None. Never makes one, as asyncio's own function might."""
    get = getattr(asyncio.events, "_get_event_loop_policy", None) or asyncio.get_event_loop_policy
    return getattr(getattr(get(), "_local", None), "_loop", None)
