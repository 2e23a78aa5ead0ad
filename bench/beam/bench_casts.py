"""Counts the casts that arrived."""

_total = 0


def add(number: int) -> None:
    global _total
    _total += number


def total() -> int:
    return _total
