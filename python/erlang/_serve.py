"""Owns the web server: an ASGI app served over HTTP/1.1 and WebSocket on an event loop of ours.

The wire is native (`erlang._web`); here is what is rare: waiting, opening and closing, deadlines, the end.
"""

import argparse
import asyncio
import contextlib
import errno
import signal
import socket
import sys
from dataclasses import dataclass, field
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from ssl import Purpose, SSLContext, create_default_context
from typing import TYPE_CHECKING, Any

from . import _apps, _native, _run
from ._apps import App, Message, Policy, find, lifespan, logger
from ._loop import ErlangEventLoop

if TYPE_CHECKING:
    from . import _web


def _load() -> Any:
    """The native module: built into the VM, or a second one in the library of the first."""
    name = f"{__package__}._web"
    if name in sys.builtin_module_names:
        return __import__(name, fromlist=["Site"])
    loader = ExtensionFileLoader(name, str(_native.__file__))
    spec = spec_from_file_location(name, str(_native.__file__), loader=loader)
    assert spec is not None
    module = module_from_spec(spec)
    sys.modules[name] = module
    loader.exec_module(module)
    return module


async def receive(served: "_web.Exchange | _web.Socket") -> Message:
    """The next message, waited for."""
    while (message := served.poll()) is None:
        await served.news()
    return message


async def drain(served: "_web.Exchange | _web.Socket") -> None:
    """Waits until the client has caught up, or is gone."""
    while served.is_full:
        await served.news()


def failed(exception: BaseException, path: str) -> None:
    """An app has failed: the client is told nothing of it."""
    logger.error("an app failed: %s", path, exc_info=exception)


@dataclass(frozen=True, kw_only=True)
class Options:
    """How an app is served."""

    host: str = "127.0.0.1"
    port: int = 8000
    sock: socket.socket | None = None
    ssl: SSLContext | None = None
    backlog: int = 2048
    reuse_port: bool = False
    claim: bool = False
    """The port must be nobody's; afterwards it is shared by those who ask for it."""
    root_path: str = ""
    lifespan: Policy = "auto"
    interface: str = "asgi"
    max_head: int = 64 * 1024
    max_headers: int = 100
    max_body: int = 128 * 1024 * 1024
    max_message: int = 16 * 1024 * 1024
    keep_alive: float = 30.0
    head_timeout: float = 10.0
    body_timeout: float = 30.0
    shutdown_timeout: float = 30.0

    @property
    def timeouts(self) -> tuple[float, float, float]:
        return self.keep_alive, self.head_timeout, self.body_timeout


class Connections(set["_web.Connection"]):
    """The connections there are: ends those whose time is over, and tells when there is none."""

    def __init__(self, loop: asyncio.AbstractEventLoop, shortest: float) -> None:
        super().__init__()
        self._loop = loop
        self._shortest = shortest
        self._timer: asyncio.TimerHandle | None = None
        self._empty = asyncio.Event()
        self._empty.set()

    def add(self, connection: "_web.Connection") -> None:
        super().add(connection)
        self._empty.clear()
        if self._timer is None:
            self._timer = self._loop.call_later(self._shortest, self._sweep)

    def discard(self, connection: object) -> None:
        super().discard(connection)
        if not self:
            self._empty.set()

    def _sweep(self) -> None:
        """One timer for all: a deadline is never nearer than the shortest timeout when it is set."""
        self._timer = None
        now = self._loop.time()
        nearest = now + self._shortest
        for connection in tuple(self):
            deadline = connection.deadline
            if deadline and deadline <= now:
                connection.expire()
            elif deadline:
                nearest = min(nearest, deadline)
        if self:
            self._timer = self._loop.call_at(nearest, self._sweep)

    async def gone(self, timeout: float) -> bool:
        """Waits until there is none; whether it came to that."""
        try:
            async with asyncio.timeout(timeout):
                await self._empty.wait()
        except TimeoutError:
            return False
        return True

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


@dataclass(eq=False)
class Server:
    """An app on the running loop, from `start` to `stop`."""

    app: App
    options: Options = field(default_factory=Options)

    async def start(self) -> None:
        """Begins to listen, once the app has started: at `address`."""
        loop = asyncio.get_running_loop()
        if not isinstance(loop, ErlangEventLoop):
            raise RuntimeError("the web server needs a loop of erlang: erlang.run, or erlang.new_event_loop")
        options = self.options
        app = self.app
        if options.interface == "wsgi":
            from ._wsgi import as_asgi

            app = as_asgi(app)
        self._life = await lifespan(app, options.lifespan)
        self.connections = Connections(loop, min(options.timeouts))
        site = _load_once().Site(
            loop,
            app,
            self._life.state,
            self.connections,
            options.root_path,
            options.ssl is not None,
            options.max_head,
            options.max_headers,
            options.max_body,
            options.max_message,
            options.timeouts,
        )
        if options.sock is not None:
            self._server = await loop.create_server(
                site.connection, sock=options.sock, ssl=options.ssl, backlog=options.backlog
            )
        else:
            with contextlib.ExitStack() as claims:
                if options.claim and options.port:
                    await _claim(options.host, options.port, claims)
                self._server = await loop.create_server(
                    site.connection,
                    options.host,
                    options.port,
                    ssl=options.ssl,
                    backlog=options.backlog,
                    reuse_port=options.reuse_port,
                )

        self.address: tuple[str, int] = self._server.sockets[0].getsockname()[:2]

    async def stop(self, timeout: float | None = None) -> None:
        """Takes no more connections; what is served has time to come to its end, and is cancelled then."""
        self._server.close()
        for connection in tuple(self.connections):
            connection.shutdown()
        if not await self.connections.gone(self.options.shutdown_timeout if timeout is None else timeout):
            for connection in tuple(self.connections):
                connection.cancel()
            await self.connections.gone(1)
        self.connections.close()

    async def end(self) -> None:
        """The lifespan of the app is over, too."""
        await self._life.end()


async def _claim(host: str, port: int, claims: contextlib.ExitStack) -> None:
    """Takes a port that nobody has, without listening.

    A socket bound without SO_REUSEPORT finds out whether somebody has it; set afterwards it lets others join.
    """
    infos = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    for family, kind, protocol, _, address in infos:
        sock = claims.enter_context(socket.socket(family, kind, protocol))
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.bind(address)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)


_module: Any = None


def _load_once() -> Any:
    global _module
    if _module is None:
        _module = _load()
    return _module


# What Erlang has opened, and the futures that say within how many seconds it is to end.
_held: "dict[int, tuple[Server, asyncio.Future[float]]]" = {}


async def hold(number: int, pid: Any, module: str, name: str, options: dict[str, Any]) -> None:
    """Serves an app for a process of Erlang, until that releases it or dies, or the loop ends."""
    from ._bridge import atom, send

    loop = asyncio.get_running_loop()
    server = Server(find(module, name), Options(**options))
    try:
        await server.start()
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            send(pid, (atom("py_asgi_refused"), number, atom("eaddrinuse")))
        raise
    released: asyncio.Future[float] = loop.create_future()
    _held[number] = server, released

    async def stop() -> None:
        await server.stop(0)

    closers = _apps.serving.setdefault(loop, set())
    closers.add(stop)
    seconds = 0.0
    try:
        send(pid, (atom("py_asgi_listening"), number, server.address))
        seconds = await released
    finally:
        del _held[number]
        closers.discard(stop)
        await server.stop(seconds)
        if not any(other.app is server.app and future.get_loop() is loop for other, future in _held.values()):
            await server.end()


def release(number: int, seconds: float) -> None:
    """It is to end, with so many seconds for what is served."""
    held = _held.get(number)
    if held is not None and not held[1].done():
        held[1].set_result(seconds)


async def run(app: App, options: Options) -> None:
    """Serves until SIGINT or SIGTERM."""
    server = Server(app, options)
    await server.start()
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        with contextlib.suppress(NotImplementedError):
            loop.add_signal_handler(number, stopped.set)
    host, port = server.address
    scheme = "http" if options.ssl is None else "https"
    print(f"serving at {scheme}://{f'[{host}]' if ':' in host else host}:{port}/", flush=True)
    await stopped.wait()
    await server.stop()
    await server.end()


def serve(app: App | str, **options: Any) -> None:
    """Serves an app, or that of a name such as `module:app`, until SIGINT or SIGTERM."""
    _run.run(run(_found(app), Options(**options)))


def _found(app: App | str) -> App:
    if not isinstance(app, str):
        return app
    module, _, name = app.partition(":")
    found: App = find(module, name or "app")
    return found


def main(arguments: list[str]) -> int:
    """`python -m erlang serve module:app`"""
    parser = argparse.ArgumentParser(prog="python -m erlang serve", description=serve.__doc__)
    parser.add_argument("app", help="module:name")
    defaults = Options()
    for name in (
        *("host", "port", "root_path", "lifespan", "interface", "max_head", "max_headers", "max_body"),
        *("max_message", "keep_alive", "head_timeout", "body_timeout", "shutdown_timeout"),
    ):
        default = getattr(defaults, name)
        parser.add_argument(f"--{name.replace('_', '-')}", type=type(default), default=default)
    parser.add_argument("--certificate", help="a file with the certificate and its key, for https")
    given = vars(parser.parse_args(arguments))
    app, certificate = given.pop("app"), given.pop("certificate")
    if certificate is not None:
        given["ssl"] = create_default_context(Purpose.CLIENT_AUTH)
        given["ssl"].load_cert_chain(certificate)
    sys.path.insert(0, "")
    serve(app, **given)
    return 0
