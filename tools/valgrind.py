"""Runs the native paths of the loop under valgrind's memcheck, and judges what it says.

    python tools/valgrind.py [arguments for pytest]

Every access to memory that is not the program's counts, whoever made it, for a reference given away once too
often shows in the interpreter. A leak counts if our module asked for the memory, with no Python code in
between: CPython leaks by design, and below a loop everything that runs has the loop on its stack.
Values that were never set are not looked for: CPython multiplies the absent digit of a zero by its length,
and memcheck takes all that follows for unset. Ends with `N passed, N failed`: tests, and then errors too.
"""

import os
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path

# One test of a kind for every native path; the soak adds connections of all kinds that end in all ways.
TESTS = [
    "pytests/loop/test_accept.py",
    "pytests/loop/test_clock.py",
    "pytests/loop/test_flow.py",
    "pytests/loop/test_handles.py",
    "pytests/loop/test_pipes.py",
    "pytests/loop/test_readers.py",
    "pytests/loop/test_sock.py",
    "pytests/loop/test_sock_native.py",
    "pytests/loop/test_stream_end.py",
    "pytests/loop/test_stream_read.py",
    "pytests/loop/test_stream_write.py",
    "pytests/loop/test_tls_bio.py",
    "pytests/loop/test_tls_data.py",
    "pytests/loop/test_tls_handshake.py",
    "pytests/loop/test_tls_shutdown.py",
    "pytests/loop/test_tls_accept.py",
    "pytests/loop/test_udp.py",
    "pytests/loop/test_udp_transport.py",
]
OPTIONS = ["-p", "no:faulthandler", "-q", "-k", "not debug"]


def command(report: Path) -> list[str]:
    return [
        "valgrind",
        "--tool=memcheck",
        "--leak-check=full",
        "--show-leak-kinds=definite",
        "--errors-for-leak-kinds=definite",
        "--num-callers=40",
        "--keep-debuginfo=yes",
        "--undef-value-errors=no",
        "--child-silent-after-fork=yes",
        "--xml=yes",
        f"--xml-file={report}",
        sys.executable,
    ]


def is_ours(frames: list[ElementTree.Element]) -> bool:
    """Whether our module is on this stack below the first evaluation of Python code."""
    for frame in frames:
        if "_native" in frame.findtext("obj", ""):
            return True
        if frame.findtext("fn", "").startswith(("_PyEval_", "PyEval_")):
            return False
    return False


def errors(report: Path) -> Iterator[tuple[str, str]]:
    """What was found: its kind, and where."""
    for error in ElementTree.parse(report).getroot().iter("error"):
        kind = error.findtext("kind", "")
        frames = list(error.iter("frame"))
        if kind.startswith("Leak_") and not is_ours(frames):
            continue
        names = [frame.findtext("fn") or frame.findtext("obj") or "?" for frame in frames]
        yield kind, "\n".join(f"      {name}" for name in names[:25])


def run(words: list[str], report: Path) -> tuple[int, str]:
    environment = os.environ | {
        "PYTHONMALLOC": "malloc",
        "PYTHONDONTWRITEBYTECODE": "1",
        "LOOPS": "ours",
        "LOOP_TEST_LIMIT": "600",
    }
    process = subprocess.Popen(
        [*command(report), *words], env=environment, stdout=subprocess.PIPE, text=True, errors="replace"
    )
    assert process.stdout is not None
    text = ""
    for line in process.stdout:
        print(line, end="", flush=True)
        text += line
    return process.wait(), text


def main() -> int:
    passed = failed = 0
    tests = sys.argv[1:] or TESTS
    programs = [["-m", "pytest", *OPTIONS, *tests]]
    if not sys.argv[1:]:
        programs.append(["pytests/soak/soak.py", "--connections", "150", "--concurrency", "10"])
    for words in programs:
        with tempfile.TemporaryDirectory() as folder:
            report = Path(folder, "report.xml")
            status, text = run(words, report)
            passed += sum(int(number) for number in re.findall(r"(\d+) passed", text))
            failed += sum(int(number) for number in re.findall(r"(\d+) failed", text))
            failed += status != 0 and not re.search(r"[1-9]\d* failed", text)
            for kind, where in errors(report):
                failed += 1
                print(f"  {kind}\n{where}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
