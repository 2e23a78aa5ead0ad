"""Results for the tests, made of a few numbers. Imported by name: pytest puts this folder on the path."""

from __future__ import annotations

import stats
from model import Better
from results import ArmResult, RowResult, SuiteResult


def arm(name: str, *samples: float, family: str = "", ranked: bool = True) -> ArmResult:
    summary = stats.summarise(samples)
    return {
        "name": name,
        "family": family or name,
        "ranked": ranked,
        "note": "" if ranked else "does other work",
        "samples": list(samples),
        "median": summary.median,
        "low": summary.low,
        "high": summary.high,
        "cpu_seconds": 0.5,
    }


def row(better: Better, *arms: ArmResult, unit: str = "", id: str = "posts.1") -> RowResult:
    return {
        "id": id,
        "topic": "posts",
        "title": f"the {id} row",
        "unit": unit or ("posts/s" if better == "higher" else "us"),
        "better": better,
        "arms": list(arms),
    }


def suite(*rows: RowResult) -> SuiteResult:
    return {
        "suite": "evloop",
        "title": "The event loop",
        "ours": "evloop",
        "date": "2000-01-01",
        "rounds": 3,
        "quick": False,
        "seconds": 9,
        "machine": {"CPU": "a processor"},
        "versions": {"tokio": "1.0.0"},
        "topics": [{"id": "posts", "title": "Posts", "about": "What is posted."}],
        "rows": list(rows),
    }
