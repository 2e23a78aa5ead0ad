"""Runs CPython's own test.test_asyncio on two loops, stdlib's and ours, and compares test by test.

    python pytests/conformance/cpython.py --factory erlang:new_event_loop [--modules NAME ...] [--vm EBIN]

Every module runs in a process of its own per column. What passes with stdlib's loop has to pass with ours,
unless exceptions.toml names it with a reason. A module that depends on the loop and made none of ours is a
failure of the run. Ends with `N passed, N failed`, counted in our column, and with status 1 if anything
failed.

With --vm our column runs inside the Erlang VM, in a call that runs its own loops. There a test need not pass
if it was refused a child process, a signal or the end of the process, and exceptions.toml has the rest under
`vm`.
"""

import argparse
import concurrent.futures
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import columns
import hooks
from columns import Column, Outcome

HERE = Path(__file__).parent

# Modules whose tests make loops through the hooks. What test_base_events, test_selector_events and
# test_subprocess do with simulated loops says nothing about ours, and is run all the same: both columns see
# it.
LOOP_DEPENDENT = [
    "test_base_events",
    "test_buffered_proto",
    "test_context",
    "test_eager_task_factory",
    "test_events",
    "test_futures2",
    "test_locks",
    "test_pep492",
    "test_queues",
    "test_runners",
    "test_sendfile",
    "test_server",
    "test_sock_lowlevel",
    "test_ssl",
    "test_sslproto",
    "test_staggered",
    "test_streams",
    "test_subprocess",
    "test_taskgroups",
    "test_tasks",
    "test_threads",
    "test_timeouts",
    "test_unix_events",
    "test_waitfor",
]
# Run with real loops of both kinds where the suite takes a simulated one (`+` after the name).
REAL_LOOPS = ["test_futures+", "test_tasks+", "test_subprocess+", "test_unix_events+"]
OTHERS = ["test_selector_events", "test_futures"]
# These say nothing about the loop in their own text, as they only build on mocks.
MAY_MAKE_NONE = {
    "test_context",
    "test_futures",
    "test_selector_events",
    "test_staggered",
    "test_pep492",
    "test_runners",
}


# Runs the worker in a call. What it was told comes after `-extra`; the first word is its folder.
PROGRAM = """
    {ok, _} = application:ensure_all_started(erlang_python),
    [Here | Words] = [unicode:characters_to_binary(Word) || Word <- init:get_plain_arguments()],
    {ok, _} = py:call(sys, 'path.insert', [0, Here]),
    {ok, none} = py:call(worker, main, [Words], #{}, infinity),
    halt(0).
"""
REFUSED = "inside the Erlang VM"
"""In the text of every exception for what Python may not do there."""


def modules() -> list[str]:
    every = LOOP_DEPENDENT + OTHERS + REAL_LOOPS
    return [name for name in every if importlib.util.find_spec(f"test.test_asyncio.{name.rstrip('+')}")]


def vm_rules() -> list[columns.Rule]:
    return columns.read_rules(HERE / "exceptions.toml", "vm")


def program(vm: Path | None) -> tuple[list[str], dict[str, str]]:
    """What runs the worker, and its environment."""
    if vm is None:
        return [sys.executable, "-X", "faulthandler", str(HERE / "worker.py")], dict(os.environ)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = ["erl", "-noshell", "-pa", str(vm), "-eval", PROGRAM, "-extra", str(HERE)]
    return command, environment | {"ERLANG_PYTHON": sys.executable, "ERL_CRASH_DUMP": "/dev/null"}


def run_module(
    name: str, factory: str, only: list[str], limit: float, logs: Path, vm: Path | None = None
) -> Column:
    """One module in one column. After a crash or a hang the rest of its tests runs in a new process."""
    column: Column = {}
    hanging = [rule.pattern for rule in vm_rules() if "*" not in rule.pattern] if vm else []
    with tempfile.TemporaryDirectory() as folder:
        out, done = Path(folder, "out.jsonl"), Path(folder, "done")
        out.touch()
        while True:
            done.write_text("\n".join([*column, *hanging]))
            command, environment = program(vm)
            command += ["--factory", factory, "--module", f"test.test_asyncio.{name.rstrip('+')}"]
            command += ["--out", str(out), "--without", str(done), "--limit", str(limit)]
            command += [word for part in only for word in ("--only", part)]
            command += ["--real-loops"] if name.endswith("+") else []
            work = Path(folder, "work")
            work.mkdir(exist_ok=True)
            process = subprocess.run(
                command,
                cwd=work,
                env=environment,
                stdin=subprocess.DEVNULL if vm else None,
                capture_output=True,
                text=True,
                check=False,
            )
            log = logs / f"{name}-{factory.replace(':', '-')}{'-vm' if vm else ''}.log"
            log.write_text(process.stdout + process.stderr)
            unfinished, ended = read(out, column)
            if ended:
                return column
            tail = process.stderr[-6000:]
            if unfinished is None:
                column[f"{name} (the process)"] = Outcome("crash", f"status {process.returncode}\n{tail}")
                return column
            hung = "Timeout (" in process.stderr
            detail = f"{tail}\n{'hung' if hung else f'status {process.returncode}'}"
            column[unfinished] = Outcome("hang" if hung else "crash", detail)
            with out.open("a") as again:
                again.write(
                    json.dumps({"id": unfinished, "outcome": column[unfinished].outcome, "detail": detail})
                )
                again.write("\n")


def read(out: Path, column: Column) -> tuple[str | None, bool]:
    """Adds what was written to the column; the test that began and did not end; whether the process came to
    its end.
    """
    unfinished: str | None = None
    ended = False
    for text in out.read_text().splitlines():
        line = json.loads(text)
        if "start" in line:
            unfinished = line["start"]
        elif "end" in line:
            ended = True
        else:
            unfinished = None
            column[line["id"]] = Outcome(line["outcome"], line["detail"], line.get("loops", 0))
    return unfinished, ended


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--factory", default="erlang:new_event_loop")
    parser.add_argument("--modules", nargs="*", default=[])
    parser.add_argument(
        "--only", action="append", default=[], help="a part of a test id; may be given more than once"
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--limit", type=float, default=60, help="seconds a test may take")
    parser.add_argument("--details", action="store_true", help="print the tracebacks of differences")
    parser.add_argument("--json", type=Path, help="write both columns there")
    parser.add_argument("--vm", type=Path, help="the application's ebin: our column inside the Erlang VM")
    arguments = parser.parse_args()

    version = "{}.{}".format(*sys.version_info[:2])
    logs = Path(f"build/py{version}{sys.abiflags}/conformance")
    logs.mkdir(parents=True, exist_ok=True)
    rules = columns.read_rules(HERE / "exceptions.toml", "cpython")
    if arguments.vm:
        rules += vm_rules()
    names = arguments.modules or modules()
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        pending = {
            name: [
                pool.submit(run_module, name, factory, arguments.only, arguments.limit, logs, vm)
                for factory, vm in ((hooks.STDLIB, None), (arguments.factory, arguments.vm))
            ]
            for name in names
        }
        results = {name: (futures[0].result(), futures[1].result()) for name, futures in pending.items()}

    passed = failed = excepted = neither = 0
    print(f"test.test_asyncio of Python {sys.version.split()[0]}: {arguments.factory} against {hooks.STDLIB}")
    print(
        f"{'module':26}{'stdlib':>8}{'ours':>8}{'worse':>8}{'named':>8}{'neither':>8}{'skipped':>8}{'loops':>8}"
    )
    unused: list[str] = []
    for name, (stdlib, ours) in results.items():
        refused = [columns.Rule(test, REFUSED) for test, outcome in ours.items() if REFUSED in outcome.detail]
        result = columns.compare(stdlib, ours, rules + (refused if arguments.vm else []))
        good = sum(outcome.outcome in columns.PASSED for outcome in stdlib.values())
        numbers = (
            good,
            result.passed,
            len(result.worse),
            len(result.excepted),
            len(result.neither),
            result.skipped,
        )
        print(f"{name:26}" + "".join(f"{number:8}" for number in (*numbers, result.loops)))
        if text := columns.report(result, details=arguments.details):
            print(text)
        passed += result.passed
        failed += len(result.worse)
        excepted += len(result.excepted)
        neither += len(result.neither)
        if not result.loops and name.rstrip("+") not in MAY_MAKE_NONE and not arguments.only:
            unused.append(name)
    for name in unused:
        failed += 1
        print(f"  not one loop of {arguments.factory} was made in {name}, which depends on the loop")
    if not arguments.modules and not arguments.only:
        for rule in rules:
            if not rule.used and (not rule.pythons or version in rule.pythons):
                print(f"  exceptions.toml: {rule.pattern} covers nothing that fails any more")
    if arguments.json:
        both = {
            name: {
                column: {name: vars(outcome) for name, outcome in results[name][index].items()}
                for index, column in enumerate(("stdlib", "ours"))
            }
            for name in results
        }
        arguments.json.write_text(json.dumps(both, indent=1))
    print(f"{excepted} named exceptions, {neither} fail with both loops")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
