"""Owns the rare paths of native handles: what is said about them, and debug mode. The native module calls."""

import sys
from asyncio import base_events, format_helpers
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from traceback import StackSummary

    from ._loop import ErlangEventLoop

# Private parts of asyncio, for which there are no types.
_base: Any = base_events

# Since 3.13 a callback is described without its arguments unless debug mode is on.
_HAS_DEBUG = sys.version_info >= (3, 13)


def _describe(handle: Any) -> str:
    source: Any = format_helpers._format_callback_source
    if _HAS_DEBUG:
        return str(source(handle._callback, handle._args, debug=handle._loop.get_debug()))
    return str(source(handle._callback, handle._args))


def report(handle: Any, exception: BaseException) -> None:
    """Tells the loop's exception handler that a callback raised."""
    context = {
        "message": f"Exception in callback {_describe(handle)}",
        "exception": exception,
        "handle": handle,
    }
    if handle._source_traceback:
        context["source_traceback"] = handle._source_traceback
    handle._loop.call_exception_handler(context)


def report_native(target: Any, exception: BaseException) -> None:
    """Tells the loop's exception handler that a native object raised: a transport, a server."""
    target._loop.call_exception_handler(
        {
            "message": f"Exception in {target!r}",
            "exception": exception,
        }
    )


def run_in_debug(loop: "ErlangEventLoop", handle: Any) -> None:
    """Runs a handle the way debug mode does: known as the current one, and named if it is slow."""
    if handle._cancelled:
        return
    try:
        loop._current_handle = handle
        start = loop.time()
        handle._run()
        took = loop.time() - start
        if took >= loop.slow_callback_duration:
            name = _base._format_handle(handle)
            _base.logger.warning("Executing %s took %.3f seconds", name, took)
    finally:
        loop._current_handle = None


def stack() -> "StackSummary":
    """The stack of whoever called the native method that calls this."""
    return format_helpers.extract_stack(sys._getframe(1))
