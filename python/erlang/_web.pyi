"""HTTP/1.1 and WebSocket, the server side."""

import asyncio
from collections.abc import Awaitable
from typing import Any, final

@final
class Site:
    def __new__(
        cls,
        loop: asyncio.AbstractEventLoop,
        app: Any,
        state: dict[str, Any],
        connections: set[Connection],
        root_path: str,
        is_secure: bool,
        max_head: int,
        max_headers: int,
        max_body: int,
        max_message: int,
        timeouts: tuple[float, float, float],
    ) -> Site: ...
    def connection(self) -> Connection: ...

@final
class Connection(asyncio.Protocol):
    deadline: float
    is_busy: bool
    def pump(self) -> None: ...
    def expire(self) -> None: ...
    def shutdown(self) -> None: ...
    def cancel(self) -> None: ...

class _Served:
    is_full: bool
    def receive(self) -> Awaitable[dict[str, Any]]: ...
    def send(self, message: dict[str, Any], /) -> Awaitable[None]: ...
    def poll(self) -> dict[str, Any] | None: ...
    def news(self) -> asyncio.Future[None]: ...
    def ended(self, task: asyncio.Task[Any], /) -> None: ...

@final
class Exchange(_Served):
    def flush(self) -> None: ...

@final
class Socket(_Served): ...
