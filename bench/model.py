"""What a suite measures: cases, who takes part, how the numbers are read. Plain data, no behaviour."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

Better = Literal["higher", "lower"]


@dataclass(frozen=True)
class Arm:
    """One way to do a case's work: ours or a peer's. Of several arms of one family the best stands for it."""

    name: str
    family: str
    command: tuple[str, ...]
    ranked: bool = True
    """False for an arm that is shown beside the others but does other work than the row says."""
    note: str = ""


@dataclass(frozen=True)
class Metric:
    """One number of a case's JSON line, and so one row of the table."""

    title: str
    unit: str
    better: Better
    key: str = "value"


@dataclass(frozen=True)
class Case:
    """One command line per arm; a process of its own for every round."""

    id: str
    topic: str
    arms: tuple[Arm, ...]
    metrics: tuple[Metric, ...]
    params: tuple[str, ...] = ()
    quick: tuple[str, ...] = ()
    """Smaller parameters for a run that only checks that everything runs."""
    profile: tuple[str, ...] = ()
    """Added to `params` for a profile: a longer run, in which the start of the process weighs less."""


@dataclass(frozen=True)
class Topic:
    id: str
    title: str
    about: str
    group: str = ""
    """Topics of one group share a geometric mean and a plot."""


@dataclass(frozen=True)
class Suite:
    id: str
    title: str
    ours: str
    """The family that is compared with the others."""
    topics: tuple[Topic, ...]
    cases: tuple[Case, ...]
    build: Callable[[], None]
    versions: Callable[[], dict[str, str]] = field(default=dict)
    absent: Callable[[], dict[str, str]] = field(default=dict)
    """Families that this machine cannot measure, and why; asked after the build."""
    reference: str = ""
    """The peer that every row is also compared with by itself, round by round."""
    results: str = ""
    """The name of the result file, where it is not the suite's."""
    rounds: int = 5
    quick_rounds: int = 2

    @property
    def file(self) -> str:
        return f"{self.results or self.id}.json"
