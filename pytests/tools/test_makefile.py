"""Owns the promise of the Makefile: the targets everybody knows are there, and `make` alone lists them."""

from programs import run

PROMISED = {"help", "setup", "run", "test", "lint", "bench", "doctor", "clean"}


def test_make_alone_lists_the_targets() -> None:
    done = run("make", "--no-print-directory")
    assert done.returncode == 0
    listed = {line.split()[0] for line in done.stdout.splitlines() if line.startswith("  ")}
    assert listed >= PROMISED


def test_the_tests_run_in_their_order() -> None:
    plan = run("make", "--no-print-directory", "--dry-run", "-j2", "test").stdout
    steps = ["cargo test --workspace", "--test 'loom_*'", "pytest pytests/tools", "tools/tsan.sh"]
    places = [plan.index(step) for step in steps]
    assert places == sorted(places)
