"""Owns the answer to "what does this machine have?": one line per tool, and how to get what is missing.

`ok` is there, `missing` is needed by `make test`, `optional` is not there and can stay away. Exits with 1 if
anything is missing. Runs with the chosen PYTHON alone, before and without any set-up.
"""

import importlib.util
import os
import re
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
CARGO = os.environ.get("CARGO", "cargo")
RUSTUP = "install Rust with rustup"


@dataclass(frozen=True)
class Check:
    """One line of the report. `probe` gives what was found, or an empty string."""

    name: str
    probe: Callable[[], str]
    fix: str


def says(*command: str, pattern: str = r"\d+(\.\w+)+") -> Callable[[], str]:
    """A probe: the part of the command's output that matches, empty if it cannot be run."""

    def probe() -> str:
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=30, cwd=ROOT, check=False)
        except OSError:
            return ""
        found = re.search(pattern, done.stdout + done.stderr)
        return found[0] if done.returncode == 0 and found else ""

    return probe


def debian(package: str, what_for: str) -> str:
    return f"{what_for}: apt-get install --no-install-recommends {package}"


def python() -> str:
    version = sys.version.split()[0]
    return f"{version}, {sys.executable}" if sys.version_info >= (3, 11) else ""


def python_venv() -> str:
    return "there" if importlib.util.find_spec("ensurepip") and importlib.util.find_spec("venv") else ""


def libpython() -> str:
    """The shared library, if this Python has one; embedding takes it."""
    if not sysconfig.get_config_var("Py_ENABLE_SHARED"):
        return ""
    library = Path(sysconfig.get_config_var("LIBDIR"), sysconfig.get_config_var("INSTSONAME"))
    return str(library) if library.exists() else ""


# Debian has its library in a package apart; others decide when they are built.
LIBPYTHON = (
    debian(f"libpython3.{sys.version_info.minor}", "to embed Python")
    if sys.base_prefix == "/usr"
    else "to embed Python: an interpreter built with --enable-shared"
)


def threading_model() -> str:
    return "free-threaded" if sysconfig.get_config_var("Py_GIL_DISABLED") else "with the GIL"


def other_pythons() -> str:
    """Every other Python that can be chosen, by its path: those on the PATH and those of pyenv."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    folders = [Path(folder) for folder in os.get_exec_path()] + sorted(pyenv.glob("*/bin"))
    found = {
        path.resolve()
        for folder in folders
        if folder.name != "shims"
        for path in folder.glob("python3.*")
        if re.fullmatch(r"python3\.(1[1-9]|[2-9]\d)t?", path.name) and os.access(path, os.X_OK)
    }
    return " ".join(sorted(map(str, found - {Path(sys.executable).resolve()})))


def erlang() -> str:
    release = "io:put_chars(erlang:system_info(otp_release)), halt()."
    return says("erl", "-noshell", "-eval", release, pattern=r"\d+")()


def tsan() -> str:
    return says(str(ROOT / "tools/tsan.sh"), "--probe", pattern=r"rustc .*")()


REQUIRED = [
    Check("rustc", says("rustc", "--version"), RUSTUP),
    Check("cargo", says(CARGO, "--version"), RUSTUP),
    Check("cc", says("cc", "--version"), debian("build-essential", "links every Rust program")),
    Check("python", python, "3.11 or newer, chosen with PYTHON="),
    Check("python venv", python_venv, debian("python3-venv", "holds the Python tools")),
    Check("pkg-config", says("pkg-config", "--version"), debian("pkg-config", "finds libuv")),
    Check("libuv", says("pkg-config", "--modversion", "libuv"), debian("libuv1-dev", "a peer to measure")),
    Check("redis-server", says("redis-server", "--version"), debian("redis-server", "a Redis to speak to")),
]

OPTIONAL = [
    Check("clippy", says(CARGO, "clippy", "--version"), "for make lint: rustup component add clippy"),
    Check("rustfmt", says(CARGO, "fmt", "--version"), "for make lint: rustup component add rustfmt"),
    Check("libpython", libpython, LIBPYTHON),
    Check("threads", threading_model, ""),
    Check("other pythons", other_pythons, "to test with more than one Python"),
    Check("tsan", tsan, "for make test-tsan, which looks for it too: rustup component add rust-src"),
    Check("erl", erlang, debian("erlang-base erlang-dev", "the BEAM")),
    Check("rebar3", says("rebar3", "--version"), debian("rebar3", "builds the Erlang side")),
    Check("valgrind", says("valgrind", "--version"), debian("valgrind", "finds leaks")),
    Check("perf", says("perf", "--version"), debian("linux-perf", "profiles")),
]


def report(checks: list[Check], otherwise: str) -> int:
    """Prints a line per check and counts those that found nothing."""
    absent = 0
    for check in checks:
        found = check.probe()
        absent += not found
        print(f"{'ok' if found else otherwise:<10}{check.name:<15}{found or check.fix}", flush=True)
    return absent


def main() -> int:
    missing = report(REQUIRED, "missing")
    report(OPTIONAL, "optional")
    if missing:
        print("\n`make setup`, run as root, installs the Debian packages by itself.")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
