"""Web servers: ours in the VM and outside, uvicorn, granian and hypercorn. Programs: `bench/web`."""

from __future__ import annotations

import platform
import shutil
import subprocess
import sys

import machine
import peers
from model import Arm, Case, Metric, Suite, Topic

from suites import pyloop

OURS, STANDALONE = "erlang_python", "standalone"
PEERS = ("uvicorn", "granian", "hypercorn")
_MODULES = ("uvicorn", "uvloop", "httptools", "websockets", "granian", "hypercorn", "h11", "wsproto")


def _arm(name: str, program: str | None = None) -> Arm:
    command = (str(peers.PYTHON), "-m", "web", "web", program or name)
    if name == STANDALONE:
        return Arm(name, name, command, ranked=False, note="`python -m erlang serve`: ours, without the VM")
    return Arm(name, name, command)


def _case(row: str, title: str, unit: str, conns: int) -> Case:
    params = (f"row={row}", f"conns={conns}")
    return Case(
        id=f"web.{row}",
        topic="web",
        arms=(_arm(OURS, "vm"), _arm(STANDALONE), *(_arm(name) for name in PEERS)),
        metrics=(
            Metric(title, unit, "higher"),
            Metric(f"{title}, for a second of CPU time", unit, "higher", "per_cpu"),
        ),
        params=params,
        quick=(*params, "millis=1000"),
    )


_TOPICS = (
    Topic(
        "web",
        "One worker behind a port",
        "One app, bare ASGI, HTTP/1.1 with connections kept alive; `py_asgi:serve` with one loop, uvicorn "
        "with uvloop and httptools, granian and hypercorn with uvloop, one worker each. The server has one "
        "core, its client another: `wrk` for HTTP, which compares every response, and `bench/client` for "
        "WebSocket, a binary message of 100 bytes in flight on each connection. JSON is read and written "
        "anew by the app.",
    ),
)


def build() -> None:
    if shutil.which("wrk") is None:
        raise SystemExit("wrk is missing: install Debian's package of that name")
    pyloop.build()
    subprocess.run(("rebar3", "compile"), cwd=peers.ROOT, check=True, stdout=sys.stderr)


def absent() -> dict[str, str]:
    """The servers that this Python cannot import."""
    missing = peers.ask(PEERS)[1]
    return {name: missing[name] for name in PEERS if name in missing}


def versions() -> dict[str, str]:
    found, _ = peers.ask(_MODULES)
    return {
        "Python": f"{platform.python_implementation()} {platform.python_version()}",
        "OTP": machine.output("erl", "-noshell", "-eval", _RELEASE),
        **{name: version for name, version in found.items() if version},
        "rustc": machine.output("rustc", "--version").removeprefix("rustc "),
    }


_RELEASE = "io:put_chars(erlang:system_info(otp_release)), halt()."

SUITE = Suite(
    id="web",
    title="Web servers",
    ours=OURS,
    topics=_TOPICS,
    cases=(
        _case("plain", "plaintext, 64 connections", "requests/s", 64),
        _case("large", "10 KiB, 64 connections", "requests/s", 64),
        _case("echo", "JSON echo, 64 connections", "requests/s", 64),
        _case("sleep", "`sleep(10 ms)`, 512 connections", "requests/s", 512),
        _case("websocket", "WebSocket echo, 64 connections", "echoes/s", 64),
    ),
    build=build,
    absent=absent,
    versions=versions,
    reference="uvicorn",
)
