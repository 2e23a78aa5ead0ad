"""Event loops inside the VM, by what drives them; loops outside; the floor. Programs: `bench/beam`."""

from __future__ import annotations

import peers
from model import Arm, Case, Metric, Suite, Topic

from suites import beam, pyloop

OURS, FLOOR, NOTHING, WORKER, BARE = "erlang_python", beam.FLOOR, beam.NOTHING, "worker", "bare"
DRIVERS = ("thread", "beam", "block")
OUTSIDE = {"outside": "erlang", "uvloop": "uvloop", "rloop": "rloop"}
"""Loops in a process of their own, by the name of the arm: ours and its peers."""

_NOTES = {
    FLOOR: "a coroutine stepped in C on a dirty scheduler: no task, no loop, no timeout",
    NOTHING: "nobody calls Python",
    BARE: "a bare thread of C: a queue and an `asyncio.Task` for each, or `epoll_wait` and a call",
    WORKER: "a loop of callback ids: a message to a process, no Python",
    "outside": "our loop without the VM",
    "beam": "no thread: the BEAM waits for the loop",
    "block": "`erlang.run` inside of a call",
}
_APART = (FLOOR, NOTHING, WORKER, BARE)
"""They do other work than the row says."""


def _inside(name: str, topic: str) -> Arm:
    """One of the drivers: the thread, which is the default, stands for ours."""
    family = OURS if name == "thread" else name
    return Arm(name, family, (str(beam.BUILT / "run"), topic, name), name not in _APART, _NOTES.get(name, ""))


def _outside(name: str, topic: str) -> Arm:
    command = (str(peers.PYTHON), "-m", "pyloop", topic, OUTSIDE[name])
    return Arm(name, name, command, note=_NOTES.get(name, ""))


def _tasks(row: str, title: str, *params: str, quick: tuple[str, ...] = ()) -> Case:
    return Case(
        id=f"tasks.{row}{''.join(params)}",
        topic="tasks",
        arms=tuple(_inside(name, "tasks") for name in ("thread", "beam", FLOOR, BARE)),
        metrics=(Metric(title, "tasks/s", "higher"),),
        params=(f"row={row}", *params),
        quick=(f"row={row}", *params, *quick, "millis=50"),
        profile=("millis=2000",),
    )


def _hosted(
    topic: str, row: str, metrics: tuple[Metric, ...], params: tuple[str, ...], quick: tuple[str, ...]
) -> Case:
    arms = (*(_inside(name, topic) for name in DRIVERS), *(_outside(name, topic) for name in OUTSIDE))
    return Case(f"{topic}{row}", topic, arms, metrics, params, quick)


def _echo(conns: int) -> Case:
    load = ("size=1024", f"conns={conns}")
    title = f"1 KiB, {conns} connection{'s' if conns > 1 else ''}"
    metrics = (Metric(title, "echoes/s", "higher"),)
    return _hosted(
        "tcp", f".{conns}", metrics, (*load, "warm=100", "millis=400"), (*load, "warm=10", "millis=30")
    )


def _percentiles(title: str) -> tuple[Metric, ...]:
    return Metric(f"{title}, p50", "us", "lower"), Metric(f"{title}, p99", "us", "lower", "p99")


def _wakeups(row: str, title: str, *arms: str) -> Case:
    return Case(
        id=f"wakeups.{row}",
        topic="wakeups",
        arms=tuple(_inside(name, "wakeups") for name in arms),
        metrics=_percentiles(title),
        params=(f"row={row}",),
        quick=(f"row={row}", "times=20"),
    )


_TOPICS = (
    Topic(
        "tasks",
        "Tasks from Erlang",
        "A coroutine that returns its argument: `py_event_loop:run` one after another, on the pool from one "
        "process and from fifty; ten thousand tasks created, then awaited; `py:async_gather`; `spawn_task` "
        "until the last has run.",
    ),
    Topic(
        "tcp",
        "Echo from inside the VM",
        "The server inside the VM, by what drives its loop, and the same server outside. Server and client "
        "have a core each.",
    ),
    Topic("timers", "Timers inside the VM", "Five thousand timers due in 1 to 5 ms, until the last fired."),
    Topic("lateness", "Lateness inside the VM", "How long after its millisecond a sleep returns."),
    Topic(
        "wakeups",
        "Wake-ups",
        "A loop that sleeps: the time until its callback runs when a pipe becomes readable, and until the "
        "first line of a task of Erlang.",
    ),
    Topic(
        "jitter",
        "Normal schedulers",
        "A process that sleeps for 1 ms at a time while fifty others keep all loops of the pool busy.",
    ),
)


def build() -> None:
    beam.build()
    pyloop.build()


def absent() -> dict[str, str]:
    """The peers that this Python cannot import."""
    missing = peers.ask(OUTSIDE.values())[1]
    return {arm: missing[module] for arm, module in OUTSIDE.items() if module in missing}


def versions() -> dict[str, str]:
    found, _ = peers.ask(OUTSIDE.values())
    return {**beam.versions(), "uvloop": found.get("uvloop", ""), "rloop": found.get("rloop", "")}


SUITE = Suite(
    id="loops",
    title=f"Event loops inside the VM, Python {peers.VERSION}",
    ours=OURS,
    results=f"loops-py{peers.VERSION}",
    topics=_TOPICS,
    cases=(
        _tasks("run", "`py_event_loop:run`, one process"),
        _tasks("pool", "`py_event_loop_pool:run`, one process"),
        _tasks("pool", "`py_event_loop_pool:run`, 50 processes", "processes=50"),
        _tasks("collect", "10 000 tasks created, then awaited", "tasks=10000", quick=("tasks=500",)),
        _tasks("gather", "`py:async_gather` of 1 000", "tasks=1000", quick=("tasks=100",)),
        _tasks("spawn", "`spawn_task`, until the last has run", "tasks=10000", quick=("tasks=500",)),
        _echo(1),
        _echo(64),
        _hosted(
            *("timers", ".fire", (Metric("fired", "timers/s", "higher"),)),
            *(("row=fire",), ("row=fire", "millis=40")),
        ),
        _hosted("lateness", "", _percentiles("`sleep(1 ms)`, lateness"), (), ("sleeps=40",)),
        _wakeups("fd", "a pipe becomes readable", *DRIVERS, WORKER, BARE),
        _wakeups("task", "a task begins", "thread", "beam"),
        Case(
            id="jitter",
            topic="jitter",
            arms=tuple(_inside(name, "jitter") for name in ("thread", "beam", NOTHING)),
            metrics=_percentiles("a sleep of 1 ms under load"),
            quick=("calls=100",),
        ),
    ),
    build=build,
    absent=absent,
    versions=versions,
    reference="outside",
)
