"""The environment that the asyncio suite runs in: `build/py3.x/bench-venv`, the peers and ours on one path.

Made by a benchmark run and by nothing else. The stamp is written last: half an environment is made anew.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
REQUIREMENTS = ROOT / "bench" / "requirements.txt"
VERSION = f"{sys.version_info.major}.{sys.version_info.minor}{sys.abiflags}"
BUILD = ROOT / "build" / f"py{VERSION}"
HOME = BUILD / "bench-venv"
PYTHON = HOME / "bin" / "python"
BUILD_OURS = ROOT / "tools" / "build_ext.sh"

_ASK = """
import importlib, importlib.metadata, json, sys
found, missing = {}, {}
for name in sys.argv[1:]:
    try:
        importlib.import_module(name)
    except ImportError as why:
        missing[name] = str(why)
    else:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = getattr(sys.modules[name], "__version__", "")
print(json.dumps([found, missing]))
"""


def requirements(text: str) -> list[str]:
    """The lines that name a package."""
    stripped = (line.partition("#")[0].strip() for line in text.splitlines())
    return [line for line in stripped if line]


def _interpreter() -> str:
    """The one behind the environment this may be called from."""
    return str(getattr(sys, "_base_executable", sys.executable))


def _install(wanted: Iterable[str]) -> None:
    pip = (str(PYTHON), "-m", "pip", "--quiet", "--disable-pip-version-check")
    install = (*pip, "install", "--only-binary", ":all:", "--no-deps")
    for line in wanted:
        done = subprocess.run((*install, line), stderr=subprocess.PIPE, text=True)
        if done.returncode != 0:
            print(f"left out: {line} ({done.stderr.strip().splitlines()[-1]})", file=sys.stderr)


def make() -> None:
    """The environment, if it is not there as it should be, with the programs and ours on its path."""
    text = REQUIREMENTS.read_text(encoding="utf-8")
    stamp, made_of = HOME / "made-of", f"{HOME} {sys.version}\n{text}"
    if not stamp.is_file() or stamp.read_text(encoding="utf-8") != made_of:
        subprocess.run((_interpreter(), "-m", "venv", "--clear", str(HOME)), check=True)
        _install(requirements(text))
        stamp.write_text(made_of, encoding="utf-8")
    packages = Path(sysconfig.get_path("purelib", vars={"base": str(HOME)}))
    (packages / "bench.pth").write_text(f"{ROOT / 'bench'}\n{build_ours()}\n", encoding="utf-8")


def build_ours() -> str:
    """The extension module for this Python, and where it lies with its packages."""
    environment = os.environ | {"PYTHON": _interpreter()}
    done = subprocess.run(
        (str(BUILD_OURS),), cwd=ROOT, check=True, env=environment, stdout=subprocess.PIPE, text=True
    )
    return done.stdout.strip()


def ask(modules: Iterable[str]) -> tuple[dict[str, str], dict[str, str]]:
    """The versions of the modules that can be imported there, and why the others cannot."""
    command = (str(PYTHON), "-c", _ASK, *modules)
    answer = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found, missing = json.loads(answer)
    return found, missing
