#!/usr/bin/env python3
"""Builds and runs a suite: interleaved rounds in fresh processes, medians and spreads, JSON and the page.

Only a full run writes `bench/results/<suite>.json` and `docs/`; a quick, partial or failed one writes the
same files below `build/bench/`, so that half a result never replaces a whole one.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import cells
import hotspots
import machine
import render
import stats
from model import Arm, Case, Metric, Suite
from results import ArmResult, Hotspot, RowResult, SuiteResult, save
from rounds import Line, Samples, command, run_rounds
from suites import beam, dag, evloop, loops, parallel, pyloop, web

ROOT = Path(__file__).resolve().parent.parent
PARTIAL = ROOT / "build" / "bench"
_MODULES = (evloop, pyloop, beam, loops, dag, web, parallel)
CLOSER = 3
"""How many times as many rounds more a case has that is close."""
OPEN = 8
"""How many times as many it has on top if these do not tell either."""
SUITES = {module.SUITE.id: module.SUITE for module in _MODULES}


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
    if all("early_percent" in line for line in lines):
        result["early_percent"] = statistics.median(line["early_percent"] for line in lines)
    if all("cpu_us" in line for line in lines):
        result["cpu_us"] = statistics.median(line["cpu_us"] for line in lines)
    if all("client_percent" in line for line in lines):
        result["client_percent"] = statistics.median(line["client_percent"] for line in lines)
    return result


def _row_result(case: Case, metric: Metric, samples: Samples) -> RowResult:
    row: RowResult = {
        "id": case.id if metric.key == "value" else f"{case.id}#{metric.key}",
        "topic": case.topic,
        "title": metric.title,
        "unit": metric.unit,
        "better": metric.better,
        "arms": [
            arm_result(arm, metric, samples.lines[case.id, arm.name])
            for arm in case.arms
            if (case.id, arm.name) in samples.lines
        ],
    }
    failed = {name: f"failed: {why}" for (at, name), why in samples.failed.items() if at == case.id}
    lacking = {name: why for (at, name), why in samples.lacking.items() if at == case.id}
    if failed or lacking:
        row["lacking"] = lacking | failed
    return row


def row_results(cases: Sequence[Case], samples: Samples) -> list[RowResult]:
    return [_row_result(case, metric, samples) for case in cases for metric in case.metrics]


def doubtful(
    suite: Suite, cases: Sequence[Case], samples: Samples, doubt: Callable[[stats.Verdict], bool]
) -> list[Case]:
    """Those of which the rounds so far do not say who is ahead. Whether ours is does not count."""
    return [
        case
        for case in cases
        if any(
            (found := stats.verdict(row, suite.ours)) is not None and doubt(found)
            for row in row_results([case], samples)
        )
    ]


def run_more(suite: Suite, cases: Sequence[Case], rounds: int, samples: Samples) -> tuple[int, int]:
    """More rounds for the cases that are close, and many more for those that stay open. How many."""
    close = doubtful(suite, cases, samples, lambda found: found.close)
    more = CLOSER * rounds if close else 0
    run_rounds(close, more, False, samples)
    left = doubtful(suite, close, samples, lambda found: found.open)
    many = OPEN * rounds if left else 0
    run_rounds(left, many, False, samples)
    return more, many


def add_profiles(suite: Suite, rows: Sequence[RowResult]) -> None:
    """A row that is behind is shown with where the time goes, ours and the better peer's."""
    cases = {case.id: case for case in suite.cases}
    taken: dict[tuple[str, str], list[Hotspot]] = {}
    for row in rows:
        found = stats.verdict(row, suite.ours)
        if found is None or found.ahead or found.level:
            continue
        case = cases[row["id"].split("#")[0]]
        arms = {arm.name: arm for arm in case.arms}
        for name in (found.ours["name"], found.peer["name"]):
            if (case.id, name) not in taken:
                print(f"profile: {case.id} {name}", file=sys.stderr, flush=True)
                taken[case.id, name] = hotspots.profile(
                    [*command(case, arms[name], quick=False), *case.profile]
                )
            row.setdefault("profiles", {})[name] = taken[case.id, name]


def cases_of(suite: Suite, topics: Sequence[str], absent: dict[str, str]) -> list[Case]:
    """The cases of the topics asked for, with the arms that can be measured here."""
    chosen = [case for case in suite.cases if not topics or case.topic in topics]
    return [
        dataclasses.replace(case, arms=tuple(arm for arm in case.arms if arm.family not in absent))
        for case in chosen
    ]


def run_suite(suite: Suite, topics: Sequence[str], rounds: int, quick: bool) -> tuple[SuiteResult, Samples]:
    print(f"building {suite.id}", file=sys.stderr, flush=True)
    busy = machine.is_busy()
    suite.build()
    absent = suite.absent()
    for family, why in absent.items():
        print(f"not there: {family} ({why})", file=sys.stderr)
    if busy:
        print(
            f"the machine is busy (load {machine.load_average()}): high percentiles will suffer",
            file=sys.stderr,
        )
    cases = cases_of(suite, topics, absent)
    before = machine.load_average()
    started = time.monotonic()
    samples = run_rounds(cases, rounds, quick)
    more, many = (0, 0) if quick else run_more(suite, cases, rounds, samples)
    rows = row_results(cases, samples)
    seconds = round(time.monotonic() - started)
    load = f"{before} before, {machine.load_average()} after"
    result: SuiteResult = {
        "suite": suite.results or suite.id,
        "title": suite.title,
        "ours": suite.ours,
        "reference": suite.reference,
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "rounds": rounds,
        "more": more,
        "many": many,
        "quick": quick,
        "seconds": seconds,
        "machine": {**machine.describe(), "load (1 min)": load},
        "versions": suite.versions(),
        "absent": absent,
        "topics": [
            {"id": topic.id, "title": topic.title, "about": topic.about, "group": topic.group}
            for topic in suite.topics
        ],
        "rows": rows,
    }
    return result, samples


def print_summary(result: SuiteResult) -> None:
    for row in result["rows"]:
        found = stats.verdict(row, result["ours"])
        ratio = f"{found.ratio:6.2f}x" if found else "      -"
        print(f"{row['topic']:9} {row['title']:52} {ratio}  {cells.verdict_text(found).replace('*', '')}")


def chosen(name: str | None, topics: Sequence[str]) -> list[Suite]:
    """The suite asked for, or every one that has a topic asked for."""
    suites = [SUITES[name]] if name else list(SUITES.values())
    known = {topic.id for suite in suites for topic in suite.topics}
    unknown = sorted(set(topics) - known)
    if unknown:
        raise SystemExit(f"no such topic: {', '.join(unknown)}; there are {', '.join(sorted(known))}")
    return [suite for suite in suites if not topics or any(topic.id in topics for topic in suite.topics)]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Measures ours beside its peers, in one run.")
    parser.add_argument("topics", nargs="*", metavar="topic", help="only these topics")
    parser.add_argument("--suite", choices=sorted(SUITES), help="only this one")
    parser.add_argument("--rounds", type=int, help="processes per arm")
    parser.add_argument("--quick", action="store_true", help="small sizes: checks that everything runs")
    parser.add_argument("--no-profiles", action="store_true", help="rows that are behind get no profile")
    options = parser.parse_args(arguments)
    whole, partial, faults = 0, [], 0
    for suite in chosen(options.suite, options.topics):
        rounds = options.rounds or (suite.quick_rounds if options.quick else suite.rounds)
        result, samples = run_suite(suite, options.topics, rounds, options.quick)
        print_summary(result)
        # Before the profiles, so that a run ended among them has its numbers.
        save(result, PARTIAL / suite.file)
        if not options.quick and not options.no_profiles:
            add_profiles(suite, result["rows"])
        for (case, arm), why in samples.failed.items():
            print(f"FAILED: {case}, {arm}: {why}", file=sys.stderr)
        faults += len(samples.failed)
        if options.quick or options.topics or samples.failed or suite.ours in result["absent"]:
            partial.append(result)
            save(result, PARTIAL / suite.file)
        else:
            whole += 1
            save(result, render.RESULTS / suite.file)
    if whole:
        render.main()
    if partial:
        render.write(partial, PARTIAL)
        print(f"not a full run: written to {PARTIAL.relative_to(ROOT)}/", file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
