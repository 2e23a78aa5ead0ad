"""Python's own ways to compute at the same time: `<topic> <arm> key=value ...`, one JSON line.

Arms: a pool of two processes, of two interpreters (3.14), of two threads.
"""

import concurrent.futures
import importlib
import json
import math
import multiprocessing
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import bench_work

LACKS = 3
POOLS = {
    "processes": "ProcessPoolExecutor",
    "interpreters": "InterpreterPoolExecutor",
    "threads": "ThreadPoolExecutor",
}


def lacks(what: str) -> SystemExit:
    print(what, file=sys.stderr)
    return SystemExit(LACKS)


def pool_of(arm: str) -> concurrent.futures.Executor:
    pool: Callable[[int], concurrent.futures.Executor] | None = getattr(concurrent.futures, POOLS[arm], None)
    if pool is None:
        raise lacks("needs Python 3.14")
    return pool(2)


def spent() -> float:
    """CPU seconds of this process and of its children, also of those that live."""
    total = time.process_time()
    for child in multiprocessing.active_children():
        fields = Path(f"/proc/{child.pid}/stat").read_text().rpartition(") ")[2].split()
        total += (int(fields[11]) + int(fields[12])) / 100
    return total


def cpu(arm: str, steps: int = 500_000, calls: int = 8, millis: int = 2000, **_: int) -> dict[str, float]:
    wanted = [bench_work.spin(steps)] * calls
    if arm == "multiprocessing":
        with multiprocessing.Pool(2) as pool:
            return _rate(lambda: pool.map(bench_work.spin, [steps] * calls, chunksize=1), wanted, millis)
    with pool_of(arm) as executor:
        return _rate(lambda: list(executor.map(bench_work.spin, [steps] * calls)), wanted, millis)


def _rate(run: Callable[[], list[int]], wanted: list[int], millis: int) -> dict[str, float]:
    assert run() == wanted
    before, start, done = spent(), time.perf_counter(), 0
    while time.perf_counter() - start < millis / 1000:
        assert run() == wanted
        done += len(wanted)
    seconds, used = time.perf_counter() - start, spent() - before
    return {"value": done / seconds, "cpu_seconds": used, "cpu_us": used / done * 1e6}


def roundtrip(arm: str, calls: int = 20000, **_: int) -> dict[str, float]:
    def one() -> float:
        start = time.perf_counter()
        assert executor.submit(math.sqrt, 16.0).result() == 4.0
        return (time.perf_counter() - start) * 1e6

    with pool_of(arm) as executor:
        for _warm in range(200):
            one()
        before = spent()
        taken = sorted(one() for _ in range(calls))
        used = spent() - before
    return {
        "value": taken[len(taken) // 2],
        "p99": taken[len(taken) * 99 // 100],
        "cpu_seconds": used,
        "cpu_us": used / calls * 1e6,
    }


def creation(arm: str, times: int = 10, **_: int) -> dict[str, float]:
    make = {"interpreters": _interpreter, "multiprocessing": _process}[arm]
    make()
    before, own = spent(), _memory("self")
    taken, memory = [], 0.0
    for _time in range(times):
        start = time.perf_counter()
        pid = make()
        taken.append((time.perf_counter() - start) * 1e3)
        memory += _memory(pid) if pid else 0.0
    memory += _memory("self") - own
    return {
        "value": statistics.median(taken),
        "memory": memory / times,
        "cpu_seconds": spent() - before,
    }


_kept: list[object] = []


def _interpreter() -> str:
    try:
        interpreters = importlib.import_module("concurrent.interpreters")
    except ImportError:
        raise lacks("needs Python 3.14") from None
    made = interpreters.create()
    made.exec("import asyncio, datetime, threading")
    _kept.append(made)
    return ""


def _process() -> str:
    here, there = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_serve, args=(there,), daemon=True)
    process.start()
    assert here.recv() == "ready"
    _kept.append((process, here))
    return str(process.pid)


def _serve(there: "multiprocessing.connection.Connection[str, str]") -> None:
    import asyncio
    import datetime
    import threading

    del asyncio, datetime, threading
    there.send("ready")
    there.recv()


def _memory(pid: str) -> float:
    """What a process has to itself, in MiB."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) / 1024
    raise lacks("no smaps_rollup")


def main() -> None:
    topic, arm, *params = sys.argv[1:]
    values = dict(param.split("=") for param in params)
    row = values.pop("row")
    numbers = {key: int(value) for key, value in values.items()}
    rows: dict[str, Callable[..., dict[str, float]]] = {
        "cpu": cpu,
        "roundtrip": roundtrip,
        "creation": creation,
    }
    measured = rows[row](arm, **numbers)
    print(json.dumps({"topic": topic, "impl": arm, **measured}))


if __name__ == "__main__":
    main()
