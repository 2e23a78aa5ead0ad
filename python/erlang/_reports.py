"""Owns the rare paths of native transports: what is reported and what is logged."""

import errno
from asyncio import BaseTransport
from asyncio.log import logger
from typing import Any


def report_fatal(transport: Any, exception: BaseException, message: str) -> None:
    """An error that ends the connection. The network's own are of interest in debug mode only."""
    if isinstance(exception, OSError):
        if transport._loop.get_debug():
            logger.debug("%r: %s", transport, message, exc_info=exception)
    else:
        report(transport, exception, message)


def report_fatal_read(transport: Any, exception: BaseException, message: str) -> None:
    """An error that ends reading from a pipe. A terminal that went away is of interest in debug mode only."""
    if isinstance(exception, OSError) and exception.errno == errno.EIO:
        report_fatal(transport, exception, message)
    else:
        report(transport, exception, message)


def report(transport: Any, exception: BaseException, message: str) -> None:
    """Tells the loop's exception handler."""
    transport._loop.call_exception_handler(
        {
            "message": message,
            "exception": exception,
            "transport": transport,
            "protocol": transport._protocol,
        }
    )


def debug(text: str, transport: BaseTransport) -> None:
    """A line in asyncio's log."""
    logger.debug(text, transport)


def note(text: str, transport: BaseTransport) -> None:
    """A line in asyncio's log that is worth more than one for debugging."""
    logger.info(text, transport)


def lost_write(text: str) -> None:
    """One write too many to a connection that is gone."""
    logger.warning(text)


def slow(loop: Any, transport: BaseTransport, took: float) -> None:
    """Debug mode names those who keep the loop busy for too long."""
    if took >= loop.slow_callback_duration:
        logger.warning("Executing %r took %.3f seconds", transport, took)


def accepted(server: Any, address: Any, connection: Any) -> None:
    """A line in asyncio's log."""
    logger.debug("%r got a new connection from %r: %r", server, address, connection)


def not_accepted(loop: Any, exception: BaseException, protocol: Any, transport: Any = None) -> None:
    """A protocol factory or a transport failed. asyncio says so in debug mode only."""
    if loop.get_debug():
        context = {
            "message": "Error on transport creation for incoming connection",
            "exception": exception,
        }
        if protocol is not None:
            context["protocol"] = protocol
        if transport is not None:
            context["transport"] = transport
        loop.call_exception_handler(context)
