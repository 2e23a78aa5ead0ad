"""Owns what comes before and after native `sock_*` calls: address lookups, and why a connect failed."""

import socket
from typing import Any, NoReturn

from ._stdlib import StdlibLoop

_INTERNET = (socket.AF_INET, socket.AF_INET6) if socket.has_ipv6 else (socket.AF_INET,)


class Sockets(StdlibLoop):
    """The part of the loop that connects sockets."""

    async def sock_connect(self, sock: Any, address: Any) -> None:
        """Connects to an address, which is looked up if it has a name in it."""
        if self.get_debug() or type(sock) is not socket.socket:
            await super().sock_connect(sock, address)
            return
        if sock.family in _INTERNET:
            found = await self._ensure_resolved(
                address, family=sock.family, type=sock.type, proto=sock.proto, loop=self
            )
            address = found[0][4]
        await self._sock_connect_to(sock, address)


def connect_failed(number: int, address: Any) -> NoReturn:
    """The exception of a connect that took its time."""
    raise OSError(number, f"Connect call failed {address}")
