"""Owns the requests that Erlang gives to ASGI apps: `receive` and `send` of one, and the way back.

Three kinds: one whose answer is collected, one that is sent piece by piece, and a WebSocket. The last two
have a process of Erlang at their other end: what it says comes by `tell`, on the loop that the app runs on,
and what the app sends goes to it as a message.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any

from . import _messages
from ._apps import App, Message, Policy, Scope, find, lifespan, logger
from ._bridge import Pid, atom, send
from ._messages import DisconnectedError, Response, kind

_ACCEPT, _BODY, _CLOSE, _EVENT, _REJECT, _SEND, _START, _TAKEN = map(
    atom, ("accept", "body", "close", "py_asgi_event", "reject", "send", "start", "taken")
)
_BINARY, _TEXT = atom("binary"), atom("text")

ABNORMAL = 1006
"""The code of a connection that ended without a close frame (RFC 6455, 7.1.5)."""


class Incoming:
    """What the app receives, in order."""

    def __init__(self) -> None:
        self.is_over = False
        self._queue: deque[Message] = deque()
        self._news = asyncio.Event()

    def put(self, message: Message) -> None:
        self._queue.append(message)
        self._news.set()

    def end(self) -> None:
        self.is_over = True
        self._news.set()

    def drop(self) -> None:
        """The response is complete: what is left of the request is of no use."""
        self._queue.clear()
        self.end()

    async def get(self) -> Message | None:
        """The next one; `None` at the end."""
        while not self._queue:
            if self.is_over:
                return None
            self._news.clear()
            await self._news.wait()
        return self._queue.popleft()


class Collected:
    """An HTTP request whose body is there, and whose response is collected."""

    def __init__(self, body: bytes, answer: Callable[[Any], None] | None) -> None:
        self.response = Response()
        self.result: tuple[int, _messages.Headers, bytes] | None = None
        self._incoming = Incoming()
        self._incoming.put({"type": "http.request", "body": body, "more_body": False})
        self._answer = answer
        self._head: tuple[int, _messages.Headers] = (500, [])
        self._pieces: list[bytes] = []

    @property
    def is_complete(self) -> bool:
        return self.response.ended

    async def receive(self) -> Message:
        # Nobody can disconnect: an end that comes is that of the response.
        return await self._incoming.get() or {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        match kind(message):
            case "http.response.start":
                head = _messages.status(message), _messages.headers(message)
                self.response.begin()
                self._head = head
            case "http.response.body":
                piece, has_more = _messages.body(message), _messages.more(message)
                self.response.go_on(has_more)
                self._pieces.append(piece)
                if not has_more:
                    self._end()
            case other:
                raise RuntimeError(f"a response has no message of type {other!r}")

    def _end(self) -> None:
        self.result = (*self._head, b"".join(self._pieces))
        self._pieces.clear()
        self._incoming.drop()
        # The app may have more to do: nobody waits for that.
        if self._answer is not None:
            self._answer(self.result)


class Peer:
    """The process of Erlang at the other end: what the app may send to it, and when."""

    def __init__(self, pid: Pid, credit: int | None) -> None:
        self._pid = pid
        self._credit = credit
        self._more = asyncio.Event()
        self.is_gone = False

    def say(self, *event: Any) -> None:
        send(self._pid, (_EVENT, event))

    def give(self, credit: int) -> None:
        if self._credit is not None:
            self._credit += credit
        self._more.set()

    def go(self) -> None:
        self.is_gone = True
        self._more.set()

    def check(self) -> None:
        if self.is_gone:
            raise DisconnectedError("the client is gone")

    async def spend(self) -> None:
        """Waits until the other end wants more."""
        while self._credit == 0 and not self.is_gone:
            self._more.clear()
            await self._more.wait()
        self.check()
        if self._credit is not None:
            self._credit -= 1


class Streamed:
    """An HTTP request whose response is sent piece by piece; its body may come so, too."""

    def __init__(self, peer: Peer, body: bytes, has_more: bool) -> None:
        self.response = Response()
        self._peer = peer
        self._incoming = Incoming()
        self._incoming.put({"type": "http.request", "body": body, "more_body": has_more})
        self._untold = 0

    @property
    def is_complete(self) -> bool:
        return self.response.ended or self._peer.is_gone

    async def receive(self) -> Message:
        message = await self._incoming.get()
        if message is None:
            return {"type": "http.disconnect"}
        if self._untold:
            self._untold -= 1
            self._peer.say(_TAKEN)
        return message

    async def send(self, message: Message) -> None:
        match kind(message):
            case "http.response.start":
                head = _messages.status(message), _messages.headers(message)
                self._peer.check()
                self.response.begin()
                self._peer.say(_START, *head)
            case "http.response.body":
                piece, has_more = _messages.body(message), _messages.more(message)
                self._peer.check()
                self.response.go_on(has_more)
                await self._peer.spend()
                self._peer.say(_BODY, piece, has_more)
                if not has_more:
                    self._incoming.drop()
            case other:
                raise RuntimeError(f"a response has no message of type {other!r}")

    def tell(self, event: tuple[Any, ...]) -> None:
        match event:
            case ("ack", int(more)):
                self._peer.give(more)
            case ("body", bytes(piece), bool(has_more)):
                self._untold += 1
                self._incoming.put({"type": "http.request", "body": piece, "more_body": has_more})
            case ("disconnect", *_):
                self._peer.go()
                self._incoming.end()


class Socket:
    """A WebSocket."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._incoming = Incoming()
        self._incoming.put({"type": "websocket.connect"})
        self._disconnect: Message = {"type": "websocket.disconnect", "code": ABNORMAL, "reason": ""}
        self._refusal: tuple[int, _messages.Headers] | None = None
        self._pieces: list[bytes] = []
        self._response = Response()
        self._is_accepted = False
        self._is_closed = False
        self._untold = 0

    @property
    def is_complete(self) -> bool:
        return self._is_closed or self._peer.is_gone

    async def receive(self) -> Message:
        message = await self._incoming.get()
        if message is None:
            return dict(self._disconnect)
        if message["type"] == "websocket.receive":
            self._untold -= 1
            self._peer.say(_TAKEN)
        return message

    async def send(self, message: Message) -> None:
        what = kind(message)
        self._peer.check()
        if self._is_closed:
            raise RuntimeError(f"{what} came after the end")
        match what:
            case "websocket.accept":
                self._accept(message)
            case "websocket.send":
                await self._send(message)
            case "websocket.close":
                self._close(message)
            case "websocket.http.response.start" | "websocket.http.response.body":
                self._refuse(what, message)
            case other:
                raise RuntimeError(f"a WebSocket has no message of type {other!r}")

    def _accept(self, message: Message) -> None:
        subprotocol = message.get("subprotocol")
        if subprotocol is not None and not isinstance(subprotocol, str):
            raise TypeError("a subprotocol is a str")
        headers = _messages.headers(message)
        if self._is_accepted or self._response.started:
            raise RuntimeError("websocket.accept is out of order")
        self._is_accepted = True
        self._peer.say(_ACCEPT, subprotocol, headers)

    async def _send(self, message: Message) -> None:
        text, data = message.get("text"), message.get("bytes")
        if (text is None) == (data is None):
            raise ValueError("websocket.send has either text or bytes")
        if text is not None and not isinstance(text, str):
            raise TypeError("the text of websocket.send is a str")
        if data is not None and not isinstance(data, (bytes, bytearray, memoryview)):
            raise TypeError("the bytes of websocket.send are a bytes object")
        if not self._is_accepted:
            raise RuntimeError("websocket.send came before websocket.accept")
        await self._peer.spend()
        self._peer.say(_SEND, (_TEXT, text) if text is not None else (_BINARY, bytes(data or b"")))

    def _close(self, message: Message) -> None:
        code, reason = message.get("code", 1000), message.get("reason") or ""
        if not isinstance(code, int) or not isinstance(reason, str):
            raise TypeError("websocket.close has an int as code and a str as reason")
        if self._response.started:
            raise RuntimeError("websocket.close is out of order")
        if self._is_accepted:
            self._peer.say(_CLOSE, code, reason)
        else:
            self._peer.say(_REJECT, 403, [], b"")
        self._end(code, reason)

    def _refuse(self, what: str, message: Message) -> None:
        if self._is_accepted:
            raise RuntimeError(f"{what} came after websocket.accept")
        if what.endswith(".start"):
            refusal = _messages.status(message), _messages.headers(message)
            self._response.begin()
            self._refusal = refusal
            return
        piece, has_more = _messages.body(message), _messages.more(message)
        self._response.go_on(has_more)
        self._pieces.append(piece)
        if not has_more and self._refusal is not None:
            self._peer.say(_REJECT, *self._refusal, b"".join(self._pieces))
            self._end(ABNORMAL, "")

    def _end(self, code: int, reason: str) -> None:
        self._is_closed = True
        self._disconnect |= {"code": code, "reason": reason}
        self._incoming.end()

    def returned(self) -> None:
        """The app has returned, as it may: that closes what it has accepted."""
        if self._is_accepted and not self.is_complete:
            self._close({})

    def tell(self, event: tuple[Any, ...]) -> None:
        match event:
            case ("ack", int(more)):
                self._peer.give(more)
            case ("text", bytes(text)):
                self._put({"type": "websocket.receive", "text": text.decode(), "bytes": None})
            case ("binary", bytes(data)):
                self._put({"type": "websocket.receive", "text": None, "bytes": data})
            case ("disconnect", int(code), bytes(reason)):
                self._peer.go()
                if not self._is_closed:
                    self._disconnect |= {"code": code, "reason": reason.decode(errors="replace")}
                self._incoming.end()

    def _put(self, message: Message) -> None:
        self._untold += 1
        self._incoming.put(message)


# The requests with a process at their other end, by the number that has.
_open: dict[int, Streamed | Socket] = {}


async def run(module: str, name: str, scope: Scope, body: bytes, policy: Policy) -> Any:
    """Gives a request to an app. Answered when the response is complete, whatever the app does then."""
    app, scope = await _ready(module, name, scope, policy)
    task = asyncio.current_task()
    exchange = Collected(body, getattr(task and task.get_coro(), "answer", None))
    await _perform(app, scope, exchange)
    return exchange.result


async def stream(
    module: str,
    name: str,
    scope: Scope,
    policy: Policy,
    number: int,
    pid: Pid,
    credit: int | None,
    *body: Any,
) -> None:
    """Likewise, with the messages of the response sent as they come; of a WebSocket, too."""
    peer = Peer(pid, credit)
    exchange = Socket(peer) if scope["type"] == "websocket" else Streamed(peer, *body)
    _open[number] = exchange
    try:
        await _perform(*await _ready(module, name, scope, policy), exchange)
    finally:
        del _open[number]


def tell(number: int, event: tuple[Any, ...]) -> None:
    """The other end says something. An app that is done does not hear it."""
    exchange = _open.get(number)
    if exchange is not None:
        exchange.tell(event)


async def _ready(module: str, name: str, scope: Scope, policy: Policy) -> tuple[App, Scope]:
    """The app, started, and the scope with the state of its lifespan."""
    app = find(module, name)
    life = await lifespan(app, policy)
    # A copy for each request (lifespan 2.0): what one adds, another does not see.
    scope["state"] = life.state | scope.get("state", {})
    return app, scope


async def _perform(app: App, scope: Scope, exchange: Collected | Streamed | Socket) -> None:
    """Runs an app. What goes wrong is logged, and raised if somebody still waits for a response."""
    try:
        await app(scope, exchange.receive, exchange.send)
        if isinstance(exchange, Socket):
            exchange.returned()
        if not exchange.is_complete:
            raise RuntimeError("the app returned before its response was complete")
    except DisconnectedError:
        # It was told so, and did not care.
        pass
    except Exception:
        logger.error("an app failed: %s %s", scope["type"], scope.get("path", ""), exc_info=True)
        if not exchange.is_complete:
            raise
