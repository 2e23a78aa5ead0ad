"""Task graphs against oneTBB and rayon, in Python against asyncio and Dask; Redis commands in flight; a feed.

Programs: `bench/dag`, `bench/tbb`, `bench/pydag`; `bench/beam` for what runs inside the VM.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import machine
import peers
from model import Arm, Case, Metric, Suite, Topic

from suites import beam

ROOT = Path(__file__).resolve().parent.parent.parent
RUST = ROOT / "target" / "release" / "bench-dag"
TBB = ROOT / "build" / "bench" / "tbb_peer"

_RAYON_NOTE = (
    "rayon has no graphs: a scope written for one graph of one function, without values, errors or a plan"
)


def _rust(topic: str, arm: str, name: str | None = None) -> Arm:
    return Arm(name or arm, name or arm, (str(RUST), topic, arm))


def _python(topic: str, arm: str, name: str, *params: str) -> Arm:
    return Arm(name, name, (str(peers.PYTHON), "-m", "pydag", topic, arm, *params))


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
            # So much slower that a part of the commands takes as long.
            _python("redis", "uvloop", "redis-py on uvloop", "part=15"),
        ),
        metrics=(Metric(f"{in_flight} in flight", "commands/s", "higher"),),
        params=(f"in_flight={in_flight}", f"commands={50_000 if in_flight < 8 else 300_000}"),
        quick=(f"in_flight={in_flight}", "commands=2000"),
    )


def _feed(concurrency: int) -> Case:
    title = f"{concurrency} at a time" if concurrency > 1 else "one at a time"
    params = (f"concurrency={concurrency}", f"requests={400 if concurrency < 8 else 2_000}")
    return Case(
        id=f"feed.{concurrency}",
        topic="feed",
        arms=(
            _rust("feed", "dag"),
            _rust("feed", "pool", "8 threads, the same plan"),
            _rust("feed", "threads", "8 threads, a request each"),
        ),
        metrics=(
            Metric(title, "requests/s", "higher"),
            Metric(f"{title}: p50", "ms", "lower", "p50"),
            Metric(f"{title}: p99", "ms", "lower", "p99"),
            Metric(f"{title}: later than 200 ms", "requests", "lower", "late"),
        ),
        params=params,
        quick=(f"concurrency={concurrency}", "requests=64"),
    )


def _nodes(shape: str, title: str) -> Case:
    inside = str(beam.BUILT / "run")
    return Case(
        id=f"nodes.{shape}",
        topic="nodes",
        arms=(
            Arm("erlang.dag, functions", "dag", (inside, "nodes", "ours", "kind=cpu")),
            Arm("erlang.dag, coroutines", "dag", (inside, "nodes", "ours", "kind=async")),
            _python("nodes", "TaskGroup", "asyncio.TaskGroup"),
            _python("nodes", "dask", "Dask, threaded"),
        ),
        metrics=(Metric(f"{title}: run again, per node", "us", "lower"),),
        params=(f"shape={shape}", "nodes=1000", "runs=20"),
        quick=(f"shape={shape}", "nodes=200", "runs=2"),
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
        "a loop. redis-py: a connection for every command in flight, as its pool has it. The threads: up to "
        "eight with a blocking connection each.",
    ),
    Topic(
        "nodes",
        "Graphs of Python functions",
        "A thousand functions that add one to the greatest of their inputs; the first run is not counted. "
        "Ours: `erlang.dag` inside the VM, as functions on contexts and as coroutines on an event loop, with "
        "values that cross as between Python and Erlang. asyncio: a task for every node, which awaits those "
        "before it. Dask: two threads. Layers: of a hundred.",
    ),
    Topic(
        "feed",
        "A feed of data in Redis",
        "The plan of `make run-dag`: 302 commands for a request, in two branches of two steps, then scored, "
        "filtered, sorted. Ours: coroutines on one loop with one connection, functions on a pool of two. "
        "The same plan on eight threads: every command blocks one of them. A request each: eight threads do "
        "a whole request each, command by command, without handing anything over.",
    ),
)


def build() -> None:
    """The programs, optimised. Warnings of the C++ compiler are errors."""
    beam.build()
    peers.make()
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
        "redis-py": peers.ask(["redis"])[0].get("redis", ""),
        "uvloop": peers.ask(["uvloop"])[0].get("uvloop", ""),
        "Dask": peers.ask(["dask"])[0].get("dask", ""),
        **beam.versions(),
        "redis-server": machine.output("redis-server", "--version"),
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
        _nodes("chain", "chain"),
        _nodes("fan", "fan"),
        _nodes("layered", "layers"),
        *(_feed(concurrency) for concurrency in (1, 8, 32, 64, 128)),
    ),
    build=build,
    versions=versions,
)
