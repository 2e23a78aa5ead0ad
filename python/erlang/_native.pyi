"""The types of the native module."""

from asyncio import BufferedProtocol, Future, ReadTransport, Task, Transport
from asyncio import DatagramTransport as _DatagramTransport
from asyncio import Handle as _Handle
from asyncio import TimerHandle as _TimerHandle
from asyncio.transports import _FlowControlMixin
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context
from typing import Any, Protocol, TypeVar, TypeVarTuple, Unpack, final

_T = TypeVar("_T")
_Ts = TypeVarTuple("_Ts")

__version__: str

def interpreter_id() -> int: ...
def accept(
    loop: Any, protocol_factory: Any, sock: Any, server: Any, backlog: int, secure: Any = None
) -> None: ...
def socket_transport(
    loop: Any,
    sock: Any,
    protocol: Any,
    waiter: Any = None,
    extra: Any = None,
    server: Any = None,
    peername: Any = None,
) -> SocketTransport: ...
def datagram_transport(
    loop: Any,
    sock: Any,
    protocol: Any,
    address: Any = None,
    waiter: Any = None,
    extra: Any = None,
) -> DatagramTransport: ...
def read_pipe_transport(
    loop: Any, pipe: Any, protocol: Any, waiter: Any = None, extra: Any = None
) -> ReadPipeTransport: ...
def write_pipe_transport(
    loop: Any, pipe: Any, protocol: Any, waiter: Any = None, extra: Any = None
) -> WritePipeTransport: ...

class _HasFileno(Protocol):
    def fileno(self) -> int: ...

@final
class Handle(_Handle):
    """What `call_soon` returns."""

@final
class TimerHandle(_TimerHandle):
    """What `call_later` returns."""

@final
class Roster:
    """The inside of a `WeakSet`."""

    def __init__(self, members: set[Any], iterating: set[Any], pending: list[Any]) -> None: ...
    def add(self, item: Any, /) -> None: ...
    def forget(self, reference: Any, /) -> None: ...

@final
class SocketTransport(_FlowControlMixin):
    """A transport over a stream socket."""

    _sock: Any
    _sock_fd: int

@final
class DatagramTransport(_FlowControlMixin, _DatagramTransport):
    """A transport over a datagram socket."""

    _sock: Any
    _sock_fd: int
    _address: Any

@final
class ReadPipeTransport(ReadTransport):
    """A transport that reads from a pipe."""

    _pipe: Any
    _fileno: int

@final
class WritePipeTransport(_FlowControlMixin):
    """A transport that writes to a pipe."""

    _pipe: Any
    _fileno: int

class Loop:
    """The native part of an event loop."""

    _stopping: bool
    _closed: bool
    _debug: bool
    _thread_id: int | None
    _ready: list[_Handle]
    _scheduled: list[_TimerHandle]

    def call_soon(
        self, callback: Callable[[Unpack[_Ts]], object], *args: *_Ts, context: Context | None = None
    ) -> _Handle: ...
    def call_soon_threadsafe(
        self, callback: Callable[[Unpack[_Ts]], object], *args: *_Ts, context: Context | None = None
    ) -> _Handle: ...
    def call_later(
        self,
        delay: float,
        callback: Callable[[Unpack[_Ts]], object],
        *args: *_Ts,
        context: Context | None = None,
    ) -> _TimerHandle: ...
    def call_at(
        self,
        when: float,
        callback: Callable[[Unpack[_Ts]], object],
        *args: *_Ts,
        context: Context | None = None,
    ) -> _TimerHandle: ...
    def create_future(self) -> Future[Any]: ...
    def create_task(
        self,
        coro: Coroutine[Any, Any, _T] | Generator[Any, None, _T],
        *,
        name: object = None,
        context: Context | None = None,
    ) -> Task[_T]: ...
    def time(self) -> float: ...
    def stop(self) -> None: ...
    def is_running(self) -> bool: ...
    def is_closed(self) -> bool: ...
    def get_debug(self) -> bool: ...
    def _add_reader(
        self, fd: int | _HasFileno, callback: Callable[..., object], /, *args: Any
    ) -> _Handle: ...
    def _add_writer(
        self, fd: int | _HasFileno, callback: Callable[..., object], /, *args: Any
    ) -> _Handle: ...
    def _remove_reader(self, fd: int | _HasFileno, /) -> bool: ...
    def _watch_pid(self, pid: int, transport: object, /) -> bool: ...
    def _remove_writer(self, fd: int | _HasFileno, /) -> bool: ...
    def sock_recv(self, sock: Any, n: int) -> Coroutine[Any, Any, bytes]: ...
    def sock_recv_into(self, sock: Any, buf: Any) -> Coroutine[Any, Any, int]: ...
    def sock_recvfrom(self, sock: Any, bufsize: int) -> Coroutine[Any, Any, tuple[bytes, Any]]: ...
    def sock_recvfrom_into(
        self, sock: Any, buf: Any, nbytes: int = 0
    ) -> Coroutine[Any, Any, tuple[int, Any]]: ...
    def sock_sendall(self, sock: Any, data: Any) -> Coroutine[Any, Any, None]: ...
    def sock_sendto(self, sock: Any, data: Any, address: Any) -> Coroutine[Any, Any, int]: ...
    def sock_accept(self, sock: Any) -> Coroutine[Any, Any, tuple[Any, Any]]: ...
    def _sock_connect_to(self, sock: Any, address: Any) -> Coroutine[Any, Any, None]: ...
    def _transport_of(self, fd: int, /) -> Any: ...
    def _keep_transport(self, fd: int, transport: Any, /) -> None: ...
    def _all_transports(self) -> dict[int, Any]: ...
    def _registration(
        self, fd: int | _HasFileno, /
    ) -> tuple[bool, bool, _Handle | None, _Handle | None] | None: ...
    def _add_callback(self, handle: _Handle, /) -> None: ...
    def _add_callback_signalsafe(self, handle: _Handle, /) -> None: ...
    def _timer_handle_cancelled(self, handle: _TimerHandle, /) -> None: ...
    def _write_to_self(self) -> None: ...
    def _check_closed(self) -> None: ...
    def _run_once(self) -> None: ...
    def _run_native(self) -> None: ...
    def _run_ready(self, seconds: float, /) -> int: ...
    def _release(self) -> None: ...
    def _native_stats(self) -> dict[str, int]: ...

@final
class SSLProtocol(BufferedProtocol):
    """TLS between a transport and a protocol."""

    _app_transport: SSLTransport | None
    _app_protocol: Any
    _transport: Any
    _loop: Any
    _sslobj: Any
    _extra: dict[str, Any]
    _state: str

    def __init__(
        self,
        loop: Any,
        app_protocol: Any,
        sslcontext: Any,
        waiter: Any,
        server_side: bool = False,
        server_hostname: str | None = None,
        call_connection_made: bool = True,
        ssl_handshake_timeout: float | None = None,
        ssl_shutdown_timeout: float | None = None,
    ) -> None: ...

@final
class SSLTransport(Transport):
    """What an application holds of a TLS connection."""

    _ssl_protocol: SSLProtocol
