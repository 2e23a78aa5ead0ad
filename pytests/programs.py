"""Owns how tests run the programs of this repository: in its root, within a time limit, output in hand."""

import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[1]


def run(*command: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs a program; its environment is ours, changed as the keywords say."""
    return subprocess.run(
        [str(word) for word in command],
        cwd=ROOT,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
