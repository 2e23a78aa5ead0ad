"""Owns the promise of `make run`: the tour shows what it says and ends; on a terminal a shell follows."""

import os
import pty
import re
import select
import subprocess
import sys

from conftest import ROOT, environment, run

SHOWN = [
    "> py:call(math, sqrt, [16.0]).\n{ok,4.0}\n",
    '> py:call(builtins, int, [<<"ff">>], #{base => 16}).\n{ok,255}\n',
    '> py:eval("seen").\n{ok,[<<"hello">>]}\n',
    '> py:eval("erlang.area(3, 4) + 1").\n{ok,13}\n',
    "> py:call('__main__', depth, [50]).\n{ok,50}\n",
    "[{data,7},{data,8}]\n",
    "unasked after 100 -> nothing end.\nnothing\n",
    "{error,cancelled}\n",
    "Traceback (most recent call last):\n",
    "json.decoder.JSONDecodeError: Expecting property name",
    "> py:call('__main__', spin, [], #{}, 100).\n{error,timeout}\n",
    '{ok,<<"at your service again">>}\n',
]

# At the beginning of a line: a reference that is printed may end in "1>" too.
PROMPT = re.compile(r"^\d+> ", re.MULTILINE)


def test_without_a_terminal_the_tour_is_printed_step_by_step_and_ends() -> None:
    done = run("tools/tour.sh")
    assert done.returncode == 0, done.stdout + done.stderr
    assert not PROMPT.search(done.stdout), done.stdout
    place = 0
    for text in SHOWN:
        place = done.stdout.find(text, place)
        assert place >= 0, f"{text!r} is not in its place in\n{done.stdout}"


def test_make_run_gives_the_tour() -> None:
    plan = run("make", "--no-print-directory", "--dry-run", "run")
    assert "tools/tour.sh" in plan.stdout


def test_a_step_that_fails_breaks_the_tour_off(application: object) -> None:
    code = (ROOT / "examples/tour.erl").read_text().replace('"py:version()."', '"{ok, 1} = py:version()."')
    assert "{ok, 1} = py:version()" in code
    folder = ROOT / "build/tour-that-fails"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tour.erl").write_text(code)
    assert run("erlc", "-o", folder, folder / "tour.erl").returncode == 0
    ran = run("erl", "-pa", str(application), "-pa", folder, "-noshell", "-s", "tour", "main")
    assert ran.returncode == 1
    assert "the tour broke off" in ran.stdout


def test_on_a_terminal_a_shell_follows_the_tour() -> None:
    leader, follower = pty.openpty()
    shell = subprocess.Popen(
        ["tools/tour.sh"],
        cwd=ROOT,
        env=environment(sys.executable) | {"TERM": "dumb"},
        stdin=follower,
        stdout=follower,
        stderr=follower,
        start_new_session=True,
    )
    os.close(follower)
    said = ""

    def until(pattern: str | re.Pattern[str]) -> None:
        nonlocal said
        while not re.search(pattern, said):
            ready, _, _ = select.select([leader], [], [], 100)
            assert ready, f"{pattern!r} did not come:\n{said}"
            said += os.read(leader, 65536).decode(errors="replace")

    try:
        until(r"at your service again")
        until(PROMPT)
        said = PROMPT.split(said)[-1]
        # The prompt may be there a moment before the application is; this waits for it.
        os.write(leader, b"application:ensure_all_started(erlang_python).\n")
        until(r"\{ok,\[(erlang_python)?\]\}")
        os.write(leader, b"py:call(math, sqrt, [81.0]).\n")
        until(r"\{ok,9\.0\}")
        os.write(leader, b"q().\n")
        assert shell.wait(60) == 0
    finally:
        shell.kill()
        shell.wait()
        os.close(leader)
