"""Owns `sys.stdout` and `sys.stderr` inside the Erlang VM: what is written goes to the caller's group leader.

Lines are sent when they are whole, and what a call has begun when it ends.
"""

import io
import sys
from collections.abc import Iterable
from typing import Any

from ._bridge import flush, write


class _Bytes(io.RawIOBase):
    """`sys.stdout.buffer`: bytes are taken for UTF-8."""

    def __init__(self, stream: "Stream") -> None:
        self._stream = stream

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        view = memoryview(data)
        self._stream.write(view.tobytes().decode(errors="backslashreplace"))
        return view.nbytes

    def flush(self) -> None:
        self._stream.flush()


class Stream(io.TextIOBase):
    """One of the two; any thread."""

    encoding = "utf-8"
    errors = "backslashreplace"
    line_buffering = True

    def __init__(self, number: int, name: str) -> None:
        self._number = number
        self.name = name
        self.mode = "w"
        self.buffer = _Bytes(self)

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return False

    def write(self, text: str) -> int:
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        try:
            write(self._number, text)
        except UnicodeEncodeError:
            # Lone surrogates are no UTF-8.
            write(self._number, text.encode(errors=self.errors).decode())
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:  # type: ignore[override]
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        flush()

    def close(self) -> None:
        """Stays open: it is everybody's."""


def install() -> None:
    sys.stdout = sys.__stdout__ = Stream(0, "<stdout>")  # type: ignore[misc,assignment]
    sys.stderr = sys.__stderr__ = Stream(1, "<stderr>")  # type: ignore[misc,assignment]
