"""Owns the clients of a server, as asyncio counts them since Python 3.13."""

from collections.abc import Iterator
from typing import Any
from weakref import ReferenceType, WeakSet, ref


class Clients:
    """What a server needs of its `WeakSet`, at a third of the memory.

    A `WeakSet` makes a weak reference of its own for each member, to hear of its end. Transports tell their
    server themselves when they end, so the reference will do that the loop has of each already.
    """

    __slots__ = ("_members",)

    def __init__(self) -> None:
        self._members: set[ReferenceType[Any]] = set()

    def add(self, transport: Any) -> None:
        self._members.add(ref(transport))

    def discard(self, transport: Any) -> None:
        self._members.discard(ref(transport))

    def __iter__(self) -> Iterator[Any]:
        return (transport for member in self._members if (transport := member()) is not None)

    def copy(self) -> list[Any]:
        """All of them, for whoever closes them one by one."""
        return list(self)

    def __len__(self) -> int:
        """Those of others may end without a word: they are found before they keep a server open."""
        while self._members:
            member = next(iter(self._members))
            if member() is not None:
                break
            self._members.remove(member)
        return len(self._members)


def count_lightly(server: Any) -> None:
    """Has a server that begins to listen count its clients so."""
    counted = getattr(server, "_clients", None)
    if type(counted) is WeakSet and not counted:
        server._clients = Clients()
