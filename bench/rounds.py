"""Runs the programs: interleaved rounds, a fresh process for every sample, one JSON line from each."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import cells
from model import Arm, Case

STUCK_SECONDS = 300
"""A process that hangs ends its arm; no result depends on it."""
LACKS = 3
"""The exit code of a program whose implementation does not have what the row needs."""

COMPILED = Path(__file__).resolve().parent.parent / "build" / "pycache"
"""Where measured programs keep their compiled modules."""

Line = dict[str, float]
"""The numbers of one JSON line."""


class FailedError(Exception):
    """A process that gave no number."""


class LackingError(FailedError):
    """Not a fault: there is nothing to measure."""


@dataclass
class Samples:
    """What the rounds gave, by case and arm."""

    lines: dict[tuple[str, str], list[Line]] = field(default_factory=dict)
    lacking: dict[tuple[str, str], str] = field(default_factory=dict)
    failed: dict[tuple[str, str], str] = field(default_factory=dict)

    def out(self, case: Case, arm: Arm) -> str | None:
        """Why this arm is not measured any more."""
        key = case.id, arm.name
        return self.lacking.get(key) or self.failed.get(key)


def environment(given: Mapping[str, str]) -> dict[str, str]:
    """That of a measured process, which finds its modules compiled, as users' programs do.

    One that has compiled dozens of them has megabytes to spare in its heap, and malloc(3) keeps more from
    then on: asyncio's large messages cost a quarter of what they do otherwise, idle connections seem smaller.
    """
    kept = {name: value for name, value in given.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return kept | {"PYTHONPYCACHEPREFIX": str(COMPILED)}


def command(case: Case, arm: Arm, quick: bool) -> list[str]:
    return [*arm.command, *(case.quick if quick else case.params)]


def measure(case: Case, arm: Arm, quick: bool) -> Line:
    """One process, one line. A failed check inside it is an error: there is nothing to average."""
    try:
        run = subprocess.run(
            command(case, arm, quick),
            env=environment(os.environ),
            capture_output=True,
            text=True,
            timeout=STUCK_SECONDS,
        )
    except subprocess.TimeoutExpired:
        raise FailedError("hangs") from None
    said = (run.stderr.strip().splitlines() or [""])[-1]
    if run.returncode == LACKS:
        raise LackingError(said)
    if run.returncode != 0:
        raise FailedError(said or f"exit code {run.returncode}")
    answer = json.loads(run.stdout)
    if answer["topic"] != case.topic:
        raise FailedError(f"answers for {answer['topic']}")
    return {key: float(value) for key, value in answer.items() if isinstance(value, int | float)}


def run_rounds(cases: Sequence[Case], rounds: int, quick: bool, before: Samples | None = None) -> Samples:
    """Round by round over all, so that noise hits all arms alike; who starts changes with the round.

    An arm that gives no number is left out from then on, with its samples. Those of rounds `before` count on.
    """
    samples = before or Samples()
    total = rounds * sum(len(case.arms) for case in cases)
    done = 0
    for turn in range(rounds):
        for case in cases:
            first = turn % len(case.arms)
            for arm in case.arms[first:] + case.arms[:first]:
                done += 1
                if samples.out(case, arm) is None:
                    said = _sample(case, arm, quick, samples)
                    print(
                        f"[{done:4}/{total}] {case.id:14} {arm.name:26} {said}", file=sys.stderr, flush=True
                    )
    return samples


def _sample(case: Case, arm: Arm, quick: bool, samples: Samples) -> str:
    """Takes one, and says it in a few words."""
    key = case.id, arm.name
    try:
        line = measure(case, arm, quick)
    except FailedError as why:
        samples.lines.pop(key, None)
        if isinstance(why, LackingError):
            samples.lacking[key] = str(why)
            return "lacks it"
        samples.failed[key] = str(why)
        return f"FAILED: {why}"
    samples.lines.setdefault(key, []).append(line)
    return ", ".join(cells.number(line[metric.key], metric.unit) for metric in case.metrics)
