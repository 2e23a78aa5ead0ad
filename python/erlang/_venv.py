"""Owns the virtual environment that is put on Python's path while it runs in the Erlang VM."""

import site
import sys
import sysconfig
from pathlib import Path
from typing import Any

# What the path was before, and which environment is active.
_before: list[str] | None = None
_active: Path | None = None


def activate(path: str) -> None:
    """Puts the packages of an environment first, its `.pth` files honoured."""
    global _before, _active
    venv = Path(path).resolve()
    if not (venv / "pyvenv.cfg").is_file():
        raise FileNotFoundError(f"{venv} is no virtual environment: it has no pyvenv.cfg")
    packages = Path(sysconfig.get_path("purelib", "venv", {"base": str(venv), "platbase": str(venv)}))
    if not packages.is_dir():
        raise FileNotFoundError(f"{venv} is not for Python {sysconfig.get_python_version()}: no {packages}")
    deactivate()
    _before = list(sys.path)
    site.addsitedir(str(packages))
    known = set(_before)
    added = [entry for entry in sys.path if entry not in known]
    sys.path[:] = added + _before
    _active = venv


def deactivate() -> None:
    """The path as it was before."""
    global _before, _active
    if _before is not None:
        sys.path[:] = _before
    _before = _active = None


def info() -> dict[str, Any]:
    """The active environment, or the one Python was started from."""
    started_in = sys.prefix if sys.prefix != sys.base_prefix else None
    return {
        "active": _active is not None or started_in is not None,
        "path": str(_active) if _active else started_in,
        "executable": sys.executable,
        "prefix": sys.prefix,
        "base_prefix": sys.base_prefix,
        "sys_path": list(sys.path),
    }
