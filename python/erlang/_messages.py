"""Owns the rules for what an ASGI app sends: the checks of its messages, and the order they may come in."""

from collections.abc import Iterable
from typing import Any

from ._apps import Message

Headers = list[tuple[bytes, bytes]]


class DisconnectedError(OSError):
    """The client is gone: what an app sends then goes nowhere (ASGI's HTTP and WebSocket spec 2.4)."""


def kind(message: Any) -> str:
    """The type of a message."""
    if not isinstance(message, dict):
        raise TypeError(f"a message is a dict, not {type(message).__name__}")
    found = message.get("type")
    if not isinstance(found, str):
        raise TypeError("a message has a type, which is a str")
    return found


def headers(message: Message) -> Headers:
    """The headers of a message, in their order; names are sent as the app has them, in lower case."""
    given: Iterable[Any] = message.get("headers", ())
    found = []
    for header in given:
        name, value = header
        if not isinstance(name, bytes) or not isinstance(value, bytes):
            raise TypeError(f"a header is two bytes objects, not {header!r}")
        if not name or any(byte in b"\r\n\0: " for byte in name) or any(byte in b"\r\n\0" for byte in value):
            raise ValueError(f"not a header: {header!r}")
        found.append((name.lower(), value))
    return found


def status(message: Message) -> int:
    found = message.get("status")
    if not isinstance(found, int) or isinstance(found, bool):
        raise TypeError(f"a status is an int, not {found!r}")
    if not 200 <= found <= 999:
        raise ValueError(f"not the status of a response: {found}")
    return found


def body(message: Message) -> bytes:
    found = message.get("body", b"")
    if not isinstance(found, (bytes, bytearray, memoryview)):
        raise TypeError(f"a body is a bytes object, not {type(found).__name__}")
    return bytes(found)


def more(message: Message) -> bool:
    return bool(message.get("more_body", False))


class Response:
    """Which of a response's messages may come next."""

    __slots__ = ("ended", "started")

    def __init__(self) -> None:
        self.started = False
        self.ended = False

    def begin(self) -> None:
        if self.started:
            raise RuntimeError("http.response.start came twice")
        self.started = True

    def go_on(self, has_more: bool) -> None:
        if not self.started:
            raise RuntimeError("http.response.body came before http.response.start")
        if self.ended:
            raise RuntimeError("http.response.body came after the end of the response")
        self.ended = not has_more
