"""Owns the contract of tools/setup.sh and tools/interpreter.py: silent when done, clear when in need."""

import shutil
import sys
from pathlib import Path

from programs import ROOT, run

SETUP = ROOT / "tools" / "setup.sh"


def test_a_second_setup_has_nothing_to_do_and_says_nothing() -> None:
    done = run(SETUP, PYTHON=sys.executable)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_tools_are_installed_for_one_python_minor() -> None:
    build = run(sys.executable, "tools/interpreter.py").stdout.splitlines()[0]
    assert build == f"build/py{sys.version_info.major}.{sys.version_info.minor}{sys.abiflags}"
    assert Path(sys.prefix) == ROOT / build / "venv"


def test_a_python_that_is_not_there_is_named() -> None:
    done = run(SETUP, PYTHON="python3.99")
    assert done.returncode == 1
    assert "PYTHON=python3.99 is not there" in done.stderr


def test_a_python_that_cannot_run_is_named() -> None:
    done = run(SETUP, PYTHON="/bin/false")
    assert done.returncode == 1
    assert "PYTHON=/bin/false cannot be used" in done.stderr


def test_without_rust_it_says_how_to_get_it(bare_path: str) -> None:
    done = run(SETUP, PYTHON=sys.executable, PATH=bare_path)
    assert done.returncode == 1
    assert "Rust is missing" in done.stderr
    assert "rustup" in done.stderr


def test_a_rust_too_old_is_refused(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "tools", tmp_path / "tools")
    (tmp_path / "Cargo.toml").write_text('rust-version = "99.0"\n')
    done = run(tmp_path / "tools" / "setup.sh", PYTHON=sys.executable)
    assert done.returncode == 1
    assert "Rust 99.0 or newer is needed" in done.stderr
    assert "rustup update stable" in done.stderr
