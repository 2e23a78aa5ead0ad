"""A pytest plugin for other projects' suites: runs them on the loop CONFORMANCE_FACTORY names, writes
outcomes as JSON lines.

Loaded with `-p plugin`. The outcome of a test is the worst of its phases; CONFORMANCE_OUT names the file,
CONFORMANCE_DONE one with the ids of tests that are done already.
"""

import gc
import json
import os
import signal
from pathlib import Path
from typing import Any

import hooks

signal.signal(signal.SIGINT, signal.default_int_handler)
MADE = hooks.install(os.environ["CONFORMANCE_FACTORY"])
OUT = Path(os.environ["CONFORMANCE_OUT"])
DONE = Path(os.environ["CONFORMANCE_DONE"])
_before = 0


def _write(**line: Any) -> None:
    with OUT.open("a") as out:
        out.write(json.dumps(line) + "\n")


def pytest_collection_modifyitems(config: Any, items: list[Any]) -> None:
    """After a hang or a crash only what was not done yet is run."""
    done = set(DONE.read_text().split("\n"))
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid in done])
    items[:] = [item for item in items if item.nodeid not in done]


def pytest_collection_finish() -> None:
    """Some suites collect garbage after every test; what is there by now need not be looked at each time."""
    gc.collect()
    gc.freeze()


def pytest_runtest_logstart(nodeid: str) -> None:
    global _before
    _before = MADE.count
    _write(start=nodeid)


def pytest_runtest_logreport(report: Any) -> None:
    outcome = {"passed": "pass", "failed": "fail", "skipped": "skip"}[report.outcome]
    if hasattr(report, "wasxfail"):
        outcome = "xfail"
    if report.when != "call" and outcome == "pass":
        return
    _write(id=report.nodeid, outcome=outcome, detail=str(report.longrepr or "")[-4000:], loops=0)


def pytest_runtest_logfinish(nodeid: str) -> None:
    _write(finish=nodeid, loops=MADE.count - _before)


def pytest_sessionfinish() -> None:
    _write(end=MADE.count)
