"""The drawing is well-formed, puts twice and half at equal distances, and names what it shows."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ElementTree

import plot
import pytest
from results import RowResult, SuiteResult
from rows import arm, row, suite

TITLES = {"posts": "Posts & more"}


def compared(*rows: RowResult) -> SuiteResult:
    found = suite(*rows)
    found["reference"] = "libuv"
    return found


def test_twice_and_half_are_equally_far_from_the_line() -> None:
    axis = plot.Axis([0.3, 3.0])
    assert axis.x(2.0) - axis.x(1.0) == pytest.approx(axis.x(1.0) - axis.x(0.5), abs=0.2)


def test_what_has_no_place_on_the_axis_is_drawn_at_its_edge() -> None:
    axis = plot.Axis([0.5, 2.0])
    assert axis.x(math.inf) == axis.x(1000.0) == axis.x(2.0)
    assert axis.x(0.0) == axis.x(0.5)


def test_ratios_on_one_side_leave_the_line_in_the_drawing() -> None:
    assert 1.0 in set(plot.Axis([3.0, 5.0]).ticks())
    assert 1.0 in set(plot.Axis([]).ticks())


def test_the_drawing_is_well_formed_and_has_a_dot_per_family_but_the_reference() -> None:
    rows = [row("higher", arm("evloop", 4), arm("tokio", 3), arm("libuv", 2))]
    drawing = plot.draw("A < B", rows, TITLES, compared(*rows))
    root = ElementTree.fromstring(drawing)
    dots = root.findall("{*}circle")
    # One each in the legend and in the row.
    assert len(dots) == 4
    assert {"evloop", "tokio", "Posts & more", "A < B, times libuv"} <= {
        text.text for text in root.findall("{*}text")
    }


def test_a_row_without_the_reference_has_a_line_and_no_dot() -> None:
    rows = [row("higher", arm("evloop", 4))]
    root = ElementTree.fromstring(plot.draw("x", rows, TITLES, compared(*rows)))
    assert len(root.findall("{*}circle")) == 1


def test_the_same_numbers_give_the_same_bytes() -> None:
    rows = [row("lower", arm("evloop", 4, 5), arm("libuv", 2, 3))]
    assert plot.draw("x", rows, TITLES, compared(*rows)) == plot.draw("x", rows, TITLES, compared(*rows))
