"""Owns the requests that Erlang gives to WSGI apps (PEP 3333): the environment of one, and its response.

Called on the thread of a context or of an executor, never on an event loop's.
"""

import asyncio
import io
import logging
import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from threading import Lock
from typing import Any

from ._apps import Message, Receive, Scope, Send, find
from ._messages import DisconnectedError

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
        self._is_begun = False

    def start(
        self, status: str, headers: list[tuple[str, str]], exc_info: Any = None
    ) -> Callable[[bytes], None]:
        if self._head is not None and exc_info is None:
            raise RuntimeError("start_response was called twice")
        if exc_info is not None and self._is_begun:
            # The status line is on its way.
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
        self._is_begun |= bool(piece)

    def head(self) -> tuple[int, list[tuple[bytes, bytes]]]:
        if self._head is None:
            raise RuntimeError("the app did not call start_response")
        return self._head

    def take(self) -> bytes:
        """The pieces that have come since the last time."""
        pieces, self._pieces = self._pieces, []
        return b"".join(pieces)


class Streamed(Collected):
    """Likewise; each piece is sent before the next one is asked for (PEP 3333, Buffering and Streaming)."""

    def __init__(self, put: Callable[[list[Message]], None]) -> None:
        super().__init__()
        self._put = put
        self._is_sent = False

    def add(self, piece: bytes) -> None:
        super().add(piece)
        if piece:
            self._send(True)

    def extend(self, pieces: Iterable[bytes]) -> None:
        """Pieces that are all there."""
        for piece in pieces:
            super().add(piece)

    def finish(self) -> None:
        self._send(False)

    def _send(self, more: bool) -> None:
        status, headers = self.head()
        messages: list[Message] = []
        if not self._is_sent:
            messages.append({"type": "http.response.start", "status": status, "headers": headers})
        self._is_sent = True
        messages.append({"type": "http.response.body", "body": self.take(), "more_body": more})
        self._put(messages)


def _header(header: tuple[str, str]) -> tuple[bytes, bytes]:
    name, value = header
    if not isinstance(name, str) or not isinstance(value, str):
        raise TypeError(f"a header is two str objects, not {header!r}")
    if not name or any(char in "\r\n\0: " for char in name) or any(char in "\r\n\0" for char in value):
        raise ValueError(f"not a header: {header!r}")
    return name.encode("latin-1"), value.encode("latin-1")


Wsgi = Callable[[Environ, Any], Iterable[bytes]]


def respond(app: Wsgi, environment: Environ) -> Response:
    """Calls an app, and takes all that it returns."""
    collected = Collected()
    with _returned(app, environment, collected) as pieces:
        for piece in pieces:
            collected.add(piece)
    return (*collected.head(), collected.take())


def stream(app: Wsgi, environment: Environ, put: Callable[[list[Message]], None]) -> None:
    """Calls an app, and sends what it returns as it comes."""
    streamed = Streamed(put)
    with _returned(app, environment, streamed) as pieces:
        if isinstance(pieces, list | tuple):
            streamed.extend(pieces)
        else:
            for piece in pieces:
                streamed.add(piece)
        streamed.finish()


@contextmanager
def _returned(app: Wsgi, environment: Environ, collected: Collected) -> Iterator[Iterable[bytes]]:
    pieces = app(environment, collected.start)
    try:
        yield pieces
    finally:
        close = getattr(pieces, "close", None)
        if close is not None:
            close()


class as_asgi:  # noqa: N801 (called like a function)
    """A WSGI app as an ASGI app: each request runs on a thread of the loop's executor, never on the loop."""

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise RuntimeError(f"a WSGI app does not serve {scope['type']}")
        given = of_scope(scope)
        body: list[bytes] = []
        has_length = int(given.get("CONTENT_LENGTH", b"0")) > 0
        while not has_length:
            # Without a length apps would not know where it ends.
            message = await receive()
            if message["type"] != "http.request":
                return
            body.append(message["body"])
            if not message["more_body"]:
                break
        environment = environ(given, b"".join(body))
        errands = Errands(asyncio.get_running_loop())
        if has_length:
            environment["wsgi.input"] = io.BufferedReader(Body(lambda: errands.ask(receive)), 64 * 1024)

        async def send_all(messages: list[Message]) -> None:
            for message in messages:
                await send(message)

        def put(messages: list[Message]) -> None:
            errands.ask(lambda: send_all(messages))

        await errands.run(lambda: stream(self._app, environment, put))


Errand = Callable[[], Awaitable[Any]]


class Errands:
    """What the thread of a request asks of its task: one thing at a time, and the thread waits for it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._asked: asyncio.Queue[tuple[Errand, Future[Any]] | None] = asyncio.Queue()
        self._lock = Lock()
        self._waiting: Future[Any] | None = None
        self._is_over = False

    def ask(self, errand: Errand) -> Any:
        """On the thread."""
        answer: Future[Any] = Future()
        with self._lock:
            if self._is_over:
                raise DisconnectedError("the request is over")
            self._waiting = answer
        self._loop.call_soon_threadsafe(self._asked.put_nowait, (errand, answer))
        return answer.result()

    async def run(self, work: Callable[[], None]) -> None:
        """In the task: has the work done by a thread, and does its errands until it is over."""
        done = self._loop.run_in_executor(None, work)
        done.add_done_callback(lambda _: self._asked.put_nowait(None))
        try:
            while (asked := await self._asked.get()) is not None:
                errand, answer = asked
                try:
                    answer.set_result(await errand())
                except Exception as error:
                    answer.set_exception(error)
            await done
        finally:
            # A thread that still waits is told, as is one that asks later.
            with self._lock:
                self._is_over, waiting = True, self._waiting
            if waiting is not None and not waiting.done():
                waiting.set_exception(DisconnectedError("the request is over"))


class Body(io.RawIOBase):
    """The body of a request, read on the thread when the app wants it."""

    def __init__(self, more: Callable[[], Message]) -> None:
        self._more = more
        self._rest = memoryview(b"")
        self._has_more = True

    def readable(self) -> bool:
        return True

    def readinto(self, room: Any) -> int:
        while not self._rest and self._has_more:
            message = self._more()
            if message["type"] != "http.request":
                raise DisconnectedError("the client is gone")
            self._rest, self._has_more = memoryview(message["body"]), message["more_body"]
        size = min(len(room), len(self._rest))
        room[:size], self._rest = self._rest[:size], self._rest[size:]
        return size


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
