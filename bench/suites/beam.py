"""Calls from Erlang into Python against a port and against the floor. Programs: `bench/beam`."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import machine
from model import Arm, Case, Metric, Suite, Topic

ROOT = Path(__file__).resolve().parent.parent.parent
SOURCES = ROOT / "bench" / "beam"
BUILT = ROOT / "build" / "bench" / "beam"
OURS, PORT, FLOOR, NOTHING = "erlang_python", "port", "floor", "nothing"
ARMS = {OURS: "ours", PORT: "port", FLOOR: "floor"}

_NOTES = {
    FLOOR: "one C call on a dirty scheduler: no queue, no timeout, and ten blocked calls stop file I/O",
    NOTHING: "nobody calls Python",
}


def _arm(name: str, topic: str) -> Arm:
    command = (str(BUILT / "run"), topic, ARMS.get(name, name))
    return Arm(name, name, command, ranked=name not in _NOTES, note=_NOTES.get(name, ""))


def _calls(row: str, title: str, *params: str, arms: tuple[str, ...] = (OURS, PORT)) -> Case:
    return Case(
        id=f"calls.{row}{''.join(params)}",
        topic="calls",
        arms=tuple(_arm(name, "calls") for name in arms),
        metrics=(Metric(title, "calls/s", "higher"),),
        params=(f"row={row}", *params),
        quick=(f"row={row}", *params, "millis=50", "calls=2000"),
    )


_LATENCY = Case(
    id="calls.latency",
    topic="calls",
    arms=tuple(_arm(name, "calls") for name in ARMS),
    metrics=(
        Metric("`math.sqrt`, round trip, p50", "us", "lower"),
        Metric("`math.sqrt`, round trip, p99", "us", "lower", "p99"),
    ),
    params=("row=latency",),
    quick=("row=latency", "calls=500"),
)


def _step(how: str) -> Arm:
    """Two ways of ours, one measured against the other."""
    return Arm(
        how, OURS if how == "schedule_inline" else how, (*_arm(OURS, "callbacks").command, f"row={how}")
    )


_CALLBACKS = (
    Case(
        id="callbacks.call",
        topic="callbacks",
        arms=(_arm(OURS, "callbacks"), _arm(PORT, "callbacks")),
        metrics=(Metric("`erlang.call`, there and back", "calls/s", "higher"),),
        params=("row=call",),
        quick=("row=call", "millis=50"),
    ),
    Case(
        id="callbacks.schedule",
        topic="callbacks",
        arms=(_step("schedule_inline"), _step("schedule_py")),
        metrics=(Metric("steps of a chain", "steps/s", "higher"),),
        quick=("millis=50",),
    ),
)


def _others(row: str, title: str, *arms: str) -> Case:
    return Case(
        id=f"others.{row}",
        topic="others",
        arms=tuple(_arm(name, "others") for name in arms),
        metrics=(Metric(f"{title}, p50", "us", "lower"), Metric(f"{title}, p99", "us", "lower", "p99")),
        params=(f"row={row}",),
        quick=(f"row={row}", "calls=100"),
    )


_TOPICS = (
    Topic(
        "calls",
        "Calls from Erlang",
        "`py:call(math, sqrt, [16.0])` and `copy.copy` of larger arguments, which come back; casts until the "
        "last has run. Port: a Python process behind one Erlang port, `{packet, 4}` and the external term "
        "format.",
    ),
    Topic(
        "callbacks",
        "The way back",
        "An Erlang function called from Python, and a chain of steps, each scheduled by the one before it.",
    ),
    Topic(
        "others",
        "What the others feel",
        "A process that sleeps for 1 ms at a time while fifty others call `math.sqrt` as fast as they can; a "
        "process that reads a small file while ten calls of Python block.",
    ),
)


def _libpython() -> Path:
    directory, name = sysconfig.get_config_vars("LIBDIR", "INSTSONAME")
    return Path(str(directory), str(name))


def build() -> None:
    """The application, the Erlang programs, the floor's NIF, and a script that starts them."""
    environment = os.environ | {"PYTHON": sys.executable}
    subprocess.run(("rebar3", "compile"), cwd=ROOT, check=True, stdout=sys.stderr, env=environment)
    BUILT.mkdir(parents=True, exist_ok=True)
    programs = sorted(str(path) for path in SOURCES.glob("*.erl"))
    subprocess.run(("erlc", "-W", "-Werror", "-o", str(BUILT), *programs), check=True)
    headers = (sysconfig.get_path("include"), machine.output("erl", "-noshell", "-eval", _HEADERS))
    libpython = _libpython()
    subprocess.run(
        (
            *("cc", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", f'-DLIBPYTHON="{libpython}"'),
            *(f"-I{path}" for path in headers),
            *(str(SOURCES / "floor.c"), "-o", str(BUILT / "floor.so"), str(libpython)),
            f"-Wl,-rpath,{libpython.parent}",
        ),
        check=True,
    )
    (BUILT / "run").write_text(_RUN.format(sources=SOURCES, python=sys.executable, root=ROOT, built=BUILT))
    (BUILT / "run").chmod(0o755)


_HEADERS = 'io:format("~ts/usr/include", [code:root_dir()]), halt().'
_RUN = """#!/bin/sh
export BENCH_BEAM='{sources}' BENCH_PYTHON='{python}'
# The one that was built for, and not the first on the path.
export ERLANG_PYTHON="${{ERLANG_PYTHON:-{python}}}"
# What serves a client leaves it a core, as the loops outside do.
case $1 in tcp) separate='taskset -c 0' ;; *) separate= ;; esac
set -- -run bench_beam main -extra "$@"
exec $separate erl -noshell -pa '{built}' -pa '{root}'/_build/default/lib/*/ebin "$@"
"""


def versions() -> dict[str, str]:
    release = "io:put_chars(erlang:system_info(otp_release)), halt()."
    return {
        "OTP": machine.output("erl", "-noshell", "-eval", release),
        "Python": ".".join(map(str, sys.version_info[:3])),
        "rustc": machine.output("rustc", "--version").removeprefix("rustc "),
    }


SUITE = Suite(
    id="beam",
    title="Calls between Erlang and Python",
    ours=OURS,
    topics=_TOPICS,
    cases=(
        _calls("sqrt", "`math.sqrt`, one process", arms=tuple(ARMS)),
        _calls("sqrt", "`math.sqrt`, 50 processes", "processes=50", arms=tuple(ARMS)),
        _LATENCY,
        _calls("cast", "`py:cast`, until the last has run"),
        _calls("map", "a map of 1 KiB, there and back"),
        _calls("list", "a list of 1 000 integers, there and back"),
        _calls("binary", "a binary of 1 MiB, there and back"),
        *_CALLBACKS,
        _others("ticks", "a sleep of 1 ms under load", OURS, PORT, FLOOR, NOTHING),
        _others("files", "`file:read_file` with ten blocked calls", OURS, PORT, NOTHING),
    ),
    build=build,
    versions=versions,
    reference=FLOOR,
)
