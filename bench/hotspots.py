"""Where the CPU time of one command goes, by `perf`: the profile shown beside a row that is behind."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Collection, Sequence
from pathlib import Path

from results import Hotspot
from rounds import environment

HELPERS = ("bench-client", "taskset")
"""Processes that the measured one starts, by the names the kernel knows: their time is not its own."""


def parse(report: str, limit: int, without: Collection[str] = HELPERS) -> list[Hotspot]:
    """The top lines of `perf report --stdio --sort comm,dso,symbol -t` with a tab; the rest is 100 %."""
    shares: dict[str, float] = {}
    for line in report.splitlines():
        percent, *names = (part.strip() for part in line.split("\t"))
        if len(names) < 3 or not percent.endswith("%"):
            continue
        comm, dso, symbol = names[:3]
        if comm not in without:
            # The symbol comes with its kind: "[.] malloc".
            where = f"{symbol[4:]} ({dso.strip('[]')})"
            shares[where] = shares.get(where, 0.0) + float(percent.rstrip("%"))
    total = sum(shares.values())
    top = sorted(shares.items(), key=lambda item: -item[1])[:limit]
    return [{"percent": round(100 * share / total, 2), "where": where} for where, share in top]


def profile(command: Sequence[str], limit: int = 8) -> list[Hotspot]:
    """Empty without `perf`, or where the kernel does not let it count."""
    if shutil.which("perf") is None:
        return []
    with tempfile.TemporaryDirectory() as folder:
        data = str(Path(folder) / "perf.data")
        record = ("perf", "record", "--quiet", "-F", "1999", "-o", data, "--", *command)
        if subprocess.run(record, capture_output=True, env=environment(os.environ)).returncode != 0:
            return []
        report = ("perf", "report", "-i", data, "--stdio", "--sort", "comm,dso,symbol", "-t", "\t")
        return parse(subprocess.run(report, capture_output=True, text=True).stdout, limit)
