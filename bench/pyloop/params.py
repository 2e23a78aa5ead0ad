"""The `key=value` arguments of a measurement. One that nobody takes is an error: a typo must not pass."""

from __future__ import annotations

from collections.abc import Iterable, Mapping


class Params:
    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = dict(values)

    @staticmethod
    def parse(arguments: Iterable[str]) -> Params:
        values: dict[str, str] = {}
        for argument in arguments:
            key, equals, value = argument.partition("=")
            if not equals:
                raise SystemExit(f"not key=value: {argument}")
            values[key] = value
        return Params(values)

    def text(self, key: str, default: str = "") -> str:
        return self._values.pop(key, default)

    def number(self, key: str, default: int) -> int:
        value = self._values.pop(key, "")
        try:
            return int(value) if value else default
        except ValueError:
            raise SystemExit(f"{key} cannot be {value}") from None

    def finish(self) -> None:
        if self._values:
            raise SystemExit(f"no such parameter: {', '.join(sorted(self._values))}")
