"""Owns the requests that Erlang gives to WSGI apps (PEP 3333): the environment of one, and its response.

Called on the thread of a context or of an executor, never on an event loop's.
"""

import asyncio
import io
import logging
import sys
from collections.abc import Callable, Iterable
from typing import Any

from ._apps import Receive, Scope, Send, find

logger = logging.getLogger("erlang.wsgi")

Environ = dict[str, Any]
Response = tuple[int, list[tuple[bytes, bytes]], bytes]


def run(module: str, name: str, given: dict[str, Any], body: bytes) -> Response:
    """Gives a request to an app, and collects its response."""
    app = find(module, name)
    try:
        return respond(app, environ(given, body))
    except Exception:
        logger.error("an app failed: %s", given.get("PATH_INFO", ""), exc_info=True)
        raise


def environ(given: dict[str, Any], body: bytes) -> Environ:
    """What PEP 3333 wants to be there, and what was given: text whose characters stand for bytes."""
    found: Environ = {
        "REQUEST_METHOD": "GET",
        "SCRIPT_NAME": "",
        "PATH_INFO": "/",
        "QUERY_STRING": "",
        "SERVER_NAME": "localhost",
        "SERVER_PORT": "80",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": "http",
        "wsgi.multithread": True,
        "wsgi.multiprocess": False,
        "wsgi.run_once": False,
    }
    for key, value in given.items():
        found[key] = value.decode("latin-1") if isinstance(value, bytes) else value
    if body and "CONTENT_LENGTH" not in found:
        found["CONTENT_LENGTH"] = str(len(body))
    found["wsgi.input"] = io.BytesIO(body)
    found["wsgi.errors"] = sys.stderr
    return found


class Collected:
    """What an app gives to `start_response`, to `write`, and returns."""

    def __init__(self) -> None:
        self._head: tuple[int, list[tuple[bytes, bytes]]] | None = None
        self._pieces: list[bytes] = []

    def start(
        self, status: str, headers: list[tuple[str, str]], exc_info: Any = None
    ) -> Callable[[bytes], None]:
        if self._head is not None and exc_info is None:
            raise RuntimeError("start_response was called twice")
        if exc_info is not None and any(self._pieces):
            # The status line would be on its way.
            raise exc_info[1].with_traceback(exc_info[2])
        code, _, _ = status.partition(" ")
        if len(code) != 3 or not code.isdecimal():
            raise ValueError(f"not a status: {status!r}")
        self._head = int(code), [_header(header) for header in headers]
        return self.add

    def add(self, piece: bytes) -> None:
        if not isinstance(piece, bytes):
            raise TypeError(f"a body is made of bytes objects, not of {type(piece).__name__}")
        if self._head is None:
            raise RuntimeError("the body came before start_response was called")
        self._pieces.append(piece)

    def response(self) -> Response:
        if self._head is None:
            raise RuntimeError("the app did not call start_response")
        return (*self._head, b"".join(self._pieces))


def _header(header: tuple[str, str]) -> tuple[bytes, bytes]:
    name, value = header
    if not isinstance(name, str) or not isinstance(value, str):
        raise TypeError(f"a header is two str objects, not {header!r}")
    if not name or any(char in "\r\n\0: " for char in name) or any(char in "\r\n\0" for char in value):
        raise ValueError(f"not a header: {header!r}")
    return name.encode("latin-1"), value.encode("latin-1")


def respond(app: Callable[[Environ, Any], Iterable[bytes]], environment: Environ) -> Response:
    """Calls an app, and takes all that it returns."""
    collected = Collected()
    pieces = app(environment, collected.start)
    try:
        for piece in pieces:
            collected.add(piece)
    finally:
        close = getattr(pieces, "close", None)
        if close is not None:
            close()
    return collected.response()


class as_asgi:  # noqa: N801 (called like a function)
    """A WSGI app as an ASGI app: each request runs on a thread of the loop's executor, never on the loop."""

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise RuntimeError(f"a WSGI app does not serve {scope['type']}")
        pieces = []
        while True:
            message = await receive()
            if message["type"] != "http.request":
                return
            pieces.append(message.get("body", b""))
            if not message.get("more_body", False):
                break
        environment = environ(of_scope(scope), b"".join(pieces))
        loop = asyncio.get_running_loop()
        status, headers, body = await loop.run_in_executor(None, respond, self._app, environment)
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})


def of_scope(scope: Scope) -> dict[str, Any]:
    """The environment of a request that came by ASGI."""
    found: dict[str, Any] = {
        "REQUEST_METHOD": scope["method"],
        "SCRIPT_NAME": scope.get("root_path", "").encode(),
        "PATH_INFO": scope["path"].removeprefix(scope.get("root_path", "")).encode(),
        "QUERY_STRING": scope["query_string"],
        "SERVER_PROTOCOL": f"HTTP/{scope['http_version']}",
        "wsgi.url_scheme": scope["scheme"],
    }
    for (host, port), address in (
        (("REMOTE_ADDR", "REMOTE_PORT"), scope.get("client")),
        (("SERVER_NAME", "SERVER_PORT"), scope.get("server")),
    ):
        if address is not None:
            found[host] = address[0]
            if address[1] is not None:
                found[port] = str(address[1])
    for name, value in scope["headers"]:
        key = name.decode("latin-1").upper().replace("-", "_")
        key = key if key in ("CONTENT_TYPE", "CONTENT_LENGTH") else f"HTTP_{key}"
        before = found.get(key)
        found[key] = value if before is None else before + (b"; " if name == b"cookie" else b", ") + value
    return found
