"""Owns the proof that the layer check sees every kind of violation, in made-up trees."""

import subprocess
import sys
from pathlib import Path

import pytest
from layers import code_of
from programs import ROOT, run

LAYERS = ROOT / "tools" / "layers.py"


class Tree:
    """A made-up workspace, crate by crate. What lies in foreign/ plays a library from elsewhere."""

    def __init__(self, root: Path) -> None:
        self.root = root
        members = 'members = ["crates/*"]\nexclude = ["foreign"]'
        self.file("Cargo.toml", f'[workspace]\nresolver = "3"\n{members}\n[workspace.lints.rust]\n')

    def crate(self, name: str, needs: str = "", lints: str = "[lints]\nworkspace = true\n") -> None:
        self._package(f"crates/{name}", name, needs, lints)

    def foreign(self, name: str, needs: str = "") -> None:
        self._package(f"foreign/{name}", name, needs, "")

    def file(self, path: str, text: str) -> None:
        where = self.root / path
        where.parent.mkdir(parents=True, exist_ok=True)
        where.write_text(text)

    def check(self) -> tuple[int, list[str]]:
        """The exit code, and the violations."""
        lock = ["cargo", "generate-lockfile", "--offline"]
        subprocess.run(lock, cwd=self.root, check=True, capture_output=True)
        done = run(sys.executable, LAYERS, self.root)
        assert not done.stderr
        return done.returncode, done.stdout.splitlines()[:-1]

    def _package(self, path: str, name: str, needs: str, lints: str) -> None:
        package = f'[package]\nname = "{name}"\nversion = "0.1.0"\nedition = "2024"\n'
        self.file(f"{path}/Cargo.toml", f"{package}[dependencies]\n{needs}\n{lints}")
        self.file(f"{path}/src/lib.rs", "//! Owns nothing.\n")


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """Three sound crates: evloop below, dag and pyrt above it."""
    tree = Tree(tmp_path)
    tree.foreign("pyo3-ffi")
    tree.foreign("rustler")
    tree.crate("evloop")
    tree.crate("dag", needs='evloop = { path = "../evloop" }')
    tree.crate("pyrt", needs='pyo3-ffi = { path = "../../foreign/pyo3-ffi" }')
    return tree


def test_a_sound_tree_passes(tree: Tree) -> None:
    tree.file("crates/evloop/src/os/mod.rs", "//! Owns epoll.\nepoll::wait(eventfd(0));\n")
    tree.file("crates/evloop/tests/nested.rs", "//! A loop in a loop.\nepoll::create();\n")
    tree.file("crates/pyrt/src/owned.rs", "//! Owns a reference.\nuse pyo3_ffi::PyObject;\n")
    assert tree.check() == (0, [])


def test_a_lower_crate_may_not_depend_on_a_higher_one(tree: Tree) -> None:
    tree.crate("dag")
    tree.crate("evloop", needs='dag = { path = "../dag" }')
    assert tree.check() == (1, ["evloop: may not depend on dag"])


def test_tests_keep_the_layers_too(tree: Tree) -> None:
    tree.crate("dag", needs='[dev-dependencies]\npyrt = { path = "../pyrt" }')
    assert tree.check() == (1, ["dag: may not depend on pyrt"])


def test_a_crate_without_a_row_is_refused(tree: Tree) -> None:
    tree.crate("util")
    assert tree.check() == (1, ["util: has no row in MAY_KNOW of tools/layers.py"])


def test_python_may_not_come_in_through_a_library(tree: Tree) -> None:
    tree.foreign("helpful", needs='pyo3-ffi = { path = "../pyo3-ffi" }')
    tree.crate("evloop", needs='helpful = { path = "../../foreign/helpful" }')
    assert tree.check() == (1, ["evloop: may not bring in pyo3-ffi (evloop -> helpful -> pyo3-ffi)"])


def test_the_beam_may_not_come_in_below_the_nif(tree: Tree) -> None:
    tree.crate("pyloop", needs='pyrt = { path = "../pyrt" }\nrustler = { path = "../../foreign/rustler" }')
    assert tree.check() == (1, ["pyloop: may not bring in rustler (pyloop -> rustler)"])


def test_the_nif_may_know_both_worlds(tree: Tree) -> None:
    pyrt, rustler = 'pyrt = { path = "../pyrt" }', 'rustler = { path = "../../foreign/rustler" }'
    tree.crate("nif", needs=f"{pyrt}\n{rustler}")
    tree.file("crates/nif/src/convert.rs", "//! Owns terms.\nuse pyo3_ffi::PyObject;\nuse rustler::Term;\n")
    assert tree.check() == (0, [])


def test_a_crate_without_the_lints_is_refused(tree: Tree) -> None:
    tree.crate("evloop", lints="")
    assert tree.check() == (1, ["crates/evloop/Cargo.toml: lacks `[lints] workspace = true`"])


@pytest.mark.parametrize("first", ["use std::io;", "// Owns it.", "//!", "/// Owns it.", "", "\n//! Late."])
def test_a_file_that_does_not_say_what_it_owns_is_refused(tree: Tree, first: str) -> None:
    tree.file("crates/evloop/tests/silent.rs", first)
    code, faults = tree.check()
    assert code == 1
    assert [fault.split(": ")[0] for fault in faults] == ["crates/evloop/tests/silent.rs:1"]


@pytest.mark.parametrize(
    ("path", "line", "word"),
    [
        ("crates/evloop/src/poll.rs", "let fd = rustix::event::epoll::create(flags);", "epoll::"),
        ("crates/evloop/src/poll.rs", "unsafe { libc::epoll_wait(fd, p, n, -1) };", "epoll_wait"),
        ("crates/evloop/src/timer.rs", "timerfd_settime(&fd, flags, &spec);", "timerfd_settime"),
        ("crates/dag/src/wake.rs", "let wake = eventfd(0, flags);", "eventfd("),
        ("crates/dag/src/lib.rs", "use pyo3_ffi::PyObject;", "pyo3_ffi"),
        ("crates/dag/tests/all.rs", "use pyo3_ffi::PyObject;", "pyo3_ffi"),
        ("crates/nif/src/select.rs", "use pyo3_ffi::PyObject;", "pyo3_ffi"),
        ("crates/pyrt/src/lib.rs", "unsafe { enif_select(env, fd) };", "enif_select"),
        ("crates/evloop/src/lib.rs", "use rustler::Env;", "rustler"),
    ],
)
def test_a_word_out_of_its_home_is_found_with_its_line(tree: Tree, path: str, line: str, word: str) -> None:
    tree.crate("nif")
    tree.file(path, f"//! Owns a violation.\n\n{line}\n")
    code, faults = tree.check()
    assert code == 1
    assert [fault.split(" does")[0] for fault in faults] == [f"{path}:3: `{word}`"]


def test_an_outdated_lock_file_is_refused(tree: Tree) -> None:
    tree.check()
    tree.crate("loader")
    done = run(sys.executable, LAYERS, tree.root)
    assert done.returncode == 1
    assert "--locked" in done.stderr


def test_comments_and_literals_may_speak_of_anything() -> None:
    source = "\n".join(
        [
            "//! parked by enif_select",
            "/* epoll_wait",
            '   again */ let a = "eventfd(\\" epoll_ctl"; let b = \'x\';',
            'let c = r#"a "timerfd_create" b"#; let quote = \'"\'; let d = enif_send; // enif_alloc',
            "fn f<'a>(x: &'a str) -> &'a str { x } // it's rustler",
        ]
    )
    code = code_of(source)
    assert code.count("\n") == source.count("\n")
    assert "enif_send" in code.splitlines()[3]
    for word in ("enif_select", "epoll", "eventfd", "timerfd", "enif_alloc", "rustler"):
        assert word not in code
