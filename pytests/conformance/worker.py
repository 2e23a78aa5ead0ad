"""Owns one process of a column: runs the tests of one module with one loop factory and writes a line of JSON
per test.

The driver starts it, or the Erlang VM calls `main` on its behalf; a test that hangs ends the process with all
stacks on stderr, and the driver goes on after it.
"""

import argparse
import faulthandler
import json
import signal
import sys
import threading
import traceback
import unittest
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

import hooks


class Recorder(unittest.TestResult):
    """Writes `{"start": id}` before a test and its outcome after it, so that nothing known is lost in a
    crash.
    """

    def __init__(self, out: TextIO, made: hooks.Made, limit: float) -> None:
        super().__init__()
        self._out = out
        self._made = made
        self._limit = limit
        self._outcome = ("pass", "")
        self._loops_before = 0
        self._running = False

    def _write(self, **line: Any) -> None:
        self._out.write(json.dumps(line) + "\n")
        self._out.flush()

    def startTest(self, test: unittest.TestCase) -> None:  # noqa: N802
        super().startTest(test)
        self._write(start=test.id())
        self._outcome = ("pass", "")
        self._loops_before = self._made.count
        self._running = True
        # By its number: inside the Erlang VM `sys.stderr` has none.
        faulthandler.dump_traceback_later(self._limit, exit=True, file=2)

    def stopTest(self, test: unittest.TestCase) -> None:  # noqa: N802
        faulthandler.cancel_dump_traceback_later()
        super().stopTest(test)
        self._running = False
        outcome, detail = self._outcome
        loops = self._made.count - self._loops_before
        self._write(id=test.id(), outcome=outcome, detail=detail, loops=loops)

    def _set(self, test: Any, outcome: str, error: Any = None) -> None:
        detail = error if isinstance(error, str) else ""
        if isinstance(error, tuple):
            detail = "".join(traceback.format_exception(*error))
        if not self._running:  # a fixture of a class or module
            self._write(id=test.id(), outcome=outcome, detail=detail, loops=0)
        elif self._outcome[0] not in ("fail", "error"):
            self._outcome = (outcome, detail)

    def addError(self, test: Any, err: Any) -> None:  # noqa: N802
        self._set(test, "error", err)

    def addFailure(self, test: Any, err: Any) -> None:  # noqa: N802
        self._set(test, "fail", err)

    def addSkip(self, test: Any, reason: str) -> None:  # noqa: N802
        self._set(test, "skip", reason)

    def addExpectedFailure(self, test: Any, err: Any) -> None:  # noqa: N802
        self._set(test, "xfail")

    def addUnexpectedSuccess(self, test: Any) -> None:  # noqa: N802
        self._set(test, "fail", "unexpected success")

    def addSubTest(self, test: Any, subtest: Any, err: Any) -> None:  # noqa: N802
        if err is not None:
            self._set(test, "fail", err)


def cases(suite: unittest.TestSuite) -> Iterator[unittest.TestCase]:
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from cases(test)
        else:
            yield test


def main(words: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--factory", required=True)
    parser.add_argument("--module", required=True)
    parser.add_argument("--out", required=True, type=Path)
    parser.add_argument("--without", type=Path, help="a file of test ids that are done already")
    parser.add_argument("--only", action="append", default=[], help="a part of a test id")
    parser.add_argument("--limit", type=float, default=60, help="seconds a test may take")
    parser.add_argument("--real-loops", action="store_true")
    arguments = parser.parse_args(words)

    if "erlang._bridge" in sys.modules:
        # The thread of the call stands for the main one, which is where asyncio makes loops by itself.
        vars(threading)["_main_thread"] = threading.current_thread()
    else:
        # A shell that starts jobs in the background has them ignore it, and the suite has tests of Ctrl-C.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    made = hooks.install(arguments.factory)
    hooks.adapt_test_utils(made, real_loops=arguments.real_loops)
    done = set(arguments.without.read_text().split("\n")) if arguments.without else set()
    found = unittest.defaultTestLoader.loadTestsFromName(arguments.module)
    chosen = [
        test
        for test in cases(found)
        if test.id() not in done and (not arguments.only or any(part in test.id() for part in arguments.only))
    ]
    with arguments.out.open("a") as out:
        recorder = Recorder(out, made, arguments.limit)
        unittest.TestSuite(chosen).run(recorder)
        out.write(json.dumps({"end": made.count, "types": sorted(map(str, made.types))}) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
