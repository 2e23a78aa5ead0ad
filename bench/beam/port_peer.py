"""The Python end of the port: reads `{packet, 4}` requests from fd 3, calls, and answers on fd 4."""

import importlib
import os
import struct
from collections.abc import Callable
from typing import Any

from external import Atom, decode, encode

READ, WRITE = 3, 4
LENGTH = struct.Struct(">I")


def _exactly(length: int) -> bytes:
    data = b""
    while len(data) < length:
        part = os.read(READ, length - len(data))
        if not part:
            raise SystemExit(0)
        data = data + part if data else part
    return data


def _write(data: bytes) -> None:
    view = memoryview(LENGTH.pack(len(data)) + data)
    while view:
        view = view[os.write(WRITE, view) :]


def _read() -> Any:
    (length,) = LENGTH.unpack(_exactly(4))
    return decode(_exactly(length))


def _callbacks(count: int) -> int:
    """Calls the other end as often, and says how many answers were right."""
    right = 0
    for number in range(count):
        _write(encode((Atom("callback"), number)))
        right += _read() == number
    return right


def main() -> None:
    functions: dict[tuple[Atom, Atom], Callable[..., Any]] = {
        (Atom("bench_python"), Atom("callbacks")): _callbacks
    }
    while True:
        number, (module, name, args) = _read()
        if (module, name) not in functions:
            functions[module, name] = getattr(importlib.import_module(module.name), name.name)
        result = functions[module, name](*args)
        if isinstance(number, int):
            _write(encode((number, (Atom("ok"), result))))


if __name__ == "__main__":
    main()
