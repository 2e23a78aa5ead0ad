"""Owns which class serves which kind of transport, and how connections are accepted.

They are native; the stdlib's own serve what only looks like a socket.
"""

import errno
import socket
import sys
from asyncio import constants, trsock
from collections.abc import Callable, Iterator, MutableMapping
from functools import partial
from typing import Any

from . import _native
from ._clients import count_lightly
from ._stdlib import StdlibLoop

# Since 3.12 asyncio refuses a second transport for the same fd here.
_CHECKS_FD = sys.version_info >= (3, 12)
# There is nothing to be done about these but to try again later.
_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)

# Those whose addresses are known natively.
_DATAGRAM_FAMILIES = (socket.AF_INET, socket.AF_INET6, socket.AF_UNIX)


def _is_real(sock: Any) -> bool:
    """Whether it is a socket by its very type: what only looks like one has no fd of its own."""
    return issubclass(type(sock), socket.socket)


class _Table(MutableMapping[int, Any]):
    """`loop._transports`: which transport has an fd. asyncio's view of a native table."""

    def __init__(self, loop: Any) -> None:
        self._loop = loop

    def __getitem__(self, fd: int) -> Any:
        transport = self._loop._transport_of(fd)
        if transport is None:
            raise KeyError(fd)
        return transport

    def __setitem__(self, fd: int, transport: Any) -> None:
        self._loop._keep_transport(fd, transport)

    def __delitem__(self, fd: int) -> None:
        del self._loop._all_transports()[fd]  # for the KeyError
        self._loop._keep_transport(fd, None)

    def __iter__(self) -> Iterator[int]:
        return iter(self._loop._all_transports())

    def __len__(self) -> int:
        return len(self._loop._all_transports())


class Transports(StdlibLoop):
    """The hooks that asyncio's loops make transports with; each can be given another class on its own."""

    # Of asyncio's loops, which typeshed knows in part.
    _debug: Any
    _ensure_fd_no_transport: Any
    _open_secure: Any

    @property
    def _transports(self) -> _Table:
        return _Table(self)

    @_transports.setter
    def _transports(self, value: object) -> None:
        """asyncio's loops assign a dictionary of their own."""

    def _make_socket_transport(
        self, sock: Any, protocol: Any, waiter: Any = None, *, extra: Any = None, server: Any = None
    ) -> Any:
        if not _is_real(sock):
            asyncios: Any = super()
            return asyncios._make_socket_transport(sock, protocol, waiter, extra=extra, server=server)
        if _CHECKS_FD:
            self._ensure_fd_no_transport(sock)
        return _native.socket_transport(self, sock, protocol, waiter, extra, server)

    def _make_datagram_transport(
        self, sock: Any, protocol: Any, address: Any = None, waiter: Any = None, extra: Any = None
    ) -> Any:
        if not _is_real(sock) or sock.family not in _DATAGRAM_FAMILIES:
            asyncios: Any = super()
            return asyncios._make_datagram_transport(sock, protocol, address, waiter, extra)
        if _CHECKS_FD:
            self._ensure_fd_no_transport(sock)
        return _native.datagram_transport(self, sock, protocol, address, waiter, extra)

    def _make_read_pipe_transport(
        self, pipe: Any, protocol: Any, waiter: Any = None, extra: Any = None
    ) -> Any:
        return _native.read_pipe_transport(self, pipe, protocol, waiter, extra)

    def _make_write_pipe_transport(
        self, pipe: Any, protocol: Any, waiter: Any = None, extra: Any = None
    ) -> Any:
        return _native.write_pipe_transport(self, pipe, protocol, waiter, extra)

    def _start_serving(
        self,
        protocol_factory: Callable[[], Any],
        sock: Any,
        sslcontext: Any = None,
        server: Any = None,
        *rest: Any,
    ) -> None:
        count_lightly(server)
        asyncios: Any = super()
        asyncios._start_serving(protocol_factory, sock, sslcontext, server, *rest)

    def _accept_connection(
        self,
        protocol_factory: Callable[[], Any],
        sock: Any,
        sslcontext: Any = None,
        server: Any = None,
        backlog: int = 100,
        handshake_timeout: float | None = constants.SSL_HANDSHAKE_TIMEOUT,
        shutdown_timeout: float | None = constants.SSL_SHUTDOWN_TIMEOUT,
    ) -> None:
        """Takes all that wait, up to the backlog, without a task for each."""
        timeouts = (handshake_timeout, shutdown_timeout)
        if not _is_real(sock):
            asyncios: Any = super()
            asyncios._accept_connection(protocol_factory, sock, sslcontext, server, backlog, *timeouts)
            return
        secure = partial(self._open_secure, sslcontext, server, *timeouts) if sslcontext else None
        try:
            _native.accept(self, protocol_factory, sock, server, backlog, secure)
        except OSError as error:
            if error.errno not in _EXHAUSTED:
                raise
            # The kernel goes on reporting what cannot be accepted: look away for a while.
            self.call_exception_handler(
                {
                    "message": "socket.accept() out of system resource",
                    "exception": error,
                    "socket": trsock.TransportSocket(sock),
                }
            )
            self._remove_reader(sock.fileno())
            self.call_later(
                constants.ACCEPT_RETRY_DELAY,
                self._start_serving,
                protocol_factory,
                sock,
                sslcontext,
                server,
                backlog,
                *timeouts,
            )
