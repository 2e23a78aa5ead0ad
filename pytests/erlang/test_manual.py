"""Owns the promise of `docs/erlang.md`: its lines of Erlang hold, from top to bottom in one shell."""

from pathlib import Path

from conftest import ROOT, run

PAGE = ROOT / "docs/erlang.md"
EVALUATE = """
    [File] = init:get_plain_arguments(),
    case file:eval(File) of
        ok -> io:put_chars("all of it holds"), halt(0);
        {error, Reason} -> io:put_chars(file:format_error(Reason)), halt(1)
    end.
"""


def lines_of_erlang(page: str) -> str:
    """The page with all else blank, so that an error names the line it is in."""
    kept, inside = [], False
    for line in page.splitlines():
        if line.startswith("```"):
            inside = line == "```erlang"
            kept.append("")
        else:
            kept.append(line if inside else "")
    return "\n".join(kept) + "\n"


def test_every_line_of_the_manual_holds(application: Path, tmp_path: Path) -> None:
    program = tmp_path / "erlang.md.erl"
    program.write_text(lines_of_erlang(PAGE.read_text()))
    ran = run("erl", "-pa", application, "-noshell", "-eval", EVALUATE, "-extra", program)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stdout.endswith("all of it holds")
