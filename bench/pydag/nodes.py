"""Graphs of Python functions that do next to nothing: the time of a run, per node. The first is not counted.

A node's value is one more than the greatest of its inputs, so the last ones tell how deep the graph is.
"""

from __future__ import annotations

import asyncio
import importlib
import time
from collections.abc import Awaitable, Callable
from typing import Any

from pyloop.params import Params
from pyloop.report import Report, check, percentile

WIDTH = 100
Layout = list[list[int]]
"""By node the nodes before it whose values it takes."""
Run = Callable[[], Awaitable[int]]
"""A run of a graph: how deep it is."""


def layout(shape: str, nodes: int) -> Layout:
    """The shapes of the suite's other graphs; the layers are of a hundred."""
    if shape == "chain":
        return [[]] + [[node - 1] for node in range(1, nodes)]
    if shape == "fan":
        return [[]] + [[0]] * (nodes - 2) + [list(range(1, nodes - 1))]
    first: Layout = [[] for _ in range(WIDTH)]
    return first + [
        [node - node % WIDTH - WIDTH + (node + step) % WIDTH for step in (0, 1, 7)]
        for node in range(WIDTH, nodes)
    ]


def depth(shape: str, nodes: int) -> int:
    return {"chain": nodes, "fan": 3, "layered": nodes // WIDTH}[shape]


def step(*values: int) -> int:
    return max(values, default=0) + 1


async def step_async(*values: int) -> int:
    return max(values, default=0) + 1


async def _after(inputs: list[asyncio.Task[int]]) -> int:
    return step(*[await each for each in inputs])


def in_task_group(graph: Layout) -> Run:
    """A task for every node, which awaits those before it."""

    async def once() -> int:
        tasks: list[asyncio.Task[int]] = []
        async with asyncio.TaskGroup() as group:
            for inputs in graph:
                tasks.append(group.create_task(_after([tasks[each] for each in inputs])))
        return tasks[-1].result()

    return once


def in_dask(graph: Layout) -> Run:
    threaded = importlib.import_module("dask.threaded")
    tasks = {node: (step, *inputs) for node, inputs in enumerate(graph)}

    async def once() -> int:
        deep: int = threaded.get(tasks, len(graph) - 1, num_workers=2)
        return deep

    return once


def in_vm(graph: Layout, kind: str) -> Run:
    """Ours: functions on contexts, or coroutines on event loops."""
    from erlang.dag import Graph, Node

    ours = Graph()
    nodes: list[Node] = []
    for node, inputs in enumerate(graph):
        work: Callable[..., Any] = step if kind == "cpu" else step_async
        nodes.append(ours.add(work, *(nodes[each] for each in inputs), name=str(node)))
    last = str(len(graph) - 1)

    async def once() -> int:
        deep: int = (await ours.run())[last]
        return deep

    return once


async def measure(once: Run, shape: str, nodes: int, runs: int) -> Report:
    """The median of the runs, in microseconds a node."""
    times: list[float] = []
    await once()
    cpu = time.process_time()
    for _ in range(runs):
        start = time.perf_counter()
        deep = await once()
        times.append(time.perf_counter() - start)
        check(deep == depth(shape, nodes), f"{deep} deep")
    cpu = time.process_time() - cpu
    return Report(percentile(times, 50) / nodes * 1e6, cpu, nodes * runs)


async def inside(kind: str, shape: str, nodes: int, runs: int) -> dict[str, float]:
    """The measurement inside the VM, on one of its loops."""
    report = await measure(in_vm(layout(shape, nodes), kind), shape, nodes, runs)
    return {
        "value": report.value,
        "cpu_seconds": report.cpu_seconds,
        "cpu_us": report.cpu_seconds / report.operations * 1e6,
    }


def run(arm: str, params: Params) -> Report:
    shape, nodes = params.text("shape", "chain"), params.number("nodes", 1_000)
    runs = params.number("runs", 20)
    params.finish()
    graph = layout(shape, nodes)
    make = {"TaskGroup": in_task_group, "dask": in_dask}[arm]
    return asyncio.run(measure(make(graph), shape, nodes, runs))
