"""Owns the promise that extension modules find libpython inside the VM: numpy imports, and works."""

from pathlib import Path

from conftest import run

PROGRAM = """
    {ok, _} = application:ensure_all_started(erlang_python),
    {ok, 4950} = py:eval("int(__import__('numpy').arange(100).sum())"),
    ok = py:bind(),
    ok = py:exec("import numpy"),
    ok = py:exec("a = numpy.arange(9.0).reshape(3, 3)"),
    {ok, [[15.0, 18.0, 21.0], [42.0, 54.0, 66.0], [69.0, 90.0, 111.0]]} = py:eval("(a @ a).tolist()"),
    {ok, 4.0} = py:eval("float(numpy.linalg.norm([4.0]))"),
    ok = py:unbind(),
    %% In every context, at the same time, whichever thread that is.
    Det = "float(__import__('numpy').linalg.det([[1.0, 2.0], [3.0, 4.0]]))",
    Callers = [spawn_monitor(fun() -> {ok, D} = py:eval(Det), true = abs(D + 2.0) < 1.0e-9 end)
               || _ <- lists:seq(1, 50)],
    [receive {'DOWN', M, process, _, Reason} -> normal = Reason end || {_, M} <- Callers],
    %% An array has no counterpart, and is said so by name; by reference it goes back and forth.
    {error, {unconvertible, <<"ndarray">>}} = py:call(numpy, arange, [3]),
    {ok, Array} = py:call(numpy, arange, [3], #{}, #{return => ref}),
    {ok, [0, 1, 2]} = py:call('numpy', 'ndarray.tolist', [Array]),
    io:put_chars("numpy works"),
    halt(0).
"""


def test_numpy_imports_and_works_inside_the_vm(application: Path) -> None:
    ran = run("erl", "-pa", application, "-noshell", "-eval", PROGRAM)
    assert (ran.returncode, ran.stdout) == (0, "numpy works"), ran.stdout + ran.stderr
