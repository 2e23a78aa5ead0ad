"""Owns the ASGI apps of a loop: how one is found by its name, and its lifespan, which is begun once per loop.

ASGI 3.0, with the lifespan protocol 2.0: an app that raises when it is offered a lifespan has none.
"""

import asyncio
import importlib
import logging
import weakref
from collections.abc import Awaitable, Callable
from functools import reduce
from typing import Any, Final, Literal

Message = dict[str, Any]
Scope = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
Policy = Literal["auto", "on", "off"]

logger = logging.getLogger("erlang.asgi")

VERSIONS: Final = {"version": "3.0", "spec_version": "2.5"}
LIFESPAN_VERSIONS: Final = {"version": "3.0", "spec_version": "2.0"}


class AppNotFoundError(Exception):
    """There is no app of that name, or it cannot be called."""


class LifespanError(Exception):
    """The app says that it cannot start."""


def find(module: str, name: str) -> Any:
    """The app of a module; dots in its name lead to attributes of attributes."""
    try:
        app = reduce(getattr, name.split("."), importlib.import_module(module))
    except ModuleNotFoundError as error:
        # One that the module itself misses is its own affair.
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise
        raise AppNotFoundError(f"there is no module {module}") from None
    except AttributeError as error:
        raise AppNotFoundError(f"there is no {name} in {module}: {error}") from None
    if not callable(app):
        raise AppNotFoundError(f"{module}:{name} cannot be called: it is of type {type(app).__name__}")
    return app


class Lifespan:
    """The life of one app on one loop."""

    def __init__(self, app: App, policy: Policy) -> None:
        # The app is held, so that nobody else has its identity while this is in the table.
        self.app = app
        self.state: dict[str, Any] = {}
        self._policy = policy
        self._events: asyncio.Queue[Message] = asyncio.Queue()
        self._started: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._stopped: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._task: asyncio.Task[None] | None = None
        self._is_ended = False

    def begin(self) -> None:
        if self._policy == "off":
            self._started.set_result(None)
            self._stopped.set_result(None)
            return
        self._events.put_nowait({"type": "lifespan.startup"})
        self._task = asyncio.get_running_loop().create_task(self._run(), name="lifespan")

    async def started(self) -> None:
        """Waits until the app has started."""
        if not self._started.done():
            await asyncio.shield(self._started)
        else:
            self._started.result()

    @property
    def has_failed(self) -> bool:
        return self._started.done() and self._started.exception() is not None

    @property
    def is_over(self) -> bool:
        """It failed to start, or was ended."""
        return self.has_failed or self._is_ended

    async def end(self) -> None:
        """Tells the app that it is over, and waits until it has cleaned up."""
        was_ended, self._is_ended = self._is_ended, True
        if was_ended or self._task is None or self._task.done() or self.has_failed:
            return
        self._events.put_nowait({"type": "lifespan.shutdown"})
        try:
            await asyncio.shield(self._stopped)
        except LifespanError as error:
            logger.error("the shutdown of an app failed: %s", error)
        await asyncio.wait([self._task])

    async def _run(self) -> None:
        scope = {"type": "lifespan", "asgi": dict(LIFESPAN_VERSIONS), "state": self.state}
        try:
            await self.app(scope, self._events.get, self._send)
        except Exception as error:
            if self._started.done():
                logger.error("the lifespan of an app failed", exc_info=True)
            elif self._policy == "on":
                logger.error("the app did not start", exc_info=True)
                self._started.set_exception(LifespanError(f"{type(error).__name__}: {error}"))
                self._started.exception()
        finally:
            # An app that just returns has no lifespan, or has had one.
            for future in (self._started, self._stopped):
                if not future.done():
                    future.set_result(None)

    async def _send(self, message: Message) -> None:
        kind = message.get("type")
        future = self._stopped if str(kind).startswith("lifespan.shutdown.") else self._started
        if kind not in {
            "lifespan.startup.complete",
            "lifespan.startup.failed",
            "lifespan.shutdown.complete",
            "lifespan.shutdown.failed",
        }:
            raise RuntimeError(f"a lifespan has no message of type {kind!r}")
        if future.done() or (future is self._stopped and not self._started.done()):
            raise RuntimeError(f"{kind} is out of order")
        if str(kind).endswith(".complete"):
            future.set_result(None)
        else:
            text = str(message.get("message", ""))
            logger.error("%s: %s", kind, text)
            future.set_exception(LifespanError(text))
            # Whoever waits is told; that nobody does is not worth a report.
            future.exception()


# The apps that live on each loop, by identity.
_living: "weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, dict[int, Lifespan]]" = (
    weakref.WeakKeyDictionary()
)


async def lifespan(app: App, policy: Policy = "auto") -> Lifespan:
    """The life of an app on the running loop, begun by the first who asks. One that is over begins anew."""
    living = _living.setdefault(asyncio.get_running_loop(), {})
    life = living.get(id(app))
    if life is None or life.is_over:
        life = living[id(app)] = Lifespan(app, policy)
        life.begin()
    await life.started()
    return life


# Who serves on each loop: to be told before its end.
serving: "weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, set[Callable[[], Awaitable[None]]]]" = (
    weakref.WeakKeyDictionary()
)


async def end() -> None:
    """The running loop ends: so do those who serve on it, and the apps that live there."""
    await asyncio.gather(*(stop() for stop in serving.pop(asyncio.get_running_loop(), set())))
    living = _living.pop(asyncio.get_running_loop(), {})
    await asyncio.gather(*(life.end() for life in living.values()))


def has_apps(loop: asyncio.AbstractEventLoop) -> bool:
    return bool(_living.get(loop))
