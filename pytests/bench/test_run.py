"""The runner without its programs: the suite's table, results from lines, profiles from `perf`."""

from __future__ import annotations

import sys
from pathlib import Path

import hotspots
import pytest
import run
from model import Arm, Case, Metric, Suite, Topic
from rounds import Samples, run_rounds


@pytest.fixture(params=list(run.SUITES.values()), ids=list(run.SUITES))
def suite(request: pytest.FixtureRequest) -> Suite:
    found: Suite = request.param
    return found


def test_every_case_of_a_suite_has_ours_and_a_ranked_peer(suite: Suite) -> None:
    for case in suite.cases:
        families = {arm.family for arm in case.arms if arm.ranked}
        assert suite.ours in families and len(families) > 1, case.id
        assert case.topic in {topic.id for topic in suite.topics}


def test_names_of_cases_and_of_arms_within_a_case_are_unique(suite: Suite) -> None:
    ids = [case.id for case in suite.cases]
    assert len(ids) == len(set(ids))
    for case in suite.cases:
        names = [arm.name for arm in case.arms]
        assert len(names) == len(set(names)), case.id


def test_an_unranked_arm_says_why(suite: Suite) -> None:
    assert all(arm.note for case in suite.cases for arm in case.arms if not arm.ranked)


def test_topics_choose_the_suites_that_have_them() -> None:
    assert [suite.id for suite in run.chosen(None, ["wakeup"])] == ["evloop"]
    assert [suite.id for suite in run.chosen(None, ["timers"])] == ["evloop", "pyloop", "loops"]
    assert [suite.id for suite in run.chosen("pyloop", ["timers"])] == ["pyloop"]
    with pytest.raises(SystemExit, match="wakeup"):
        run.chosen("pyloop", ["wakeup"])


def test_what_is_absent_is_left_out_of_every_case(suite: Suite) -> None:
    cases = run.cases_of(suite, [], {suite.ours: "not built"})
    assert all(arm.family != suite.ours for case in cases for arm in case.arms)


def test_two_metrics_of_one_case_become_two_rows() -> None:
    case = Case(
        id="wakeup.sparse",
        topic="wakeup",
        arms=(Arm("evloop", "evloop", ()),),
        metrics=(Metric("p50", "us", "lower"), Metric("p99", "us", "lower", "p99")),
    )
    lines = [{"value": 3.0, "p99": 9.0, "cpu_seconds": 1.0}, {"value": 5.0, "p99": 7.0, "cpu_seconds": 3.0}]
    first, second = run.row_results([case], Samples(lines={("wakeup.sparse", "evloop"): lines}))
    assert (first["id"], first["arms"][0]["median"]) == ("wakeup.sparse", 4.0)
    assert (second["id"], second["arms"][0]["median"]) == ("wakeup.sparse#p99", 8.0)
    assert first["arms"][0]["cpu_seconds"] == 2.0


def program(text: str, id: str = "posts.1") -> Case:
    arm = Arm("ours", "ours", (sys.executable, "-c", text))
    return Case(id=id, topic="posts", arms=(arm,), metrics=(Metric("", "posts/s", "higher"),))


def test_an_arm_that_gives_no_number_is_left_out_with_its_reason() -> None:
    good = program("""print('{"topic": "posts", "value": 5, "cpu_seconds": 1}')""", "good")
    lacking = program("import sys; print('not here', file=sys.stderr); sys.exit(3)", "lacking")
    broken = program("raise SystemExit('wrong result')", "broken")
    other = program("""print('{"topic": "timers", "value": 5}')""", "other")
    samples = run_rounds([good, lacking, broken, other], rounds=2, quick=False)
    assert [line["value"] for line in samples.lines["good", "ours"]] == [5.0, 5.0]
    assert samples.lacking == {("lacking", "ours"): "not here"}
    assert samples.failed == {
        ("broken", "ours"): "wrong result",
        ("other", "ours"): "answers for timers",
    }
    (row,) = run.row_results([broken], samples)
    assert (row["arms"], row["lacking"]) == ([], {"ours": "failed: wrong result"})


def rivals(folder: Path, id: str, *ours: int) -> Case:
    """Ours gives these numbers in turn, its peer always 100."""
    state = folder / id
    text = f"""
import json, pathlib
state = pathlib.Path({str(state)!r})
left = json.loads(state.read_text()) if state.exists() else {list(ours)}
state.write_text(json.dumps(left[1:] + left[:1]))
print(json.dumps(dict(topic="posts", value=left[0], cpu_seconds=1)))
"""
    peer = "import json; print(json.dumps(dict(topic='posts', value=100, cpu_seconds=1)))"
    arms = tuple(Arm(n, n, (sys.executable, "-c", t)) for n, t in (("ours", text), ("peer", peer)))
    return Case(id=id, topic="posts", arms=arms, metrics=(Metric(f"the {id} row", "posts/s", "higher"),))


def test_what_is_close_gets_more_rounds_whoever_is_ahead_and_all_of_them_count(tmp_path: Path) -> None:
    cases = (
        rivals(tmp_path, "rather ahead", 99, *[140] * 11),
        rivals(tmp_path, "rather behind", 101, *[60] * 11),
        rivals(tmp_path, "open", 99, 140),
        rivals(tmp_path, "ahead", 101, 102),
        rivals(tmp_path, "behind", 99, 98),
        rivals(tmp_path, "counted", 100),
    )
    suite = Suite("fake", "A suite", "ours", (Topic("posts", "Posts", ""),), cases, build=lambda: None)
    result, _ = run.run_suite(suite, [], rounds=3, quick=False)
    assert (result["more"], result["many"]) == (3 * run.CLOSER, 3 * run.OPEN)
    assert {row["id"]: [len(arm["samples"]) for arm in row["arms"]] for row in result["rows"]} == {
        "rather ahead": [12, 12],
        "rather behind": [12, 12],
        "open": [36, 36],
        "ahead": [3, 3],
        "behind": [3, 3],
        "counted": [3, 3],
    }
    result, _ = run.run_suite(suite, [], rounds=2, quick=True)
    assert (result["more"], result["many"]) == (0, 0)
    assert all(len(arm["samples"]) == 2 for row in result["rows"] for arm in row["arms"])


def test_measured_programs_keep_their_compiled_modules_whatever_the_runner_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.setenv("PYTHONPYCACHEPREFIX", "/nowhere")
    case = program(
        "import sys, json\n"
        "kept = sys.pycache_prefix.endswith('build/pycache') and not sys.dont_write_bytecode\n"
        "print(json.dumps({'topic': 'posts', 'value': int(kept), 'cpu_seconds': 0}))",
        "kept",
    )
    samples = run_rounds([case], rounds=1, quick=False)
    assert [line["value"] for line in samples.lines["kept", "ours"]] == [1.0]


def test_the_top_of_a_perf_report_is_read_without_the_helpers_of_the_measured_process() -> None:
    report = "\n".join(
        (
            "# Overhead\tCommand\tShared Object\tSymbol",
            " 50.00% \tbench-client \t[kernel.kallsyms]\t[k] copy_to_user \t-      -",
            " 30.00% \tpython \tlibpython3.11.so\t[.] _PyEval_EvalFrameDefault \t-      -",
            " 10.00% \tpython \tlibc.so.6\t[.] malloc \t-      -",
            " 10.00% \tThread-1 (post)\tlibc.so.6\t[.] malloc \t-      -",
        )
    )
    assert hotspots.parse(report, limit=2) == [
        {"percent": 60.0, "where": "_PyEval_EvalFrameDefault (libpython3.11.so)"},
        {"percent": 40.0, "where": "malloc (libc.so.6)"},
    ]


def test_a_report_of_nothing_gives_no_hotspots() -> None:
    assert hotspots.parse("# no samples", limit=2) == []
