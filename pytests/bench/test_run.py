"""The runner without its programs: the suite's table, results from lines, profiles from `perf`."""

from __future__ import annotations

import hotspots
import run
from model import Arm, Case, Metric
from suites import evloop


def test_every_case_of_a_suite_has_ours_and_a_ranked_peer() -> None:
    for case in evloop.SUITE.cases:
        families = {arm.family for arm in case.arms if arm.ranked}
        assert evloop.SUITE.ours in families and len(families) > 1, case.id
        assert case.topic in {topic.id for topic in evloop.SUITE.topics}


def test_names_of_cases_and_of_arms_within_a_case_are_unique() -> None:
    ids = [case.id for case in evloop.SUITE.cases]
    assert len(ids) == len(set(ids))
    for case in evloop.SUITE.cases:
        names = [arm.name for arm in case.arms]
        assert len(names) == len(set(names)), case.id


def test_an_unranked_arm_says_why() -> None:
    assert all(arm.note for case in evloop.SUITE.cases for arm in case.arms if not arm.ranked)


def test_two_metrics_of_one_case_become_two_rows() -> None:
    case = Case(
        id="wakeup.sparse",
        topic="wakeup",
        arms=(Arm("evloop", "evloop", ()),),
        metrics=(Metric("p50", "us", "lower"), Metric("p99", "us", "lower", "p99")),
    )
    lines = [{"value": 3.0, "p99": 9.0, "cpu_seconds": 1.0}, {"value": 5.0, "p99": 7.0, "cpu_seconds": 3.0}]
    first, second = run.row_results([case], {("wakeup.sparse", "evloop"): lines})
    assert (first["id"], first["arms"][0]["median"]) == ("wakeup.sparse", 4.0)
    assert (second["id"], second["arms"][0]["median"]) == ("wakeup.sparse#p99", 8.0)
    assert first["arms"][0]["cpu_seconds"] == 2.0


def test_the_top_of_a_perf_report_is_read() -> None:
    report = """
# Overhead  Shared Object      Symbol
    86.01%  bench-evloop       [.] tokio::sync::mpsc::list::Tx<T>::find_block
     2.58%  [kernel.kallsyms]  [k] finish_task_switch.isra.0                -      -
     1.10%  libc.so.6          [.] malloc
"""
    assert hotspots.parse(report, limit=2) == [
        {"percent": 86.01, "where": "tokio::sync::mpsc::list::Tx<T>::find_block (bench-evloop)"},
        {"percent": 2.58, "where": "finish_task_switch.isra.0 (kernel.kallsyms)"},
    ]
