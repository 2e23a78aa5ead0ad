"""Where the CPU time of one command goes, by `perf`: the profile shown beside a row that is behind."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from results import Hotspot

# The symbol may be followed by columns that perf leaves empty, a dash each.
_LINE = re.compile(r"^\s*(\d+\.\d+)%\s+(\S+)\s+\[.\]\s+(.+?)(?:\s+-)*\s*$")


def parse(report: str, limit: int) -> list[Hotspot]:
    """The top lines of `perf report --stdio --sort dso,symbol`."""
    found: list[Hotspot] = []
    for line in report.splitlines():
        match = _LINE.match(line)
        if match:
            found.append({"percent": float(match[1]), "where": f"{match[3]} ({match[2].strip('[]')})"})
    return found[:limit]


def profile(command: Sequence[str], limit: int = 8) -> list[Hotspot]:
    """Empty without `perf`, or where the kernel does not let it count."""
    if shutil.which("perf") is None:
        return []
    with tempfile.TemporaryDirectory() as folder:
        data = str(Path(folder) / "perf.data")
        record = ("perf", "record", "--quiet", "-F", "1999", "-o", data, "--", *command)
        if subprocess.run(record, capture_output=True).returncode != 0:
            return []
        report = ("perf", "report", "-i", data, "--stdio", "--sort", "dso,symbol", "--percent-limit", "1")
        return parse(subprocess.run(report, capture_output=True, text=True).stdout, limit)
