"""Owns the promise of the Makefile: the targets everybody knows are there, and `make` alone lists them."""

import os
import re
import subprocess
from pathlib import Path

from programs import ROOT, run

PROMISED = {"help", "setup", "run", "test", "lint", "bench", "doctor", "clean"}


def test_make_alone_lists_the_targets() -> None:
    done = run("make", "--no-print-directory")
    assert done.returncode == 0
    listed = {line.split()[0] for line in done.stdout.splitlines() if line.startswith("  ")}
    assert listed >= PROMISED


def lanes(directory: Path, makefile: str, *targets: str) -> subprocess.CompletedProcess[str]:
    (directory / "Makefile").write_text(makefile)
    return subprocess.run(
        [ROOT / "tools/lanes.sh", *targets], cwd=directory, text=True, capture_output=True, timeout=60
    )


def test_every_test_stands_in_one_lane() -> None:
    plan = run("make", "--no-print-directory", "--dry-run", "test").stdout
    first, second = re.findall(r"'([a-z -]+)'", plan.splitlines()[-1])
    listed = run("make", "--no-print-directory").stdout
    tests = set(re.findall(r"^  (test-[a-z-]+|conformance[a-z-]*) ", listed, re.MULTILINE))
    apart = {"test-matrix", "test-valgrind"}  # of their own, for they take the better part of an hour
    assert tests - apart == set(first.split()) | set(second.split())
    assert not set(first.split()) & set(second.split())


def test_lanes_run_side_by_side(tmp_path: Path) -> None:
    # Each waits until the other is there: one after the other they would never end.
    os.mkfifo(tmp_path / "fifo")
    done = lanes(
        tmp_path, "a:\n\techo one >fifo; echo a met\nb:\n\tread said <fifo; echo b met $$said\n", "a", "b"
    )
    assert done.returncode == 0
    assert "a met" in done.stdout
    assert "b met one" in done.stdout
    assert "a: passed" in done.stdout
    assert "b: passed" in done.stdout


def test_a_lane_is_in_order_and_ends_at_what_fails(tmp_path: Path) -> None:
    done = lanes(tmp_path, "one:\n\t@echo first\ntwo:\n\t@false\nthree:\n\t@echo never\n", "one two three")
    assert done.returncode == 1
    assert done.stdout.index("first") < done.stdout.index("two: FAILED")
    assert "never" not in done.stdout


def test_what_fails_ends_the_other_lane(tmp_path: Path) -> None:
    done = lanes(tmp_path, "bad:\n\t@false\nlong:\n\t@sleep 1000\n", "bad", "long")
    assert done.returncode == 1
    assert "bad: FAILED" in done.stdout
