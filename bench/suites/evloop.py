"""The event-loop core against tokio, libuv and a blocking pool. Programs: `bench/evloop`, `bench/libuv`."""

from __future__ import annotations

import subprocess
from pathlib import Path

import machine
from model import Arm, Case, Metric, Suite, Topic

ROOT = Path(__file__).resolve().parent.parent.parent
RUST = ROOT / "target" / "release" / "bench-evloop"
LIBUV = ROOT / "build" / "bench" / "libuv_peer"


def _rust(topic: str, arm: str, family: str, name: str | None = None) -> Arm:
    return Arm(name or arm, family, (str(RUST), topic, arm))


def _libuv(topic: str, *params: str, name: str = "libuv", ranked: bool = True, note: str = "") -> Arm:
    return Arm(name, "libuv", (str(LIBUV), topic, *params), ranked, note)


def _posts(producers: int, posts: int, quick: int) -> Case:
    return Case(
        id=f"posts.{producers}",
        topic="posts",
        arms=(
            _rust("posts", "evloop", "evloop"),
            _rust("posts", "tokio", "tokio", "tokio recv"),
            _rust("posts", "tokio-recv-many", "tokio", "tokio recv_many"),
            _libuv("posts"),
        ),
        metrics=(Metric(f"{producers} producer{'s' if producers > 1 else ''}", "posts/s", "higher"),),
        params=(f"producers={producers}", f"posts={posts}"),
        quick=(f"producers={producers}", f"posts={quick}", "millis=50"),
    )


def _churn(row: str, title: str, *extra: Arm) -> Case:
    return Case(
        id=f"timers.{row}",
        topic="timers",
        arms=(
            _rust("timers", "evloop", "evloop"),
            _rust("timers", "tokio", "tokio"),
            _libuv("timers"),
            *extra,
        ),
        metrics=(Metric(title, "timers/s", "higher"),),
        params=(f"row={row}",),
        quick=(f"row={row}", "timers=200000", "rounds=1"),
    )


def _wakeup(row: str, title: str, samples: int, quick: int) -> Case:
    return Case(
        id=f"wakeup.{row}",
        topic="wakeup",
        arms=(_rust("wakeup", "evloop", "evloop"), _rust("wakeup", "tokio", "tokio"), _libuv("wakeup")),
        metrics=(Metric(f"{title}, p50", "us", "lower"), Metric(f"{title}, p99", "us", "lower", "p99")),
        params=(f"row={row}", f"samples={samples}"),
        quick=(f"row={row}", f"samples={quick}"),
    )


_FIRE = Case(
    id="timers.fire",
    topic="timers",
    arms=(
        _rust("timers", "evloop", "evloop"),
        _rust("timers", "tokio", "tokio", "tokio spawn"),
        _rust("timers", "tokio-unordered", "tokio", "tokio FuturesUnordered"),
        _libuv("timers"),
        _libuv(
            "timers",
            "exact=1",
            name="libuv, timeout 1",
            ranked=False,
            note="libuv's clock counts whole milliseconds, so its timers of 1 ms may fire early",
        ),
    ),
    metrics=(Metric("10 000 timers of 1 ms, until the last has fired", "ms", "lower"),),
    params=("row=fire", "rounds=40"),
    quick=("row=fire", "rounds=10"),
)

_REARM = _libuv(
    "timers",
    "rearm=1",
    name="libuv, one handle re-armed",
    ranked=False,
    note="starts and stops one handle over and over: no timer is made",
)

_SLEEPS = Case(
    id="sleeps",
    topic="sleeps",
    arms=(
        _rust("sleeps", "evloop", "evloop"),
        _rust("sleeps", "tokio", "tokio"),
        _rust("sleeps", "pool", "8 threads"),
    ),
    metrics=(Metric("1 000 sleeps of 10 ms", "ms", "lower"),),
    params=("sleeps=1000", "millis=10"),
    quick=("sleeps=1000", "millis=10"),
)

_TOPICS = (
    Topic(
        "posts",
        "Posts from other threads",
        "Producers hand small closures (a reference and a number) to one loop; from the first "
        "producer's start to the last closure's execution. tokio: a current-thread runtime with all "
        "drivers, fed by an unbounded channel of boxed closures, taken by `recv` or by `recv_many`, "
        "whichever is better. libuv: a mutexed array of closures that the async callback swaps out, "
        "`uv_async_send` after every push.",
    ),
    Topic(
        "timers",
        "Timers",
        "Made, fired and cancelled on the loop's own thread. No timer of a ranked arm fires early: "
        "libuv is asked for 2 ms where 1 ms is measured, because its clock counts whole milliseconds. "
        "tokio's sleeps are polled once, so that they are registered, lie in one allocation, and are "
        "dropped to cancel them; libuv's timers lie in one allocation and are initialised, started and "
        "stopped. Spread delays are 1 ms to 60 s in a fixed pseudo-random order.",
    ),
    Topic(
        "wakeup",
        "Wake-up latency across threads",
        "Asleep: the kernel reports the loop's thread as sleeping before every sample; from just before"
        " the post to the closure's first line. Ping-pong: two loops post to each other without a "
        "pause; one round trip. Threads are not pinned.",
    ),
    Topic(
        "sleeps",
        "Many sleeps",
        "Handed over by one outside thread; until the last has woken. The pool is eight threads over "
        "one channel, each sleeping in the kernel.",
    ),
)


def build() -> None:
    """Both programs, optimised. Warnings of the C compiler are errors."""
    subprocess.run(("cargo", "build", "--release", "--quiet", "-p", "bench-evloop"), cwd=ROOT, check=True)
    LIBUV.parent.mkdir(parents=True, exist_ok=True)
    pkg_config = subprocess.run(("pkg-config", "--cflags", "--libs", "libuv"), capture_output=True, text=True)
    if pkg_config.returncode != 0:
        raise SystemExit("libuv is missing: install libuv1-dev and pkg-config")
    sources = sorted(str(path) for path in (ROOT / "bench" / "libuv").glob("*.c"))
    flags = ("-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror")
    subprocess.run(
        ("cc", *flags, *sources, "-o", str(LIBUV), *pkg_config.stdout.split(), "-pthread"), check=True
    )


def versions() -> dict[str, str]:
    return {
        "evloop": machine.locked_version("evloop"),
        "tokio": machine.locked_version("tokio"),
        "libuv": machine.output(str(LIBUV), "version"),
        "rustc": machine.output("rustc", "--version").removeprefix("rustc "),
        "cc": machine.output("cc", "--version"),
    }


SUITE = Suite(
    id="evloop",
    title="The event loop (`evloop`)",
    ours="evloop",
    topics=_TOPICS,
    cases=(
        _posts(1, 2_000_000, 400_000),
        _posts(2, 2_000_000, 400_000),
        _posts(4, 1_000_000, 200_000),
        _posts(8, 1_000_000, 200_000),
        _FIRE,
        _churn("alive", "10⁶ armed, then all cancelled, equal delays"),
        _churn("spread", "10⁶ armed, then all cancelled, spread delays"),
        _churn("pair", "10⁶ armed and cancelled one by one", _REARM),
        _wakeup("sparse", "asleep", 600, 150),
        _wakeup("dense", "ping-pong", 20_000, 4_000),
        _SLEEPS,
    ),
    build=build,
    versions=versions,
)
