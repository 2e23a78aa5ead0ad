"""Owns where TLS comes in: connections made with it, servers that speak it, start_tls. All of it native."""

import sys
from asyncio import constants, protocols, streams
from typing import TYPE_CHECKING, Any

from . import _native
from ._reports import not_accepted
from ._stdlib import StdlibLoop

if TYPE_CHECKING:
    from asyncio import Future
    from ssl import SSLContext

# Since 3.12 asyncio refuses a second transport for the same fd here.
_CHECKS_FD = sys.version_info >= (3, 12)


def _take_back(protocol: Any) -> bytes:
    """What a reader of streams has that nobody has read: the beginning of a handshake."""
    if not isinstance(protocol, streams.StreamReaderProtocol):
        return b""
    reader: Any = getattr(protocol, "_stream_reader", None)
    if reader is None:
        return b""
    taken = bytes(reader._buffer)
    reader._buffer.clear()
    return taken


class Secure(StdlibLoop):
    """The hooks that asyncio's loops use for TLS, with the native protocol in place of the stdlib's."""

    def _make_ssl_transport(
        self,
        rawsock: Any,
        protocol: Any,
        sslcontext: "SSLContext | None",
        waiter: Any = None,
        *,
        server_side: bool = False,
        server_hostname: str | None = None,
        extra: dict[str, Any] | None = None,
        server: Any = None,
        ssl_handshake_timeout: float | None = constants.SSL_HANDSHAKE_TIMEOUT,
        ssl_shutdown_timeout: float | None = constants.SSL_SHUTDOWN_TIMEOUT,
    ) -> Any:
        if _CHECKS_FD:
            self._ensure_fd_no_transport(rawsock)  # type: ignore[attr-defined]
        ssl_protocol = _native.SSLProtocol(
            self,
            protocol,
            sslcontext,
            waiter,
            server_side,
            server_hostname,
            ssl_handshake_timeout=ssl_handshake_timeout,
            ssl_shutdown_timeout=ssl_shutdown_timeout,
        )
        self._make_socket_transport(rawsock, ssl_protocol, extra=extra, server=server)  # type: ignore[attr-defined]
        return ssl_protocol._app_transport

    def _open_secure(
        self,
        sslcontext: "SSLContext",
        server: Any,
        handshake_timeout: float | None,
        shutdown_timeout: float | None,
        protocol: Any,
        sock: Any,
        peername: Any,
    ) -> None:
        """Begins the handshake of a connection that was accepted. Debug mode wants to hear if it fails."""
        waiter = self.create_future() if self.get_debug() else None
        transport = self._make_ssl_transport(
            sock,
            protocol,
            sslcontext,
            waiter,
            server_side=True,
            extra={"peername": peername},
            server=server,
            ssl_handshake_timeout=handshake_timeout,
            ssl_shutdown_timeout=shutdown_timeout,
        )

        def ended(waiter: "Future[None]") -> None:
            if not waiter.cancelled() and (exception := waiter.exception()):
                not_accepted(self, exception, protocol, transport)

        if waiter is not None:
            waiter.add_done_callback(ended)

    async def start_tls(
        self,
        transport: Any,
        protocol: Any,
        sslcontext: "SSLContext",
        *,
        server_side: bool = False,
        server_hostname: str | None = None,
        ssl_handshake_timeout: float | None = None,
        ssl_shutdown_timeout: float | None = None,
    ) -> Any:
        """Upgrades a connection to TLS, and returns the transport to use from now on."""
        try:
            from ssl import SSLContext
        except ImportError:
            raise RuntimeError("Python ssl module is not available") from None
        if not isinstance(sslcontext, SSLContext):
            raise TypeError(f"sslcontext is expected to be an instance of ssl.SSLContext, got {sslcontext!r}")
        if not getattr(transport, "_start_tls_compatible", False):
            raise TypeError(f"transport {transport!r} is not supported by start_tls()")
        waiter = self.create_future()
        ssl_protocol = _native.SSLProtocol(
            self,
            protocol,
            sslcontext,
            waiter,
            server_side,
            server_hostname,
            call_connection_made=False,
            ssl_handshake_timeout=ssl_handshake_timeout,
            ssl_shutdown_timeout=ssl_shutdown_timeout,
        )
        # Nothing may come in before the protocol knows its transport.
        transport.pause_reading()
        early = _take_back(protocol) if server_side else b""
        transport.set_protocol(ssl_protocol)
        steps = [self.call_soon(ssl_protocol.connection_made, transport)]
        if early:
            feed: Any = protocols._feed_data_to_buffered_proto  # type: ignore[attr-defined]
            steps.append(self.call_soon(feed, ssl_protocol, early))
        steps.append(self.call_soon(transport.resume_reading))
        try:
            await waiter
        except BaseException:
            transport.close()
            for step in steps:
                step.cancel()
            raise
        return ssl_protocol._app_transport
