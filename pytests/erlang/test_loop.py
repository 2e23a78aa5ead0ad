"""The tests of the asyncio loop inside the Erlang VM: pytest is called there, and its loops run in that call.

All but those about signals and child processes, which the VM does not have for Python, and those about whole
programs.
"""

import re
from pathlib import Path

from conftest import ROOT, run

PROGRAM = """
    {ok, _} = application:ensure_all_started(erlang_python),
    Arguments = [list_to_binary(Argument) || Argument <- init:get_plain_arguments()],
    {ok, Code} = py:call(pytest, main, [Arguments], #{}, 1500000),
    halt(Code).
"""
# The VM's standard error has no descriptor, which two of pytest's plug-ins ask for.
OPTIONS = ("-q", "-p", "no:faulthandler", "--capture=sys", "-m", "not own_process")


def test_the_loop_is_the_same_inside_the_vm(application: Path) -> None:
    tests = ROOT / "pytests/loop"
    ran = run(
        *("erl", "-pa", application, "-noshell", "-eval", PROGRAM, "-extra", *OPTIONS, tests),
        timeout=1600,
        LOOPS="ours",
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    passed = re.search(r"^(\d+) passed", ran.stdout, re.MULTILINE)
    assert passed and int(passed[1]) > 1000, ran.stdout
    print(passed[0], "inside the VM")
