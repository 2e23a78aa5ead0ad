"""Every Python program of `docs/*.md`, run as printed: it must print what the page shows after it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"
PROGRAM = re.compile(r"^```python\n(.*?)^```\n+^```text\n(.*?)^```", re.MULTILINE | re.DOTALL)


def programs() -> list[tuple[str, str, str]]:
    return [
        (f"{page.name}:{text.count(chr(10), 0, match.start()) + 1}", match[1], match[2])
        for page in sorted(DOCS.glob("*.md"))
        for text in [page.read_text()]
        for match in PROGRAM.finditer(text)
    ]


@pytest.mark.parametrize(("where", "program", "shown"), [pytest.param(*p, id=p[0]) for p in programs()])
def test_a_program_of_the_manual_prints_what_the_page_shows(where: str, program: str, shown: str) -> None:
    env = os.environ | {"PYTHONWARNINGS": "error", "PYTHONDEVMODE": "1"}
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=env, timeout=60)
    assert (ran.stdout, ran.stderr) == (shown, ""), where


def test_no_program_of_the_manual_is_left_out() -> None:
    blocks = sum(page.read_text().count("```python\n") for page in DOCS.glob("*.md"))
    assert len(programs()) == blocks
