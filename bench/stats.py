"""Medians and spreads of rounds, and who is ahead. A ratio above 1 always means that ours is better."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from model import Better
from results import ArmResult, RowResult


@dataclass(frozen=True)
class Summary:
    median: float
    low: float
    high: float


def summarise(samples: Sequence[float]) -> Summary:
    return Summary(statistics.median(samples), min(samples), max(samples))


@dataclass(frozen=True)
class Verdict:
    ours: ArmResult
    peer: ArmResult
    """The best ranked peer."""
    ratio: float
    overlap: bool
    """The two spreads have values in common: another run may end otherwise."""

    @property
    def ahead(self) -> bool:
        return self.ratio > 1


def ratio(ours: float, peer: float, better: Better) -> float:
    """How many times better ours is: of two rates the higher one wins, of two times the lower one."""
    above, below = (ours, peer) if better == "higher" else (peer, ours)
    return above / below if below > 0 else float("inf")


def best(arms: Iterable[ArmResult], better: Better) -> ArmResult | None:
    ordered = sorted(arms, key=lambda arm: arm["median"])
    if not ordered:
        return None
    return ordered[-1] if better == "higher" else ordered[0]


def families(row: RowResult) -> dict[str, ArmResult]:
    """The best ranked arm of every family, in the order of their appearance."""
    names = dict.fromkeys(arm["family"] for arm in row["arms"] if arm["ranked"])
    found: dict[str, ArmResult] = {}
    for name in names:
        arm = best((arm for arm in row["arms"] if arm["ranked"] and arm["family"] == name), row["better"])
        if arm is not None:
            found[name] = arm
    return found


def verdict(row: RowResult, ours: str) -> Verdict | None:
    """Ours against the best peer; None when one of them was not measured."""
    by_family = families(row)
    mine = by_family.pop(ours, None)
    peer = best(by_family.values(), row["better"])
    if mine is None or peer is None:
        return None
    overlap = mine["low"] <= peer["high"] and peer["low"] <= mine["high"]
    return Verdict(mine, peer, ratio(mine["median"], peer["median"], row["better"]), overlap)
