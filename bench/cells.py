"""How a number, a ratio or a verdict reads in a table, and how a table is written. No layout of the page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import stats
from results import ArmResult

_SCALES = ((1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))


def _scale(value: float, unit: str) -> tuple[float, str]:
    """A divisor and the unit it leads to: rates in k, M or G, times as they are."""
    if not unit.endswith("/s"):
        return 1.0, unit.replace("us", "µs")
    for scale, letter in _SCALES:
        if abs(value) >= scale:
            return scale, f"{letter}/s"
    return 1.0, "/s"


def digits(value: float) -> str:
    if value >= 100:
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def number(value: float, unit: str) -> str:
    scale, label = _scale(value, unit)
    return f"{digits(value / scale)} {label}"


def cell(arm: ArmResult | None, unit: str) -> str:
    if arm is None:
        return "-"
    scale, label = _scale(arm["median"], unit)
    low, middle, high = (digits(arm[key] / scale) for key in ("low", "median", "high"))
    return f"{middle} {label} ({low} to {high})"


def verdict_text(found: stats.Verdict | None) -> str:
    if found is None:
        return "not measured"
    if found.level:
        return "level"
    word = "ahead" if found.ahead else "**behind**"
    return f"{word}, within the spread" if found.overlap else word


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield "| " + " | ".join(head) + " |"
    yield "|" + "---|" * len(head)
    for row in rows:
        yield "| " + " | ".join(row) + " |"
    yield ""


def ratio_cell(found: stats.Summary | None) -> str:
    return f"{found.median:.2f}x ({found.low:.2f} to {found.high:.2f})" if found else "-"
