"""What runs on the asyncio loop runs on it inside the Erlang VM too: pytest is called there, with loops of
its own in that call, or with loops that Erlang runs, on threads of theirs or without.

All but what is about signals and child processes, which the VM does not have for Python, and about whole
processes. FastAPI under uvicorn, aiohttp, redis-py and asyncpg talk to real clients and servers.
"""

import re
from pathlib import Path

import pytest
import servers
from conftest import ROOT, run
from servers import postgres_port, redis_port

__all__ = ["postgres_port", "redis_port"]

PROGRAM = """
    {ok, _} = application:ensure_all_started(erlang_python),
    Arguments = [list_to_binary(Argument) || Argument <- init:get_plain_arguments()],
    ok = py:register_function(open_loop, fun([]) ->
        Key = erlang:unique_integer([positive]),
        {ok, _} = gen_server:start({global, Key}, py_loop, Key, []),
        {ok, none} = py_loop:run(py_loop:find(Key), {hosted, introduce}, [Key], #{timeout => 60000}),
        Key
    end),
    ok = py:register_function(close_loop, fun([Key]) -> gen_server:stop({global, Key}), none end),
    {ok, Code} = py:call(pytest, main, [Arguments], #{}, 1500000),
    halt(Code).
"""
# The VM's standard error has no descriptor, which two of pytest's plug-ins ask for.
OPTIONS = ("-q", "-p", "no:faulthandler", "--capture=sys", "-m", "not own_process")


def passed_inside(application: Path, tests: str, driver: str = "thread", **environment: str) -> int:
    """Runs tests inside the VM. How many passed; none fails."""
    arguments = (*OPTIONS, ROOT / "pytests" / tests)
    settings = ("-noshell", "-erlang_python", "event_loop_driver", driver)
    ran = run(
        *("erl", "-pa", application, *settings, "-eval", PROGRAM, "-extra", *arguments),
        timeout=1600,
        LOOPS="ours",
        **environment,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    passed = re.search(r"^(\d+) passed", ran.stdout, re.MULTILINE)
    assert passed, ran.stdout
    print(passed[0], "inside the VM")
    return int(passed[1])


def test_the_loop_is_the_same_inside_the_vm(application: Path) -> None:
    assert passed_inside(application, "loop") > 1000


@pytest.mark.parametrize("driver", ["thread", "beam"])
def test_the_loop_is_the_same_where_erlang_runs_it(application: Path, driver: str) -> None:
    assert passed_inside(application, "loop", driver, HOSTED="yes") > 500


def test_real_programs_run_inside_the_vm(application: Path, redis_port: int, postgres_port: int) -> None:
    ports = {servers.REDIS: str(redis_port), servers.POSTGRES: str(postgres_port)}
    assert passed_inside(application, "programs", **ports) >= 10
