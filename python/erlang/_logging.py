"""Owns the way of Python's `logging` to Erlang's `logger`.

Without any set-up, warnings and worse go there, in place of `stderr`; so does what `logging.basicConfig` lets
through, unless it is told of another place. `setup_logging` sends what one logger lets through.
"""

import logging
from typing import Any

from ._bridge import log

__all__ = ["ErlangHandler", "setup_logging"]

# What every record has; the rest was given as `extra`.
_USUAL = {*vars(logging.makeLogRecord({})), "message", "asctime"}

_PLAIN = logging.Formatter("%(message)s")


class ErlangHandler(logging.Handler):
    """Hands events to Erlang, without waiting for it."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            # The text of an exception comes with the message, as Python's own handlers have it.
            text = (self.formatter or _PLAIN).format(record)
            log(record.levelno, text, self.metadata(record))
        except RecursionError:
            raise
        except Exception:
            self.handleError(record)

    def metadata(self, record: logging.LogRecord) -> dict[str, Any]:
        said: dict[str, Any] = {
            "file": _text(record.pathname),
            "line": record.lineno,
            "function": _text(record.funcName or ""),
            "time": int(record.created * 1_000_000),
            "logger": _text(record.name),
            "level": _text(record.levelname),
            "module": _text(record.module),
            "thread": _text(record.threadName or ""),
        }
        if record.exc_info and record.exc_info[0] is not None:
            kind, error, _ = record.exc_info
            said["exception"] = {
                "class": _text(kind.__name__),
                "text": _text(str(error)),
                "traceback": _text(record.exc_text or ""),
            }
        extra = {_text(key): _value(value) for key, value in vars(record).items() if key not in _USUAL}
        if extra:
            said["extra"] = extra
        return said


def _text(text: str) -> str:
    return text.encode(errors="backslashreplace").decode()


def _value(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float | bytes):
        return value
    return _text(value if isinstance(value, str) else repr(value))


def setup_logging(
    level: int | str = logging.INFO, format: str | None = None, logger: str | logging.Logger | None = None
) -> ErlangHandler:
    """Sends what a logger, the root or that of a name, lets through to Erlang. Twice is once."""
    target = logger if isinstance(logger, logging.Logger) else logging.getLogger(logger)
    handler = ErlangHandler()
    if format is not None:
        handler.setFormatter(logging.Formatter(format))
    target.setLevel(level)
    for old in [old for old in target.handlers if isinstance(old, ErlangHandler)]:
        target.removeHandler(old)
    target.addHandler(handler)
    return handler


_basic_config = logging.basicConfig


def basic_config(**options: Any) -> None:
    """`logging.basicConfig`, with Erlang in the place of `stderr`."""
    if not options.keys() & {"filename", "handlers", "stream"}:
        handler = ErlangHandler()
        if "format" not in options:
            handler.setFormatter(_PLAIN)
        options["handlers"] = [handler]
    _basic_config(**options)


def install() -> None:
    logging.basicConfig = basic_config
    logging.lastResort = ErlangHandler(logging.WARNING)
