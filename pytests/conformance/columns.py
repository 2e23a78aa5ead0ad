"""Owns the comparison of two columns of test results, stdlib's loop and ours, and the table of named
exceptions.
"""

import fnmatch
import sys
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

PASSED = ("pass", "xfail")


@dataclass
class Outcome:
    outcome: str
    detail: str = ""
    loops: int = 0


Column = dict[str, Outcome]


@dataclass
class Rule:
    """One row of the table: tests, by a pattern of their ids, that need not pass with ours, and why."""

    pattern: str
    reason: str
    pythons: list[str] = field(default_factory=list)
    used: bool = False

    def covers(self, test: str) -> bool:
        if self.pythons and "{}.{}".format(*sys.version_info[:2]) not in self.pythons:
            return False
        return fnmatch.fnmatchcase(test, self.pattern)


def read_rules(path: Path, suite: str) -> list[Rule]:
    table = tomllib.loads(path.read_text())
    rules = [Rule(row["test"], row["reason"], row.get("pythons", [])) for row in table.get(suite, [])]
    for rule in rules:
        if not rule.reason.strip():
            raise ValueError(f"{path}: {rule.pattern} gives no reason")
    return rules


@dataclass
class Comparison:
    """What ours makes of the tests that pass with stdlib's loop."""

    passed: int = 0
    worse: dict[str, Outcome] = field(default_factory=dict)
    excepted: dict[str, str] = field(default_factory=dict)
    neither: list[str] = field(default_factory=list)
    skipped: int = 0
    better: list[str] = field(default_factory=list)
    loops: int = 0
    tests_with_loops: int = 0


def compare(stdlib: Column, ours: Column, rules: list[Rule]) -> Comparison:
    result = Comparison()
    for test, expected in stdlib.items():
        got = ours.get(test, Outcome("missing"))
        result.loops += got.loops
        result.tests_with_loops += got.loops > 0
        if expected.outcome == "skip":
            result.skipped += 1
        elif got.outcome in PASSED:
            result.passed += 1
            if expected.outcome not in PASSED:
                result.better.append(test)
        elif expected.outcome not in PASSED:
            result.neither.append(test)
        elif rule := next((rule for rule in rules if rule.covers(test)), None):
            rule.used = True
            result.excepted[test] = rule.reason
        else:
            result.worse[test] = got
    return result


def last_line(detail: str) -> str:
    lines = [line for line in detail.strip().splitlines() if line.strip()]
    return lines[-1].strip()[:160] if lines else ""


def report(result: Comparison, *, details: bool) -> str:
    lines = []
    for test, got in sorted(result.worse.items()):
        lines.append(f"  {got.outcome:8} {test}\n           {last_line(got.detail)}")
        if details and got.detail:
            lines.append("".join(f"           | {line}\n" for line in got.detail.splitlines()))
    return "\n".join(lines)
