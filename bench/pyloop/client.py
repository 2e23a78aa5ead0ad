"""The load client `bench-client` as the servers use it: where it is, how it is started, on which core."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import cast

PROGRAM = Path(__file__).resolve().parents[2] / "target" / "release" / "bench-client"
STUCK_SECONDS = 60


def separate() -> None:
    """Server and client on a core each: the scheduler would put both on one now and then, at random."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) > 1:
        os.sched_setaffinity(0, {cores[0]})


def command(mode: str, params: dict[str, str | int]) -> list[str]:
    return elsewhere([str(PROGRAM), mode, *(f"{key}={value}" for key, value in params.items())])


def elsewhere(words: list[str]) -> list[str]:
    """A client's command line, on the cores that this process leaves to it."""
    everywhere = range(os.cpu_count() or 1)
    others = set(everywhere) - os.sched_getaffinity(0)
    # taskset, because a function between fork and exec would make the child's start slower and less safe.
    return ["taskset", "-c", ",".join(map(str, sorted(others))), *words] if others else words


def echo(**params: str | int) -> dict[str, float]:
    """Runs the client to its end. Blocks: to be called in another thread than the loop's."""
    done = subprocess.run(
        command("echo", params), capture_output=True, text=True, timeout=STUCK_SECONDS, check=False
    )
    if done.returncode != 0:
        raise SystemExit(done.stderr.strip() or f"bench-client: exit code {done.returncode}")
    return cast("dict[str, float]", json.loads(done.stdout))


def hold(**params: str | int) -> subprocess.Popen[str]:
    """A client that has its connections when it has written a line, until its standard input is closed."""
    return subprocess.Popen(command("hold", params), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
