"""Draws the ratios of a group of rows as SVG: a line per row, a dot per family, the reference at 1.

Logarithmic, so that twice as fast and half as fast are equally far from the line. A whisker is the spread of
the rounds. A handful of shapes needs no plotting library, and the same numbers give the same bytes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from html import escape

import stats
from results import RowResult, SuiteResult

WIDTH, LABELS, RIGHT = 900, 330, 24
TOP, ROW, HEAD = 64, 20, 26
COLOURS = ("#c2410c", "#2563eb", "#15803d", "#7c3aed", "#b45309", "#0e7490")
"""Ours first, then the peers in their order."""
TICKS = (0.03125, 0.0625, 0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)


class Axis:
    """From a ratio to a place: whole powers of two that hold all of them."""

    def __init__(self, ratios: Sequence[float]) -> None:
        usable = [one for one in ratios if 0 < one < math.inf]
        self._low = max(min((math.floor(math.log2(one)) for one in usable), default=-1), -5)
        self._high = min(max((math.ceil(math.log2(one)) for one in usable), default=1), 5)
        self._low, self._high = min(self._low, -1), max(self._high, 1)

    def x(self, ratio: float) -> float:
        """What lies outside is drawn at the edge."""
        power = self._high if ratio == math.inf else self._low if ratio <= 0 else math.log2(ratio)
        share = (min(max(power, self._low), self._high) - self._low) / (self._high - self._low)
        return round(LABELS + share * (WIDTH - LABELS - RIGHT), 1)

    def ticks(self) -> Iterator[float]:
        return (tick for tick in TICKS if self._low <= math.log2(tick) <= self._high)


def _text(x: float, y: float, text: str, extra: str = "") -> str:
    return f'<text x="{x:g}" y="{y:g}"{extra}>{escape(text)}</text>'


def _line(x1: float, y1: float, x2: float, y2: float, colour: str, width: float = 1) -> str:
    return (
        f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}" stroke="{colour}" stroke-width="{width:g}"/>'
    )


def _mark(axis: Axis, found: stats.Summary, y: float, colour: str, is_ours: bool) -> Iterator[str]:
    yield _line(axis.x(found.low), y, axis.x(found.high), y, colour)
    size = 4.5 if is_ours else 3
    yield f'<circle cx="{axis.x(found.median):g}" cy="{y:g}" r="{size:g}" fill="{colour}"/>'


def _families(rows: Sequence[RowResult], suite: SuiteResult) -> list[str]:
    found = dict.fromkeys(arm["family"] for row in rows for arm in row["arms"] if arm["ranked"])
    found.pop(suite.get("reference", ""), None)
    return sorted(found, key=lambda name: (name != suite["ours"], name))


def draw(title: str, rows: Sequence[RowResult], topics: Mapping[str, str], suite: SuiteResult) -> str:
    """One drawing; `topics` are their titles by id."""
    reference = suite.get("reference", "")
    names = _families(rows, suite)
    ratios = {
        (row["id"], name): found
        for row in rows
        for name in names
        if (found := stats.against(row, name, reference))
    }
    axis = Axis([end for found in ratios.values() for end in (found.low, found.high)])
    heads = len(dict.fromkeys(row["topic"] for row in rows))
    height = TOP + heads * HEAD + len(rows) * ROW + 20
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        f'width="{WIDTH}" height="{height}" '
        'font-family="sans-serif" font-size="12" fill="#1f2937">',
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
        _text(12, 22, f"{title}, times {reference}", ' font-size="15" font-weight="bold"'),
    ]
    for place, name in enumerate(names):
        colour = COLOURS[place % len(COLOURS)]
        x = LABELS + 110 * place
        out += [f'<circle cx="{x}" cy="40" r="4" fill="{colour}"/>', _text(x + 8, 44, name)]
    for tick in axis.ticks():
        is_one = tick == 1
        at = axis.x(tick)
        out.append(_line(at, TOP, at, height - 16, "#6b7280" if is_one else "#e5e7eb", 1.5 if is_one else 1))
        out.append(_text(at, TOP - 4, f"{tick:g}x", ' text-anchor="middle" fill="#6b7280"'))
    y, topic = float(TOP), ""
    for row in rows:
        if row["topic"] != topic:
            topic = row["topic"]
            y += HEAD
            out.append(_text(12, y - 6, topics.get(topic, topic).replace("`", ""), ' font-weight="bold"'))
        y += ROW
        middle = y - ROW / 2
        out.append(_text(24, middle + 4, row["title"].replace("`", "")))
        # Ours last, so that it lies on top.
        for name in reversed(names):
            if found := ratios.get((row["id"], name)):
                colour = COLOURS[names.index(name) % len(COLOURS)]
                out += _mark(axis, found, middle, colour, name == suite["ours"])
    return "\n".join([*out, "</svg>", ""])
