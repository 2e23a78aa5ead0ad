#!/usr/bin/env python3
"""Builds and runs a suite: interleaved rounds in fresh processes, medians and spreads, JSON and the page.

Only a full run writes `bench/results/<suite>.json` and `docs/benchmarks.md`; a quick or partial one writes
the same two files below `build/bench/`, so that half a result never replaces a whole one.
"""

from __future__ import annotations

import argparse
import datetime
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import hotspots
import machine
import render
import stats
from model import Arm, Case, Metric, Suite
from results import ArmResult, Hotspot, RowResult, SuiteResult, save
from suites import evloop

ROOT = Path(__file__).resolve().parent.parent
SUITES = {suite.id: suite for suite in (evloop.SUITE,)}
FULL_ROUNDS, QUICK_ROUNDS = 5, 2
STUCK_SECONDS = 300
"""A process that hangs ends the run; no result depends on it."""

Line = dict[str, float]
"""The numbers of one JSON line."""
Lines = dict[tuple[str, str], list[Line]]
"""By case and arm."""


def command(case: Case, arm: Arm, quick: bool) -> list[str]:
    return [*arm.command, *(case.quick if quick else case.params)]


def measure(case: Case, arm: Arm, quick: bool) -> Line:
    """One process, one line. A failed check inside it ends the whole run: there is nothing to average."""
    line = command(case, arm, quick)
    try:
        run = subprocess.run(line, capture_output=True, text=True, timeout=STUCK_SECONDS)
    except subprocess.TimeoutExpired:
        raise SystemExit(f"{case.id}, {arm.name}: hangs") from None
    if run.returncode != 0:
        raise SystemExit(f"{case.id}, {arm.name}: {run.stderr.strip() or f'exit code {run.returncode}'}")
    answer = json.loads(run.stdout)
    if answer["topic"] != case.topic:
        raise SystemExit(f"{case.id}, {arm.name}: answers for {answer['topic']}")
    return {key: float(value) for key, value in answer.items() if isinstance(value, int | float)}


def run_rounds(cases: Sequence[Case], rounds: int, quick: bool) -> Lines:
    """Round by round over all, so that noise hits all arms alike; who starts changes with the round."""
    lines: Lines = {}
    total = rounds * sum(len(case.arms) for case in cases)
    done = 0
    for turn in range(rounds):
        for case in cases:
            first = turn % len(case.arms)
            for arm in case.arms[first:] + case.arms[:first]:
                done += 1
                line = measure(case, arm, quick)
                lines.setdefault((case.id, arm.name), []).append(line)
                shown = ", ".join(render.number(line[metric.key], metric.unit) for metric in case.metrics)
                print(f"[{done:3}/{total}] {case.id:14} {arm.name:26} {shown}", file=sys.stderr, flush=True)
    return lines


def arm_result(arm: Arm, metric: Metric, lines: Sequence[Line]) -> ArmResult:
    samples = [line[metric.key] for line in lines]
    summary = stats.summarise(samples)
    result: ArmResult = {
        "name": arm.name,
        "family": arm.family,
        "ranked": arm.ranked,
        "note": arm.note,
        "samples": samples,
        "median": summary.median,
        "low": summary.low,
        "high": summary.high,
        "cpu_seconds": statistics.median(line["cpu_seconds"] for line in lines),
    }
    early = [line["early_percent"] for line in lines if "early_percent" in line]
    if early:
        result["early_percent"] = statistics.median(early)
    return result


def row_results(cases: Sequence[Case], lines: Lines) -> list[RowResult]:
    return [
        {
            "id": case.id if metric.key == "value" else f"{case.id}#{metric.key}",
            "topic": case.topic,
            "title": metric.title,
            "unit": metric.unit,
            "better": metric.better,
            "arms": [arm_result(arm, metric, lines[case.id, arm.name]) for arm in case.arms],
        }
        for case in cases
        for metric in case.metrics
    ]


def add_profiles(suite: Suite, rows: Sequence[RowResult]) -> None:
    """A row that is behind is shown with where the time goes, ours and the better peer's."""
    cases = {case.id: case for case in suite.cases}
    taken: dict[tuple[str, str], list[Hotspot]] = {}
    for row in rows:
        found = stats.verdict(row, suite.ours)
        if found is None or found.ahead:
            continue
        case = cases[row["id"].split("#")[0]]
        arms = {arm.name: arm for arm in case.arms}
        for name in (found.ours["name"], found.peer["name"]):
            if (case.id, name) not in taken:
                print(f"profile: {case.id} {name}", file=sys.stderr, flush=True)
                taken[case.id, name] = hotspots.profile(command(case, arms[name], quick=False))
            row.setdefault("profiles", {})[name] = taken[case.id, name]


def run_suite(suite: Suite, topics: Sequence[str], rounds: int, quick: bool) -> SuiteResult:
    print(f"building {suite.id}", file=sys.stderr, flush=True)
    busy = machine.is_busy()
    suite.build()
    if busy:
        print(
            f"the machine is busy (load {machine.load_average()}): high percentiles will suffer",
            file=sys.stderr,
        )
    cases = [case for case in suite.cases if not topics or case.topic in topics]
    before = machine.load_average()
    started = time.monotonic()
    rows = row_results(cases, run_rounds(cases, rounds, quick))
    seconds = round(time.monotonic() - started)
    load = f"{before} before, {machine.load_average()} after"
    if not quick:
        add_profiles(suite, rows)
    return {
        "suite": suite.id,
        "title": suite.title,
        "ours": suite.ours,
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "rounds": rounds,
        "quick": quick,
        "seconds": seconds,
        "machine": {**machine.describe(), "load (1 min)": load},
        "versions": suite.versions(),
        "topics": [{"id": topic.id, "title": topic.title, "about": topic.about} for topic in suite.topics],
        "rows": rows,
    }


def print_summary(result: SuiteResult) -> None:
    for row in result["rows"]:
        found = stats.verdict(row, result["ours"])
        ratio = f"{found.ratio:6.2f}x" if found else "      -"
        print(f"{row['topic']:8} {row['title']:52} {ratio}  {render.verdict_text(found).replace('*', '')}")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Measures ours beside its peers, in one run.")
    parser.add_argument("topics", nargs="*", metavar="topic", help="only these topics")
    parser.add_argument("--suite", choices=sorted(SUITES), default="evloop")
    parser.add_argument("--rounds", type=int, help=f"processes per arm ({FULL_ROUNDS}; quick {QUICK_ROUNDS})")
    parser.add_argument("--quick", action="store_true", help="small sizes: checks that everything runs")
    options = parser.parse_args(arguments)
    suite = SUITES[options.suite]
    unknown = set(options.topics) - {topic.id for topic in suite.topics}
    if unknown:
        parser.error(f"no such topic: {', '.join(sorted(unknown))}")
    rounds = options.rounds or (QUICK_ROUNDS if options.quick else FULL_ROUNDS)

    result = run_suite(suite, options.topics, rounds, options.quick)
    print_summary(result)
    if options.quick or options.topics:
        folder = ROOT / "build" / "bench"
        save(result, folder / f"{suite.id}.json")
        (folder / "benchmarks.md").write_text(render.render([result]), encoding="utf-8")
        print("not a full run: written to build/bench/", file=sys.stderr)
        return 0
    save(result, render.RESULTS / f"{suite.id}.json")
    return render.main()


if __name__ == "__main__":
    sys.exit(main())
