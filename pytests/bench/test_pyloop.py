"""The programs of the asyncio suite: their arguments, their line, and one whole measurement of each kind."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import peers
import pytest
from model import Case
from programs import ROOT, run
from pyloop import loops
from pyloop.__main__ import TOPICS
from pyloop.params import Params
from pyloop.report import Report, percentile
from suites.pyloop import SUITE


def measure(*words: str) -> dict[str, float | str]:
    done = run(sys.executable, "-m", "pyloop", *words, PYTHONPATH=str(ROOT / "bench"))
    assert done.returncode == 0, done.stderr
    answer: dict[str, float | str] = json.loads(done.stdout)
    return answer


def test_a_parameter_nobody_takes_is_an_error() -> None:
    params = Params.parse(["size=10", "conn=3"])
    assert params.number("size", 1) == 10
    assert params.number("conns", 7) == 7
    with pytest.raises(SystemExit, match="conn"):
        params.finish()


@pytest.mark.parametrize("words", [["size"], ["size=many"]])
def test_a_parameter_that_says_nothing_is_an_error(words: list[str]) -> None:
    with pytest.raises(SystemExit):
        Params.parse(words).number("size", 1)


def test_a_line_has_the_cpu_time_an_operation_and_the_further_numbers() -> None:
    line = Report(value=3.0, cpu_seconds=0.5, operations=1000, also={"p99": 9.0}).json("calls", "uvloop")
    expected = {"topic": "calls", "impl": "uvloop", "value": 3.0, "cpu_seconds": 0.5, "cpu_us": 500.0}
    assert json.loads(line) == {**expected, "p99": 9.0}


def test_a_percentile_is_the_nearest_rank() -> None:
    samples = [float(one) for one in range(200, 0, -1)]
    assert (percentile(samples, 50), percentile(samples, 99), percentile([4.0], 99)) == (100.0, 198.0, 4.0)


def test_a_factory_string_gives_its_callable() -> None:
    loop = loops.make("asyncio:SelectorEventLoop")
    other = loops.like(loop)
    assert type(loop) is type(other)
    loop.close()
    other.close()


def test_every_topic_of_the_suite_has_its_program_and_every_loop_its_factory() -> None:
    assert {topic.id for topic in SUITE.topics} == set(TOPICS) == {case.topic for case in SUITE.cases}
    assert {arm.name for case in SUITE.cases for arm in case.arms} <= set(loops.FACTORIES)
    assert all((ROOT / "bench" / "pyloop" / f"{module}.py").is_file() for module in TOPICS.values())


def test_only_named_packages_are_required() -> None:
    assert peers.requirements("# why\nuvloop==1  # a peer\n\nzuvloop==2; python_version >= '3'\n") == [
        "uvloop==1",
        "zuvloop==2; python_version >= '3'",
    ]


ROWS = [case for case in SUITE.cases if case.topic in TOPICS and TOPICS[case.topic] not in ("echo", "idle")]


@pytest.mark.parametrize("case", ROWS, ids=[case.id for case in ROWS])
def test_a_row_runs_on_asyncio_and_answers_for_its_topic(case: Case) -> None:
    answer = measure(case.topic, "asyncio", *case.quick)
    assert answer["topic"] == case.topic
    assert all(isinstance(answer[metric.key], float) for metric in case.metrics)


def test_a_wrong_topic_is_an_error() -> None:
    assert (
        run(sys.executable, "-m", "pyloop", "nothing", "asyncio", PYTHONPATH=str(ROOT / "bench")).returncode
        == 2
    )


def test_what_a_loop_lacks_is_told_by_the_exit_code(tmp_path: Path) -> None:
    (tmp_path / "lacking.py").write_text(
        "import asyncio\n"
        "class Loop(asyncio.SelectorEventLoop):\n"
        "    async def create_unix_server(self, *args, **kwargs):\n"
        "        raise NotImplementedError('no Unix sockets')\n",
        encoding="utf-8",
    )
    path = f"{ROOT / 'bench'}:{tmp_path}"
    done = run(sys.executable, "-m", "pyloop", "unix", "lacking:Loop", PYTHONPATH=path)
    assert done.returncode == 3
    assert "no Unix sockets" in done.stderr
