"""Owns which class serves which kind of transport: native stream transports, the stdlib's own for the rest."""

import sys
from asyncio import SelectorEventLoop
from typing import Any

from . import _native

# Since 3.12 asyncio refuses a second transport for the same fd here.
_CHECKS_FD = sys.version_info >= (3, 12)


class Transports(SelectorEventLoop):
    """The hooks that asyncio's loops make transports with; each can be given another class on its own.

    `_make_datagram_transport`, `_make_read_pipe_transport` and `_make_write_pipe_transport` are inherited: the stdlib's
    transports ask nothing of a loop but `_add_reader`, `_remove_writer` and kin.
    """

    def _make_socket_transport(
        self, sock: Any, protocol: Any, waiter: Any = None, *, extra: Any = None, server: Any = None
    ) -> Any:
        if _CHECKS_FD:
            self._ensure_fd_no_transport(sock)
        return _native.socket_transport(self, sock, protocol, waiter, extra, server)
