"""The first-generation name of the event loop; the same objects as in `erlang`."""

from erlang import ErlangEventLoop, get_event_loop_policy

__all__ = ["ErlangEventLoop", "get_event_loop_policy"]
