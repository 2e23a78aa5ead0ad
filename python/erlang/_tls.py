"""Owns the rare paths of TLS: what is said about connections, how they fail. Called by the native module."""

from asyncio import CancelledError
from asyncio.log import logger
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from ._native import SSLProtocol

# When handshakes began, in debug mode.
_started: "WeakKeyDictionary[SSLProtocol, float]" = WeakKeyDictionary()


def report(protocol: "SSLProtocol", transport: Any, exception: BaseException, message: str) -> None:
    """Says why a connection was closed: quietly if the network is to blame."""
    loop = protocol._loop
    if isinstance(exception, OSError):
        if loop.get_debug():
            logger.debug("%r: %s", protocol, message, exc_info=exception)
    elif not isinstance(exception, CancelledError):
        loop.call_exception_handler(
            {"message": message, "exception": exception, "transport": transport, "protocol": protocol}
        )


def flow_failed(protocol: "SSLProtocol", exception: BaseException, message: str) -> None:
    """Tells the loop that a protocol does not know how to pause or resume."""
    protocol._loop.call_exception_handler(
        {
            "message": message,
            "exception": exception,
            "transport": protocol._app_transport,
            "protocol": protocol,
        }
    )


def closed_write() -> None:
    """Somebody goes on writing to a connection that is closed."""
    logger.warning("SSL connection is closed")


def eof_ignored() -> None:
    """A protocol wants to go on writing after EOF."""
    logger.warning("returning true from eof_received() has no effect when using ssl")


def handshake_starts(protocol: "SSLProtocol") -> None:
    logger.debug("%r starts SSL handshake", protocol)
    _started[protocol] = protocol._loop.time()


def handshake_took(protocol: "SSLProtocol") -> None:
    now = protocol._loop.time()
    took = now - _started.pop(protocol, now)
    logger.debug("%r: SSL handshake took %.1f ms", protocol, took * 1e3)


def eof_seen(protocol: "SSLProtocol") -> None:
    logger.debug("%r received EOF", protocol)


def is_data(data: object) -> None:
    """Refuses what cannot be written."""
    if not isinstance(data, bytes | bytearray | memoryview):
        raise TypeError(f"data: expecting a bytes-like instance, got {type(data).__name__}")


def timed_out() -> TimeoutError:
    return TimeoutError("SSL shutdown timed out")
