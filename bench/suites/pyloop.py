"""The asyncio loop against asyncio, uvloop, rloop, zuvloop, for TLS aiofastnet. Programs: `bench/pyloop`."""

from __future__ import annotations

import platform
import subprocess

import machine
import peers
from model import Arm, Case, Metric, Suite, Topic

OURS = "erlang"
LOOPS = (OURS, "uvloop", "rloop", "zuvloop", "asyncio")
TLS_LOOPS = (*LOOPS, "aiofastnet")

INSIDE, NETWORK, WAITING = "without network", "network", "waiting and memory"

KIB = 1024
SIZES = (1, 10, 100)
FACES = {
    "tcp": "TCP, Protocol",
    "buffered": "TCP, BufferedProtocol",
    "streams": "TCP, streams",
    "sock": "TCP, `sock_*`",
    "unix": "Unix sockets, Protocol",
    "udp": "UDP",
    "tls": "TLS 1.3, Protocol",
}


def _arms(topic: str, loops: tuple[str, ...] = LOOPS) -> tuple[Arm, ...]:
    return tuple(Arm(name, name, (str(peers.PYTHON), "-m", "pyloop", topic, name)) for name in loops)


def _rate(topic: str, row: str, title: str, unit: str) -> Case:
    return Case(
        id=f"{topic}.{row}",
        topic=topic,
        arms=_arms(topic),
        metrics=(Metric(title, unit, "higher"),),
        params=(f"row={row}",),
        quick=(f"row={row}", "millis=40"),
        profile=("millis=1500",),
    )


def _echo(face: str, kib: int, conns: int) -> Case:
    load = (f"size={kib * KIB}", f"conns={conns}")
    many = f"{conns} connections" if conns > 1 else "1 connection"
    return Case(
        id=f"{face}.{kib}k.{conns}",
        topic=face,
        arms=_arms(face, TLS_LOOPS if face == "tls" else LOOPS),
        metrics=(Metric(f"{kib} KiB, {many}", "echoes/s", "higher"),),
        params=(*load, "warm=60", "millis=250"),
        quick=(*load, "warm=10", "millis=30"),
        profile=("millis=1500",),
    )


def _echoes() -> tuple[Case, ...]:
    streams = tuple(
        _echo(face, kib, conns) for face in FACES if face != "udp" for kib in SIZES for conns in (1, 64)
    )
    # No datagram is larger than 64 KiB, and 64 of 10 KiB would not fit into a socket's receive buffer.
    return (*streams, *(_echo("udp", kib, conns) for kib, conns in ((1, 1), (1, 64), (10, 1), (10, 8))))


_LATENESS = Case(
    id="lateness",
    topic="lateness",
    arms=_arms("lateness"),
    metrics=(
        Metric("`sleep(1 ms)`, lateness, p50", "us", "lower"),
        Metric("`sleep(1 ms)`, lateness, p99", "us", "lower", "p99"),
    ),
    quick=("sleeps=40",),
)

_IDLE = (
    Case(
        id="idle.memory",
        topic="idle",
        arms=_arms("idle"),
        metrics=(Metric("idle connections by the thousand, memory of each", "KiB", "lower"),),
        params=("row=memory",),
        quick=("row=memory", "conns=200"),
    ),
    Case(
        id="idle.wakeups",
        topic="idle",
        arms=_arms("idle"),
        metrics=(Metric("wake-ups in a sleep of 1 s, its end included", "wake-ups", "lower"),),
        params=("row=wakeups",),
        quick=("row=wakeups",),
    ),
)

_ECHO_ABOUT = (
    "The server is the measured process. The client is a process on another core; it keeps one message in "
    "flight on every connection and compares every byte. CPU time is the server's."
)

_TOPICS = (
    Topic(
        "calls",
        "Callbacks",
        "`call_soon` with one argument: a thousand in one turn; each from the one before.",
        INSIDE,
    ),
    Topic(
        "tasks",
        "Tasks",
        "Ten tasks that `sleep(0)` in turn; a thousand tasks created and awaited; `gather` of ten thousand "
        "`sleep(1 ms)`.",
        INSIDE,
    ),
    Topic(
        "timers",
        "Timers",
        "Five thousand timers due in 1 to 5 ms, until the last has fired; as many armed, then cancelled; "
        "armed and cancelled one by one; `async with asyncio.timeout(60)` around a `sleep(0)`.",
        INSIDE,
    ),
    Topic(
        "threads",
        "Other threads",
        "`call_soon_threadsafe`: one thread posts without a pause; two loops in two threads answer each "
        "other.",
        INSIDE,
    ),
    Topic(
        "readers",
        "Readers",
        "`add_reader` and `remove_reader` in one turn; armed for each event anew; sixteen socket pairs "
        "throwing a byte back and forth with both ends watched.",
        INSIDE,
    ),
    Topic(
        "executor",
        "Executor",
        "`run_in_executor` with the default executor: one after another, and a hundred at a time.",
        INSIDE,
    ),
    Topic(
        "processes",
        "Child processes",
        "`true` started and awaited; `cat` fed and read through pipes.",
        INSIDE,
    ),
    *(Topic(face, f"Echo: {title}", _ECHO_ABOUT, NETWORK) for face, title in FACES.items()),
    Topic(
        "lateness",
        "Lateness",
        "How long after its millisecond a sleep returns, on a loop with nothing else to do.",
        WAITING,
    ),
    Topic(
        "idle",
        "Idle",
        "Memory that is the server process's own, a connection that has echoed one byte; voluntary context "
        "switches of all its threads while it sleeps with a server and a far timer in place.",
        WAITING,
    ),
)


def build() -> None:
    command = ("cargo", "build", "--release", "--quiet", "-p", "bench-client")
    subprocess.run(command, cwd=peers.ROOT, check=True)
    peers.make()


def absent() -> dict[str, str]:
    """The loops that this Python cannot import."""
    return peers.ask(dict.fromkeys(TLS_LOOPS))[1]


def versions() -> dict[str, str]:
    found, _ = peers.ask(dict.fromkeys(TLS_LOOPS))
    others = {name: version for name, version in found.items() if version and name != "asyncio"}
    return {
        "Python": f"{platform.python_implementation()} {platform.python_version()}",
        **others,
        "OpenSSL": machine.output(str(peers.PYTHON), "-c", "import ssl; print(ssl.OPENSSL_VERSION)"),
        "rustls (client)": machine.locked_version("rustls"),
        "rustc": machine.output("rustc", "--version").removeprefix("rustc "),
    }


SUITE = Suite(
    id="pyloop",
    title=f"The asyncio loop (`erlang`), Python {peers.VERSION}",
    ours=OURS,
    reference="uvloop",
    results=f"pyloop-py{peers.VERSION}",
    quick_rounds=1,
    topics=_TOPICS,
    cases=(
        _rate("calls", "batch", "`call_soon`, batch", "calls/s"),
        _rate("calls", "chain", "`call_soon`, chain", "calls/s"),
        _rate("tasks", "switch", "task switch", "switches/s"),
        _rate("tasks", "create", "task creation", "tasks/s"),
        _rate("tasks", "sleeps", "`gather` of 10 000 sleeps", "sleeps/s"),
        _rate("timers", "fire", "fired", "timers/s"),
        _rate("timers", "cancel", "armed, then all cancelled", "timers/s"),
        _rate("timers", "pair", "armed and cancelled one by one", "timers/s"),
        _rate("timers", "timeout", "`asyncio.timeout`", "timeouts/s"),
        _rate("threads", "flood", "`call_soon_threadsafe`, flood", "calls/s"),
        _rate("threads", "pingpong", "`call_soon_threadsafe`, ping-pong", "round trips/s"),
        _rate("readers", "churn", "added and removed", "pairs/s"),
        _rate("readers", "oneshot", "armed for one event", "events/s"),
        _rate("readers", "events", "left in place", "events/s"),
        _rate("executor", "trip", "one by one", "round trips/s"),
        _rate("executor", "many", "a hundred at a time", "round trips/s"),
        _rate("processes", "spawn", "`true`", "processes/s"),
        _rate("processes", "pipes", "`cat` with pipes", "processes/s"),
        *_echoes(),
        _LATENESS,
        *_IDLE,
    ),
    build=build,
    absent=absent,
    versions=versions,
)
