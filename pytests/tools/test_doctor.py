"""Owns the contract of `make doctor`: its verdicts, its advice and its exit code."""

import sys

from programs import run


def test_a_machine_that_runs_the_tests_is_well() -> None:
    done = run(sys.executable, "tools/doctor.py")
    assert done.returncode == 0, done.stdout
    verdicts = {line.split()[0] for line in done.stdout.splitlines()}
    assert "ok" in verdicts
    assert verdicts <= {"ok", "optional"}


def test_what_is_missing_is_named_with_its_fix_and_fails(bare_path: str) -> None:
    done = run(sys.executable, "tools/doctor.py", PATH=bare_path)
    lines = [line.split(maxsplit=2) for line in done.stdout.splitlines() if line]
    assert done.returncode == 1
    assert ["missing", "rustc", "install Rust with rustup"] in lines
    assert any(line[:2] == ["missing", "cc"] and "build-essential" in line[2] for line in lines)
    assert any(line[:2] == ["optional", "valgrind"] for line in lines)
    assert any(line[:2] == ["ok", "python"] for line in lines)
