"""Owns what the tests of tools/ share: a machine with hardly anything on it."""

from pathlib import Path

import pytest


@pytest.fixture
def bare_path(tmp_path: Path) -> str:
    """A PATH with a few programs every Debian has, and no compiler, no Rust and no Python."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("bash", "cut", "dirname", "dpkg-query", "env", "sed"):
        (folder / name).symlink_to(f"/usr/bin/{name}")
    return str(folder)
