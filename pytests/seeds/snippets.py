"""Owns the examples: finds them in the text they were printed in, and makes their ports free.

The text is kept as printed in examples_first.md and examples_second.md: every Python block of the guides
that needs no BEAM, each below a heading that names it.
"""

import re
import socket
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Snippet:
    guide: str
    name: str
    code: str

    @property
    def id(self) -> str:
        return f"{self.guide}: {self.name}"


def read(guide: str) -> dict[str, Snippet]:
    text = (HERE / f"examples_{guide}.md").read_text()
    found = re.findall(r"^## (.+?)\n+```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    return {name: Snippet(guide, name, code) for name, code in found}


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
    return port


def with_port(code: str, port: int) -> str:
    """The same example at another port than the one it is printed with."""
    return re.sub(r"\b(8888|9999)\b", str(port), code)
