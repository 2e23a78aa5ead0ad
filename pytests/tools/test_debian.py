"""Owns the contract of tools/debian.sh: what counts as wanted, as missing, and what is said to whom."""

import os
import shutil
from pathlib import Path

import pytest
from programs import ROOT, run

SCRIPT = ROOT / "tools" / "debian.sh"
NOWHERE = "no-such-package-anywhere"

pytestmark = pytest.mark.skipif(not shutil.which("dpkg-query"), reason="not Debian")


@pytest.fixture
def listed(tmp_path: Path) -> Path:
    path = tmp_path / "packages.txt"
    path.write_text(f"# all of them\n\ndpkg  # is always there\n{NOWHERE}-b if spare  # b\n{NOWHERE}-a # a")
    return path


def test_only_the_missing_packages_are_named(listed: Path) -> None:
    assert run(SCRIPT, "--missing", listed).stdout.split() == [f"{NOWHERE}-a"]


def test_a_package_with_a_condition_counts_when_it_is_given(listed: Path) -> None:
    done = run(SCRIPT, "--missing", listed, "other", "spare")
    assert done.stdout.split() == [f"{NOWHERE}-b", f"{NOWHERE}-a"]


def test_nothing_missing_is_silence(listed: Path) -> None:
    listed.write_text("dpkg\n")
    done = run(SCRIPT, listed)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("line", ["dpkg tar", "dpkg if", "dpkg when spare", "dpkg if spare tar"])
def test_a_line_that_makes_no_sense_is_refused_with_its_number(listed: Path, line: str) -> None:
    listed.write_text(f"# first\n{line}\n")
    done = run(SCRIPT, "--missing", listed)
    assert done.returncode == 1
    assert f"{listed}:2: expected" in done.stderr


def test_without_root_the_exact_command_is_printed() -> None:
    # Another user may be unable to read this checkout, so the script and the list are handed over.
    as_nobody = ["setpriv", "--reuid=65534", "--clear-groups"] if os.geteuid() == 0 else []
    in_hand = 'bash -c "$1" debian.sh <(echo "$2")'
    done = run(*as_nobody, "bash", "-c", in_hand, "-", SCRIPT.read_text(), NOWHERE)
    assert done.returncode == 1
    assert f"\n    apt-get update && apt-get install -y --no-install-recommends {NOWHERE}\n" in done.stderr


def test_the_list_of_the_project_is_well_formed() -> None:
    done = run(SCRIPT, "--missing", "tools/debian-packages.txt", "debian-python")
    assert (done.returncode, done.stderr) == (0, "")
