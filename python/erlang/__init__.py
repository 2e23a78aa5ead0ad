"""An asyncio event loop in Rust, for Python alone and inside the Erlang VM."""

from ._loop import ErlangEventLoop


def new_event_loop() -> ErlangEventLoop:
    """A new event loop; not set as the current one."""
    return ErlangEventLoop()


__all__ = ["ErlangEventLoop", "new_event_loop"]
