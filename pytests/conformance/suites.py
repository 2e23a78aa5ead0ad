"""Runs the test-suites of anyio, aiohttp and uvicorn, from their sdists, on stdlib's loop and on ours, test
by test.

    python pytests/conformance/suites.py [anyio aiohttp uvicorn] [--factory erlang:new_event_loop]

No test may fare worse with ours than with stdlib's loop in the same run. Downloads stay in build/sdist, each
suite has an environment of its own in build/py3.x/. Where the kernel allows it the tests run in a network
namespace with nothing but loopback, as some connect to addresses nobody should answer from. Ends with `N
passed, N failed`, counted in our column.
"""

import argparse
import concurrent.futures
import functools
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import columns
import hooks
from columns import Column, Outcome

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BUILD = ROOT / "build"
HOME = BUILD / "py{}.{}{}".format(*sys.version_info[:2], sys.abiflags)

# What each suite is run as: the version, what it needs besides itself, which tests, and how.
SUITES: dict[str, dict[str, list[str]]] = {
    "anyio": {
        "version": ["4.16.0"],
        "needs": [
            "pytest",
            "hypothesis",
            "psutil",
            "trustme",
            "exceptiongroup",
            "pytest-mock",
            "truststore",
            "trio",
            "pytest-timeout",
        ],
        "tests": ["tests"],
        "options": ["-k", "not trio and not uvloop"],
    },
    "aiohttp": {
        "version": ["3.14.5"],
        "needs": [
            "pytest",
            "pytest-mock",
            "pytest-xdist",
            "pytest-cov",
            "re-assert",
            "trustme",
            "proxy.py",
            "freezegun",
            "blockbuster",
            "python-on-whales",
            "isal",
            "zlib-ng",
            "Brotli",
            "pytest-codspeed",
            "pytest-timeout",
            "setproctitle",
        ],
        "tests": ["tests"],
        # Its benchmarks want a plugin of their own to time them.
        "options": ["-m", "not dev_mode and not autobahn", "-p", "no:codspeed", "-k", "not test_benchmarks"],
    },
    "uvicorn": {
        "version": ["0.54.0"],
        "needs": [
            "pytest",
            "pytest-mock",
            "pytest-xdist",
            "httpx",
            "httptools",
            "websockets",
            "wsproto",
            "trustme",
            "cryptography",
            "a2wsgi",
            "watchfiles",
            "python-dotenv",
            "PyYAML",
            "typing-extensions",
            "anyio",
            "httpx2",
            "pytest-timeout",
        ],
        "tests": ["tests"],
        "options": ["--ignore=tests/benchmarks"],
    },
}


def sdist(name: str, version: str) -> Path:
    """The unpacked source distribution, downloaded once."""
    folder = BUILD / "sdist"
    folder.mkdir(parents=True, exist_ok=True)
    archive = folder / f"{name}-{version}.tar.gz"
    if not archive.exists():
        command = [
            sys.executable,
            "-m",
            "pip",
            "--disable-pip-version-check",
            "download",
            "--quiet",
            "--no-deps",
        ]
        command += ["--no-binary", ":all:", "--dest", str(folder), f"{name}=={version}"]
        subprocess.run(command, check=True)
    return archive


def environment(name: str, suite: dict[str, list[str]], archive: Path) -> tuple[Path, Path]:
    """The suite's Python and its unpacked sources; made anew if what it is made of has changed."""
    home = HOME / f"suite-{name}"
    stamp, made_of = home / "made-of", json.dumps([suite["version"], suite["needs"], str(HOME)])
    python, sources = home / "venv/bin/python", home / archive.name.removesuffix(".tar.gz")
    if stamp.exists() and stamp.read_text() == made_of:
        return python, sources
    shutil.rmtree(home, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", str(home / "venv")], check=True)
    pip = [str(python), "-m", "pip", "--disable-pip-version-check", "--quiet", "install"]
    subprocess.run([*pip, f"{name}=={suite['version'][0]}"], check=True)
    # One by one: what does not exist for this Python is left out, and the tests that need it skip.
    for need in suite["needs"]:
        subprocess.run([*pip, need], check=False)
    with tarfile.open(archive) as tar:
        tar.extractall(home, filter="data")
    # The package under test is the installed one (with its compiled parts), the sources give the tests.
    for package in (sources / name, sources / "src"):
        shutil.rmtree(package, ignore_errors=True)
    stamp.write_text(made_of)
    return python, sources


@functools.cache
def can_isolate() -> bool:
    probe = ["unshare", "-nm", "ip", "link", "set", "lo", "up"]
    return bool(shutil.which("ip")) and not subprocess.run(probe, capture_output=True, check=False).returncode


def isolated(command: list[str], folder: Path) -> list[str]:
    """The command where only loopback is, and `localhost` is both its addresses, if the kernel allows it.

    Network and mounts are the command's own, so the machine is left as it is.
    """
    if not can_isolate():
        return command
    hosts = folder / "hosts"
    hosts.write_text("127.0.0.1 localhost\n::1 localhost\n")
    # AI_ADDRCONFIG wants addresses that are not loopback's: lo gets two that are meant for documentation.
    script = f"mount --bind {hosts} /etc/hosts; ip link set lo up; ip addr add 192.0.2.9/32 dev lo; "
    script += 'ip addr add 2001:db8::9/128 dev lo nodad; exec "$@"'
    return ["unshare", "-nm", "sh", "-c", script, "sh", *command]


def run_column(
    python: Path, sources: Path, suite: dict[str, list[str]], factory: str, chosen: list[str], limit: int
) -> Column:
    column: Column = {}
    with tempfile.TemporaryDirectory() as folder:
        out, done = Path(folder, "out.jsonl"), Path(folder, "done")
        out.touch()
        paths = [str(HERE), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
        variables = os.environ | {
            "CONFORMANCE_FACTORY": factory,
            "CONFORMANCE_OUT": str(out),
            "CONFORMANCE_DONE": str(done),
            "PYTHONPATH": os.pathsep.join(path for path in paths if path),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        command = [
            str(python),
            "-X",
            "faulthandler",
            "-m",
            "pytest",
            "-q",
            "-p",
            "plugin",
            "-p",
            "no:cacheprovider",
        ]
        command += ["-p", "no:randomly", "-o", "addopts=", "-o", f"faulthandler_timeout={limit}"]
        command += ["-o", "faulthandler_exit_on_timeout=true", *suite["options"], *(chosen or suite["tests"])]
        for _ in range(50):  # after a hang or a crash the rest runs in a new process
            done.write_text("\n".join(column))
            words = isolated(command, Path(folder))
            process = subprocess.run(
                words, cwd=sources, env=variables, capture_output=True, text=True, check=False
            )
            text = process.stdout[-3000:] + process.stderr[-3000:]
            unfinished, ended = read(out, column)
            if ended or unfinished is None:
                if not column:
                    print(text)
                return column
            column[unfinished] = Outcome("hang", f"status {process.returncode}\n{text}")
            out.write_text("")
    return column


def read(out: Path, column: Column) -> tuple[str | None, bool]:
    unfinished: str | None = None
    ended = False
    for text in out.read_text().splitlines():
        line = json.loads(text)
        if "start" in line:
            unfinished = line["start"]
        elif "finish" in line:
            unfinished = None
            if line["finish"] in column:
                column[line["finish"]].loops = line["loops"]
        elif "end" in line:
            ended = True
        elif line["id"] not in column or line["outcome"] != "pass":
            column[line["id"]] = Outcome(line["outcome"], line["detail"], 0)
    return unfinished, ended


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("suites", nargs="*", default=[], help="anyio, aiohttp, uvicorn; all, if left out")
    parser.add_argument("--factory", default="erlang:new_event_loop")
    parser.add_argument(
        "--tests", nargs="*", default=[], help="paths within the suite, instead of all its tests"
    )
    parser.add_argument("--limit", type=int, default=60, help="seconds a test may take")
    parser.add_argument("--details", action="store_true")
    arguments = parser.parse_args()
    passed = failed = 0
    for name in arguments.suites or list(SUITES):
        suite = SUITES[name]
        archive = sdist(name, suite["version"][0])
        python, sources = environment(name, suite, archive)

        def column(
            factory: str, python: Path = python, sources: Path = sources, suite: dict[str, list[str]] = suite
        ) -> Column:
            return run_column(python, sources, suite, factory, arguments.tests, arguments.limit)

        # Much of a run is waiting. Side by side only with a network each: some ports are fixed.
        with concurrent.futures.ThreadPoolExecutor(2 if can_isolate() else 1) as pool:
            stdlib, ours = pool.map(column, (hooks.STDLIB, arguments.factory))
        rules = columns.read_rules(HERE / "exceptions.toml", name)
        result = columns.compare(stdlib, ours, rules)
        # Some of these tests give a process three seconds, on whatever machine: what fared worse gets one
        # more run, with the machine to itself. What stdlib's loop made of it stands.
        if again := sorted(result.worse):
            print(f"  {name}: {len(again)} tests once more: {', '.join(again[:5])}", flush=True)
            ours |= run_column(python, sources, suite, arguments.factory, again, arguments.limit)
            result = columns.compare(stdlib, ours, rules)
        good = sum(outcome.outcome in columns.PASSED for outcome in stdlib.values())
        python_version = sys.version.split()[0]
        print(f"{name} {suite['version'][0]} on Python {python_version}: stdlib {good} passed,", end=" ")
        print(
            f"ours {result.passed} passed, {len(result.worse)} worse, {len(result.excepted)} named,", end=" "
        )
        print(f"{len(result.neither)} fail with both, {result.skipped} skipped,", end=" ")
        print(f"{result.loops} loops made in {result.tests_with_loops} tests")
        if text := columns.report(result, details=arguments.details):
            print(text)
        passed += result.passed
        failed += len(result.worse)
        if not result.loops:
            failed += 1
            print(f"  not one loop of {arguments.factory} was made")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
