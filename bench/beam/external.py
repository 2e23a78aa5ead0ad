"""The external term format, as far as the port needs it: atoms, numbers, binaries, tuples, lists and maps."""

import struct
from typing import Any, NamedTuple


class Atom(NamedTuple):
    name: str


def decode(data: bytes) -> Any:
    if data[0] != 131:
        raise ValueError("not an external term")
    return _decode(data, 1)[0]


def _decode(data: bytes, at: int) -> tuple[Any, int]:
    tag = data[at]
    at += 1
    match tag:
        case 70:
            return struct.unpack_from(">d", data, at)[0], at + 8
        case 97:
            return data[at], at + 1
        case 98:
            return struct.unpack_from(">i", data, at)[0], at + 4
        case 100:
            (length,) = struct.unpack_from(">H", data, at)
            return Atom(data[at + 2 : at + 2 + length].decode("latin-1")), at + 2 + length
        case 119:
            length = data[at]
            return Atom(data[at + 1 : at + 1 + length].decode()), at + 1 + length
        case 104:
            items, at = _items(data, at + 1, data[at])
            return tuple(items), at
        case 106:
            return [], at
        case 107:
            (length,) = struct.unpack_from(">H", data, at)
            return list(data[at + 2 : at + 2 + length]), at + 2 + length
        case 108:
            (length,) = struct.unpack_from(">I", data, at)
            items, at = _items(data, at + 4, length)
            return items, at + 1  # the empty list at its end
        case 109:
            (length,) = struct.unpack_from(">I", data, at)
            return data[at + 4 : at + 4 + length], at + 4 + length
        case 116:
            (length,) = struct.unpack_from(">I", data, at)
            items, at = _items(data, at + 4, 2 * length)
            return dict(zip(items[::2], items[1::2], strict=True)), at
    raise ValueError(f"unknown tag {tag}")


def _items(data: bytes, at: int, count: int) -> tuple[list[Any], int]:
    items = []
    for _ in range(count):
        item, at = _decode(data, at)
        items.append(item)
    return items, at


def encode(term: Any) -> bytes:
    parts = [b"\x83"]
    _encode(term, parts)
    return b"".join(parts)


def _encode(term: Any, parts: list[bytes]) -> None:
    match term:
        case Atom(name):
            parts.append(struct.pack(">BB", 119, len(name)) + name.encode())
        case float():
            parts.append(struct.pack(">Bd", 70, term))
        case int():
            parts.append(struct.pack(">BB", 97, term) if 0 <= term < 256 else struct.pack(">Bi", 98, term))
        case bytes():
            parts.append(struct.pack(">BI", 109, len(term)))
            parts.append(term)
        case tuple():
            parts.append(struct.pack(">BB", 104, len(term)))
            _each(term, parts)
        case []:
            parts.append(b"\x6a")
        case list():
            parts.append(struct.pack(">BI", 108, len(term)))
            _each(term, parts)
            parts.append(b"\x6a")
        case dict():
            parts.append(struct.pack(">BI", 116, len(term)))
            for pair in term.items():
                _each(pair, parts)
        case _:
            raise ValueError(f"no term for {term!r}")


def _each(terms: list[Any] | tuple[Any, ...], parts: list[bytes]) -> None:
    for term in terms:
        _encode(term, parts)
