"""The examples of the two guides inside the Erlang VM: the very programs of `pytests/seeds`, run by a call.

What they print is the caller's to see, so it is what the VM prints.
"""

import re
import sys
from pathlib import Path

import pytest
from conftest import ROOT, run

sys.path.insert(0, str(ROOT / "pytests/seeds"))

import test_examples as standalone
from snippets import Snippet

PROGRAM = """
    {ok, _} = application:ensure_all_started(erlang_python),
    [File] = init:get_plain_arguments(),
    Run = "__import__('runpy').run_path(file, run_name='__main__') and None",
    case py:eval(Run, #{file => list_to_binary(File)}, 120000) of
        {ok, none} -> halt(0);
        {error, Reason} -> io:put_chars(standard_error, py:format_error(Reason)), halt(1)
    end.
"""
CASES = standalone.CASES


@pytest.mark.parametrize("snippet", CASES, ids=[snippet.id for snippet in CASES])
def test_example_runs_inside_the_vm(snippet: Snippet, application: Path, tmp_path: Path) -> None:
    program = tmp_path / "example.py"
    program.write_text(standalone.whole(snippet))
    ran = run("erl", "-pa", application, "-noshell", "-eval", PROGRAM, "-extra", program)
    if snippet.name in standalone.RAISES:
        assert standalone.RAISES[snippet.name] in ran.stderr.splitlines(), ran.stderr
        return
    assert ran.returncode == 0, ran.stdout + ran.stderr
    expected = standalone.EXPECTED.get(snippet.name, "")
    pattern = re.compile(re.escape(expected)) if isinstance(expected, str) else expected
    assert pattern.fullmatch(ran.stdout), ran.stdout + ran.stderr
