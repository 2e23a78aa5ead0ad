"""The format of `bench/results/<suite>.json`: what `run.py` writes and `render.py` reads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NotRequired, TypedDict, cast

from model import Better


class ArmResult(TypedDict):
    name: str
    family: str
    ranked: bool
    note: str
    samples: list[float]
    median: float
    low: float
    high: float
    cpu_seconds: float
    cpu_us: NotRequired[float]
    """CPU time of the measured process an operation, in microseconds."""
    client_percent: NotRequired[float]
    """How much of the time its client was busy: near 100 the client is what was measured."""
    early_percent: NotRequired[float]
    """Timers that fired before their time, for an arm that does not promise otherwise."""


class Hotspot(TypedDict):
    percent: float
    where: str


class RowResult(TypedDict):
    id: str
    topic: str
    title: str
    unit: str
    better: Better
    arms: list[ArmResult]
    profiles: NotRequired[dict[str, list[Hotspot]]]
    """By arm; taken for a row that is behind."""
    lacking: NotRequired[dict[str, str]]
    """Arms that could not do the row, and why."""


class TopicResult(TypedDict):
    id: str
    title: str
    about: str
    group: NotRequired[str]


class SuiteResult(TypedDict):
    suite: str
    title: str
    ours: str
    date: str
    rounds: int
    quick: bool
    seconds: int
    machine: dict[str, str]
    versions: dict[str, str]
    topics: list[TopicResult]
    rows: list[RowResult]
    more: NotRequired[int]
    """The rounds that rows which were close after the others had beyond those."""
    many: NotRequired[int]
    """The rounds that rows of which these did not tell either had on top."""
    reference: NotRequired[str]
    absent: NotRequired[dict[str, str]]
    """Families that were not there at all."""


def save(result: SuiteResult, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def load(path: Path) -> SuiteResult:
    return cast(SuiteResult, json.loads(path.read_text(encoding="utf-8")))
