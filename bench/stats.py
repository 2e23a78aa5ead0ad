"""Medians and spreads of rounds, and who is ahead. A ratio above 1 always means that ours is better."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Sequence
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


DOUBT = 2 / 2**5
"""How likely five fair coins are to fall alike."""


def middle(samples: Sequence[float]) -> tuple[float, float]:
    """What the median lies between, as surely as if five rounds had all ended alike.

    A sample is above the median as often as a coin falls on one side, whatever the samples are like: as many
    of the lowest and the highest can be left out as it would hardly be among.
    """
    ordered, count = sorted(samples), len(samples)
    out, likely = 0, 2 / 2**count
    while 2 * (out + 1) < count and (likely := likely + 2 * math.comb(count, out + 1) / 2**count) <= DOUBT:
        out += 1
    return ordered[out], ordered[-1 - out]


@dataclass(frozen=True)
class Verdict:
    ours: ArmResult
    peer: ArmResult
    """The ranked peer that ours does worst against."""
    rounds: Summary
    """How many times better ours is than that peer, of each round."""
    middle: tuple[float, float]
    """What the median of many more rounds would lie between."""

    @property
    def ratio(self) -> float:
        return self.rounds.median

    @property
    def overlap(self) -> bool:
        """Not every round ended alike: another run may end otherwise."""
        return self.rounds.low <= 1 <= self.rounds.high

    @property
    def close(self) -> bool:
        """The rounds do not tell who is ahead: some end one way, some the other. Equal counts are level."""
        return self.overlap and self.rounds.low != self.rounds.high

    @property
    def open(self) -> bool:
        """Nor do they tell by their numbers."""
        return self.close and self.middle[0] <= 1 <= self.middle[1]

    @property
    def ahead(self) -> bool:
        return self.ratio > 1

    @property
    def level(self) -> bool:
        """Exactly the same, as two counts can be."""
        return self.ratio == 1


def ratio(ours: float, peer: float, better: Better) -> float:
    """How many times better ours is: of two rates the higher one wins, of two times the lower one."""
    above, below = (ours, peer) if better == "higher" else (peer, ours)
    if above == below:
        return 1.0
    return above / below if below > 0 else float("inf")


def best(arms: Iterable[ArmResult], better: Better) -> ArmResult | None:
    ordered = sorted(arms, key=lambda arm: arm["median"])
    if not ordered:
        return None
    return ordered[-1] if better == "higher" else ordered[0]


def families(row: RowResult, also: str = "") -> dict[str, ArmResult]:
    """The best ranked arm of every family, in the order of their appearance; `also` one unranked."""
    arms = [arm for arm in row["arms"] if arm["ranked"] or arm["family"] == also]
    found: dict[str, ArmResult] = {}
    for name in dict.fromkeys(arm["family"] for arm in arms):
        arm = best((arm for arm in arms if arm["family"] == name), row["better"])
        if arm is not None:
            found[name] = arm
    return found


def verdict(row: RowResult, ours: str) -> Verdict | None:
    """Ours against the best peer; None when one of them was not measured.

    Compared round by round: a machine that is faster for a while is so for all that are measured meanwhile,
    and two medians may come from different times.
    """
    by_family = families(row)
    mine = by_family.pop(ours, None)
    if mine is None or not by_family:
        return None
    verdicts = []
    for peer in by_family.values():
        ratios = _rounds(mine, peer, row["better"])
        verdicts.append(Verdict(mine, peer, summarise(ratios), middle(ratios)))
    return min(verdicts, key=lambda found: found.ratio)


def _rounds(mine: ArmResult, other: ArmResult, better: Better) -> list[float]:
    """The two were measured in turn."""
    pairs = zip(mine["samples"], other["samples"], strict=False)
    return [ratio(one, another, better) for one, another in pairs]


def against(row: RowResult, family: str, reference: str) -> Summary | None:
    """How many times better a family is than the reference, of each round."""
    by_family = families(row, reference)
    if family not in by_family or reference not in by_family:
        return None
    return summarise(_rounds(by_family[family], by_family[reference], row["better"]))


def geometric_mean(ratios: Iterable[float]) -> float | None:
    """Of those that have one: neither zero nor infinite. None of nothing."""
    usable = [one for one in ratios if 0 < one < math.inf]
    return statistics.geometric_mean(usable) if usable else None


def rate_against(row: RowResult, family: str, reference: str) -> float | None:
    found = against(row, family, reference)
    return found.median if found else None


def cpu_against(row: RowResult, family: str, reference: str) -> float | None:
    """How many times less CPU time an operation takes: steadier than a rate where others use the cores."""
    by_family = families(row, reference)
    mine, other = (
        by_family[name].get("cpu_us") if name in by_family else None for name in (family, reference)
    )
    return ratio(mine, other, "lower") if mine and other else None


Compare = Callable[[RowResult, str, str], float | None]


def group_mean(
    rows: Iterable[RowResult], family: str, reference: str, compare: Compare = rate_against
) -> tuple[float, int] | None:
    """The geometric mean over the rows that both have, and how many those are."""
    found = [one for row in rows if (one := compare(row, family, reference)) is not None]
    mean = geometric_mean(found)
    return None if mean is None else (mean, len(found))
