"""Owns the layer rules: which crate may know which, and where Python, the BEAM and epoll may be named.

    layers.py [ROOT]

Prints one line per violation and exits with 1 if there is any. A crate not written yet matches nothing.
"""

import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# Crate -> the crates of this workspace it may depend on, in its tests and build script too.
MAY_KNOW: dict[str, set[str]] = {
    "evloop": set(),
    "dag": {"evloop"},
    "waiters": {"evloop"},
    "pyrt": set(),
    "pyloop": {"evloop", "pyrt"},
    "web": {"evloop", "pyrt", "pyloop"},
    "pyext": {"pyloop", "web"},
    "loader": set(),
    "nif": {"evloop", "dag", "waiters", "pyrt", "pyloop", "web"},
    # The same source once more.
    "fuzz": {"evloop", "dag", "waiters", "pyrt", "pyloop", "web"},
    "bench-client": set(),
    "bench-dag": {"dag", "evloop"},
    "bench-evloop": {"evloop"},
}

# A world of its own -> the crates that may bring it in, be it through a library in between.
WORLDS: dict[str, set[str]] = {
    "pyo3": set(),
    "pyo3-ffi": {"pyrt", "nif", "fuzz"},
    "rustler": {"nif", "loader", "fuzz"},
}


@dataclass(frozen=True)
class TextRule:
    """Code below `scope` may match `pattern` only in files whose path matches `home`."""

    pattern: re.Pattern[str]
    scope: re.Pattern[str]
    home: re.Pattern[str]
    why: str


def _rule(pattern: str, scope: str, home: str, why: str) -> TextRule:
    return TextRule(re.compile(pattern), re.compile(scope), re.compile(home), why)


TEXT_RULES = [
    _rule(
        r"\bpyo3_ffi\b",
        scope=r"crates/",
        home=r"crates/(pyrt/|nif/src/convert)",
        why="raw CPython calls live in crates/pyrt and in the conversion of crates/nif",
    ),
    _rule(
        r"\benif_\w+|\brustler\b",
        scope=r"crates/",
        home=r"crates/(nif|loader)/",
        why="only crates/nif and crates/loader know the BEAM",
    ),
    # Tests may make such descriptors, to be watched or to watch with.
    _rule(
        r"\bepoll::|\bepoll_(create1?|ctl|p?wait2?)\b|\btimerfd_\w+|\beventfd\s*\(",
        scope=r"crates/\w+/src/",
        home=r"crates/evloop/src/os/",
        why="the kernel's side of the loop is crates/evloop/src/os",
    ),
]

# Comments and literals may speak of anything.
_NOT_CODE = re.compile(
    r"""//[^\n]* | /\*.*?\*/
    | r(?P<hashes>\#*)".*?"(?P=hashes) | "(?:\\.|[^"\\])*"
    | '(?:\\[^\n']+|\\'|[^'\\\n])'""",
    re.DOTALL | re.VERBOSE,
)


def code_of(source: str) -> str:
    """The source with comments and literals taken out, every line staying where it was."""
    return _NOT_CODE.sub(lambda found: "\n" * found[0].count("\n"), source)


class Workspace:
    """What cargo knows of the workspace. Asked with --locked, so an outdated Cargo.lock is found here too."""

    def __init__(self, root: Path) -> None:
        cargo = os.environ.get("CARGO", "cargo")
        # Quietly: that another cargo is waited for is no fault of the tree.
        command = [cargo, "metadata", "--quiet", "--locked", "--format-version=1"]
        output = subprocess.run(command, cwd=root, check=True, stdout=subprocess.PIPE).stdout
        answer: dict[str, Any] = json.loads(output)
        self.root = root.resolve()
        self.name: dict[str, str] = {package["id"]: package["name"] for package in answer["packages"]}
        self.members: set[str] = set(answer["workspace_members"])
        self.manifests = sorted(
            Path(package["manifest_path"]) for package in answer["packages"] if package["id"] in self.members
        )
        self.needs: dict[str, list[str]] = {
            node["id"]: [dep["pkg"] for dep in node["deps"]] for node in answer["resolve"]["nodes"]
        }

    def sources(self) -> Iterator[tuple[str, str]]:
        """Path (from the root) and text of every Rust file of the workspace's crates."""
        for manifest in self.manifests:
            for path in sorted(manifest.parent.rglob("*.rs")):
                relative = path.relative_to(self.root).as_posix()
                if "target" not in path.relative_to(manifest.parent).parts:
                    yield relative, path.read_text(encoding="utf-8")

    def brought_in(self, member: str) -> dict[str, list[str]]:
        """Every package a member reaches without passing through another member -> the names on the way."""
        ways = {member: [self.name[member]]}
        queue = [member]
        for package in queue:
            if package in self.members and package != member:
                continue
            for needed in self.needs[package]:
                if needed not in ways:
                    ways[needed] = [*ways[package], self.name[needed]]
                    queue.append(needed)
        del ways[member]
        return ways


def dependency_faults(workspace: Workspace) -> Iterator[str]:
    """Crates that know what they should not."""
    for member in sorted(workspace.members):
        crate = workspace.name[member]
        if crate not in MAY_KNOW:
            yield f"{crate}: has no row in MAY_KNOW of tools/layers.py"
            continue
        for package, way in workspace.brought_in(member).items():
            name = workspace.name[package]
            if package in workspace.members and name not in MAY_KNOW[crate]:
                yield f"{crate}: may not depend on {name}"
            elif name in WORLDS and crate not in WORLDS[name]:
                yield f"{crate}: may not bring in {name} ({' -> '.join(way)})"


def lint_faults(workspace: Workspace) -> Iterator[str]:
    """Crates that do not opt in to the lints of the workspace."""
    for manifest in workspace.manifests:
        if tomllib.loads(manifest.read_text(encoding="utf-8")).get("lints") != {"workspace": True}:
            yield f"{manifest.relative_to(workspace.root)}: lacks `[lints] workspace = true`"


def text_faults(workspace: Workspace) -> Iterator[str]:
    """Words in files that should not know them, and files that do not say what they own."""
    for path, source in workspace.sources():
        if not re.match(r"//! \S", source):
            yield f"{path}:1: the first line is to say what the file owns, in a `//!` comment"
        code = code_of(source)
        for rule in TEXT_RULES:
            if rule.scope.match(path) and not rule.home.match(path):
                for found in rule.pattern.finditer(code):
                    line = code.count("\n", 0, found.start()) + 1
                    yield f"{path}:{line}: `{found[0]}` does not belong here: {rule.why}"


def main() -> int:
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent.parent
    workspace = Workspace(root)
    faults = [*dependency_faults(workspace), *lint_faults(workspace), *text_faults(workspace)]
    for fault in faults:
        print(fault)
    print(f"layers: {len(workspace.members)} crate(s), {len(faults)} violation(s)", flush=True)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
