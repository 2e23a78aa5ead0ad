"""Task graphs against oneTBB and rayon, and Redis commands in flight. Programs: `bench/dag`, `bench/tbb`."""

from __future__ import annotations

import subprocess
from pathlib import Path

import machine
from model import Arm, Case, Metric, Suite, Topic

ROOT = Path(__file__).resolve().parent.parent.parent
RUST = ROOT / "target" / "release" / "bench-dag"
TBB = ROOT / "build" / "bench" / "tbb_peer"

_RAYON_NOTE = (
    "rayon has no graphs: a scope written for one graph of one function, without values, errors or a plan"
)


def _rust(topic: str, arm: str, name: str | None = None) -> Arm:
    return Arm(name or arm, name or arm, (str(RUST), topic, arm))


def _graph(shape: str, title: str) -> Case:
    return Case(
        id=f"graph.{shape}",
        topic="graph",
        arms=(
            _rust("graph", "dag"),
            Arm("oneTBB", "oneTBB", (str(TBB), "graph")),
            Arm("rayon", "rayon", (str(RUST), "graph", "rayon"), ranked=False, note=_RAYON_NOTE),
        ),
        metrics=(
            Metric(f"{title}: run again, per node", "ns", "lower"),
            Metric(f"{title}: build, per node", "ns", "lower", "build"),
        ),
        params=(f"shape={shape}", "nodes=1000000", "runs=10"),
        quick=(f"shape={shape}", "nodes=20000", "runs=2"),
    )


def _redis(in_flight: int) -> Case:
    return Case(
        id=f"redis.{in_flight}",
        topic="redis",
        arms=(
            _rust("redis", "dag"),
            _rust("redis", "redis-rs", "redis-rs on tokio"),
            _rust("redis", "pool", "8 threads"),
        ),
        metrics=(Metric(f"{in_flight} in flight", "commands/s", "higher"),),
        params=(f"in_flight={in_flight}", f"commands={50_000 if in_flight < 8 else 300_000}"),
        quick=(f"in_flight={in_flight}", "commands=2000"),
    )


_TOPICS = (
    Topic(
        "graph",
        "Graphs of nodes that do nothing",
        "A million nodes, two threads; the first run is not counted. Chain: one after the other. Fan: one, "
        "then all, then one. Tree: two behind every node. Layered: layers of a thousand, each node behind "
        "three of the layer before. oneTBB: `continue_node`s of its flow graph, which pass no data. "
        "Every node counts itself.",
    ),
    Topic(
        "redis",
        "Redis commands in flight",
        "GETs of 16 bytes from a redis-server of the row's own, over a Unix socket. Ours and redis-rs: one "
        "thread, one connection (`MultiplexedConnection` on a current-thread runtime), so many coroutines in "
        "a loop. The pool: up to eight threads with a blocking connection each.",
    ),
)


def build() -> None:
    """Both programs, optimised. Warnings of the C++ compiler are errors."""
    subprocess.run(("cargo", "build", "--release", "--quiet", "-p", "bench-dag"), cwd=ROOT, check=True)
    TBB.parent.mkdir(parents=True, exist_ok=True)
    found = subprocess.run(("pkg-config", "--cflags", "--libs", "tbb"), capture_output=True, text=True)
    if found.returncode != 0:
        raise SystemExit("oneTBB is missing: install libtbb-dev and pkg-config")
    sources = sorted(str(path) for path in (ROOT / "bench" / "tbb").glob("*.cpp"))
    flags = ("-std=c++17", "-O2", "-Wall", "-Wextra", "-Werror")
    subprocess.run(("c++", *flags, *sources, "-o", str(TBB), *found.stdout.split(), "-pthread"), check=True)


def versions() -> dict[str, str]:
    return {
        "dag": machine.locked_version("dag"),
        "oneTBB": machine.output(str(TBB), "version"),
        "rayon": machine.locked_version("rayon"),
        "redis-rs": machine.locked_version("redis"),
        "redis-server": machine.output("redis-server", "--version"),
        "rustc": machine.output("rustc", "--version").removeprefix("rustc "),
        "c++": machine.output("c++", "--version"),
    }


SUITE = Suite(
    id="dag",
    title="The scheduler of task graphs (`dag`)",
    ours="dag",
    topics=_TOPICS,
    cases=(
        _graph("chain", "chain"),
        _graph("fan", "fan"),
        _graph("tree", "tree"),
        _graph("layered", "layers"),
        *(_redis(in_flight) for in_flight in (1, 8, 64, 100, 1_000)),
    ),
    build=build,
    versions=versions,
)
