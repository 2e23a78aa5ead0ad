"""Owns the virtual environment that Python uses while it runs in the Erlang VM.

Activating one is what starting its interpreter would have been, as far as that can be had later: its packages
come first, those of the system only if it says so, and `sys.prefix` and `sys.executable` are its own. Modules
that were imported stay what they are.
"""

import importlib
import os
import site
import sys
import sysconfig
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_lock = threading.RLock()


@dataclass
class _Active:
    """An environment, and what it changed."""

    path: Path
    packages: Path
    added: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    finders: list[Any] = field(default_factory=list)
    before: dict[str, str] = field(default_factory=dict)
    variable: str | None = None


_active: _Active | None = None


def activate(path: str) -> None:
    """Uses an environment, its `.pth` files and editable installs honoured, in place of the one before."""
    global _active
    if not path:
        raise FileNotFoundError("the path of a virtual environment is empty")
    venv = Path(path).absolute()
    if not venv.is_dir():
        raise FileNotFoundError(f"{venv} is no virtual environment: there is no such directory")
    if not (venv / "pyvenv.cfg").is_file():
        raise FileNotFoundError(f"{venv} is no virtual environment: it has no pyvenv.cfg")
    packages = Path(sysconfig.get_path("purelib", "venv", {"base": str(venv), "platbase": str(venv)}))
    if not packages.is_dir():
        raise FileNotFoundError(f"{venv} is not for Python {sysconfig.get_python_version()}: no {packages}")
    with _lock:
        deactivate()
        active = _Active(venv, packages)
        if not _sees_the_system(venv):
            system = {*site.getsitepackages(), site.getusersitepackages()}
            active.removed = [entry for entry in sys.path if entry in system]
        before = [entry for entry in sys.path if entry not in active.removed]
        finders = list(sys.meta_path)
        sys.path[:] = before
        # Runs the `import` lines of `.pth` files too, by which editable installs add their finders.
        site.addsitedir(str(packages))
        active.added = [entry for entry in sys.path if entry not in before]
        active.finders = [finder for finder in sys.meta_path if finder not in finders]
        sys.path[:] = active.added + before
        names = ("prefix", "exec_prefix", "executable")
        active.before = {name: getattr(sys, name) for name in names}
        sys.prefix = sys.exec_prefix = str(venv)
        if (python := venv / "bin" / "python").exists():
            sys.executable = str(python)
        active.variable = os.environ.get("VIRTUAL_ENV")
        os.environ["VIRTUAL_ENV"] = str(venv)
        _active = active
        importlib.invalidate_caches()


def _sees_the_system(venv: Path) -> bool:
    for line in (venv / "pyvenv.cfg").read_text(errors="replace").splitlines():
        key, _, value = line.partition("=")
        if key.strip().lower() == "include-system-site-packages":
            return value.strip().lower() == "true"
    return False


def deactivate() -> None:
    """As it was before; what others have changed meanwhile stays."""
    global _active
    with _lock:
        active, _active = _active, None
        if active is None:
            return
        sys.path[:] = [entry for entry in sys.path if entry not in active.added] + active.removed
        sys.meta_path[:] = [finder for finder in sys.meta_path if finder not in active.finders]
        for name, value in active.before.items():
            setattr(sys, name, value)
        if active.variable is None:
            os.environ.pop("VIRTUAL_ENV", None)
        else:
            os.environ["VIRTUAL_ENV"] = active.variable
        importlib.invalidate_caches()


def info() -> dict[str, Any]:
    """The active environment, or the one Python was started from."""
    with _lock:
        started_in = sys.prefix if sys.prefix != sys.base_prefix else None
        path = str(_active.path) if _active else started_in
        packages = str(_active.packages) if _active else sysconfig.get_path("purelib")
        return {
            "active": path is not None,
            "path": path,
            "venv_path": path,
            "site_packages": packages,
            "executable": sys.executable,
            "prefix": sys.prefix,
            "base_prefix": sys.base_prefix,
            "python_version": sysconfig.get_python_version(),
            "sys_path": list(sys.path),
        }
