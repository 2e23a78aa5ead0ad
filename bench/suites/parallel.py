"""Computing at the same time: ours against Python's own ways. Programs: `bench/beam`, `bench/parallel`."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import machine
from model import Arm, Case, Metric, Suite, Topic

from suites import beam

ROOT = Path(__file__).resolve().parent.parent.parent
PEERS = ROOT / "bench" / "parallel" / "peers_of_parallel.py"
OURS, ONE, CONTEXTS = "erlang_python", "one interpreter", "contexts"
_INSIDE = {OURS: "parallel", ONE: "single", CONTEXTS: "contexts"}
_NOTES = {CONTEXTS: "the contexts of `py:call`, in the main interpreter"}
CREATED = "an interpreter, or a process, that has imported asyncio"


@cache
def _pythons() -> dict[str, str]:
    """The interpreters of `make pythons`, with and without a GIL."""
    command = (str(ROOT / "tools" / "pythons.sh"), "--list")
    listed = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    return {"subinterp" if not path.endswith("t") else "free": path for path in listed}


def _arm(name: str, topic: str, mode: str) -> Arm:
    python = _pythons().get(mode, "python3.14")
    command: tuple[str, ...]
    if name in _INSIDE:
        command = ("env", f"ERLANG_PYTHON={python}", str(beam.BUILT / "run"), topic, _INSIDE[name])
    else:
        command = (python, str(PEERS), topic, name)
    return Arm(name, name, command, note=_NOTES.get(name, ""))


def _cpu(mode: str, title: str, *arms: str) -> Case:
    return Case(
        id=f"parallel.{mode}",
        topic="parallel",
        arms=tuple(_arm(name, "parallel", mode) for name in arms),
        metrics=(Metric(title, "calls/s", "higher"),),
        params=("row=cpu",),
        quick=("row=cpu", "steps=20000", "millis=50"),
    )


def _interpreters(*names: str) -> tuple[Arm, ...]:
    return tuple(_arm(name, "interpreters", "subinterp") for name in names)


_TOPICS = (
    Topic(
        "parallel",
        "Calls that compute",
        "Eight calls of a loop in plain Python, about 25 ms each, again and again, by two workers: "
        "`py:parallel`, or one after the other in the main interpreter, which the last column compares with; "
        "`multiprocessing.Pool` and the executors of the standard library. All on one Python, in two builds: "
        "with a GIL, where ours has an interpreter for each worker, and without.",
    ),
    Topic(
        "interpreters",
        "What an interpreter costs",
        "The way to one and back, and how long it takes to make one, until it has answered, with "
        f"what it has in memory: {CREATED}; ours has all that calls need.",
    ),
)


def build() -> None:
    """The programs, and ours for the Pythons that run at the same time."""
    beam.build()
    for python in _pythons().values():
        environment = os.environ | {"PYTHON": python}
        subprocess.run(
            (str(ROOT / "tools" / "build_nif.sh"),), cwd=ROOT, check=True, env=environment, stdout=sys.stderr
        )


def absent() -> dict[str, str]:
    return {} if len(_pythons()) == 2 else {OURS: "make pythons builds what it needs"}


def versions() -> dict[str, str]:
    found = {name: machine.output(path, "-V").removeprefix("Python ") for name, path in _pythons().items()}
    return {
        **beam.versions(),
        "Python": found.get("subinterp", ""),
        "Python without a GIL": found.get("free", ""),
    }


SUITE = Suite(
    id="parallel",
    title="Computing at the same time",
    ours=OURS,
    topics=_TOPICS,
    cases=(
        _cpu("subinterp", "with a GIL", OURS, ONE, CONTEXTS, "multiprocessing", "interpreters", "threads"),
        _cpu("free", "without a GIL", OURS, ONE, "multiprocessing", "threads"),
        Case(
            id="interpreters.roundtrip",
            topic="interpreters",
            arms=_interpreters(OURS, ONE, "interpreters", "processes"),
            metrics=(
                Metric("`math.sqrt`, round trip, p50", "us", "lower"),
                Metric("`math.sqrt`, round trip, p99", "us", "lower", "p99"),
            ),
            params=("row=roundtrip",),
            quick=("row=roundtrip", "calls=500"),
        ),
        Case(
            id="interpreters.creation",
            topic="interpreters",
            arms=_interpreters(OURS, "interpreters", "multiprocessing"),
            metrics=(
                Metric("made", "ms", "lower"),
                Metric("memory of each", "MiB", "lower", "memory"),
            ),
            params=("row=creation",),
            quick=("row=creation", "times=2"),
        ),
    ),
    build=build,
    absent=absent,
    versions=versions,
    reference=ONE,
)
