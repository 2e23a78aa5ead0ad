"""Names the machine and the tools behind a result: what describes speed, no host name, no paths."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def _first(pattern: str, path: str) -> str:
    try:
        found = re.search(pattern, Path(path).read_text(encoding="utf-8"), re.MULTILINE)
    except OSError:
        return "unknown"
    return found.group(1).strip() if found else "unknown"


def load_average() -> str:
    return f"{os.getloadavg()[0]:.2f}"


def is_busy() -> bool:
    """Others use the cores: the 99th percentiles then measure the scheduler, and the spreads grow."""
    return os.getloadavg()[0] > len(os.sched_getaffinity(0)) / 4


def describe() -> dict[str, str]:
    memory = _first(r"^MemTotal:\s+(\d+) kB", "/proc/meminfo")
    return {
        "CPU": _first(r"^model name\s*:\s*(.+)$", "/proc/cpuinfo"),
        "cores": str(len(os.sched_getaffinity(0))),
        "memory": f"{int(memory) / 2**20:.1f} GiB" if memory.isdigit() else memory,
        "kernel": f"{platform.system()} {platform.release()}",
        "system": _first(r'^PRETTY_NAME="?([^"\n]+)"?$', "/etc/os-release"),
    }


def output(*command: str) -> str:
    """What a tool prints about itself, first line; "unknown" without the tool."""
    try:
        run = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    lines = run.stdout.splitlines()
    return lines[0].strip() if lines else "unknown"


def locked_version(package: str) -> str:
    """The version of a Rust package that `Cargo.lock` holds."""
    lock = tomllib.loads((ROOT / "Cargo.lock").read_text(encoding="utf-8"))
    found = [entry["version"] for entry in lock["package"] if entry["name"] == package]
    return ", ".join(found) if found else "unknown"
