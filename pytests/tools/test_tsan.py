"""Owns the contract of tools/tsan.sh: it always says what it runs with, or why it does not run."""

import re

from programs import ROOT, run


def test_it_says_what_it_runs_with_or_why_not() -> None:
    done = run(ROOT / "tools" / "tsan.sh", "--probe")
    assert done.returncode == 0, done.stderr
    runs = r"tsan: rustc \S+ .*, standard library instrumented, from /.*\n"
    does_not = r"tsan: NOT RUN, .*\n"
    assert re.fullmatch(f"{runs}|{does_not}", done.stdout)
