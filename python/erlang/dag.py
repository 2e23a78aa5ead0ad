"""Graphs of work, run inside the Erlang VM: Python functions, coroutines, Erlang functions, Redis commands.

    from erlang.dag import Graph, node

    @node(timeout=0.5, fallback=[])
    async def follows(viewer): ...

    @node
    def score(viewer, follows): ...

    graph = Graph()
    viewer = graph.input("viewer")
    graph.add(score, viewer, graph.add(follows, viewer))
    values = await graph.run(viewer=17)          # {"score": ...}

A function runs on a context of the pool, a coroutine on an event loop, and what does not depend on each
other runs at the same time. Values cross between nodes as they cross between Python and Erlang.
"""

import asyncio
import importlib
import inspect
import itertools
import sys
import weakref
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from . import _standalone

__all__ = ["DagError", "Graph", "Node", "node"]

F = TypeVar("F", bound=Callable[..., Any])

_OPTIONS = frozenset({"timeout", "fallback", "region", "limit", "map", "on"})
_numbers = itertools.count()
_functions: dict[int, Callable[..., Any]] = {}


class DagError(Exception):
    """A graph that is refused, or a run without a result: `reason` says why, and names the node."""

    def __init__(self, reason: Any) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True)
class Node:
    """A node of a graph, to be an input of others."""

    name: str


@dataclass
class _Terms:
    """What was agreed about a function where it was defined."""

    options: dict[str, Any] = field(default_factory=dict)


_terms: "weakref.WeakKeyDictionary[Callable[..., Any], _Terms]" = weakref.WeakKeyDictionary()


def node(function: F | None = None, /, **options: Any) -> Any:
    """Says how a function is run as a node: `timeout` in seconds, `fallback`, `region`, `limit`, `map`, `on`.

    `on="subinterp"`: in an interpreter of its own, which imports the function's module for itself.
    """
    _check(options)

    def mark(function: F) -> F:
        _terms[function] = _Terms(options)
        return function

    return mark if function is None else mark(function)


def _check(options: Mapping[str, Any]) -> None:
    unknown = options.keys() - _OPTIONS
    if unknown:
        raise TypeError(f"a node has no option {', '.join(sorted(unknown))}")


class Graph:
    """A graph: nodes are added, and it is run any number of times. The first run compiles it."""

    def __init__(
        self,
        *,
        regions: Mapping[str, float] | None = None,
        limits: Mapping[str, int] | None = None,
        redis: Mapping[str, Any] | None = None,
    ) -> None:
        self._nodes: list[dict[str, Any]] = []
        self._regions = {name: _millis(time) for name, time in (regions or {}).items()}
        self._limits = dict(limits or {})
        self._redis = dict(redis or {})
        self._kept: list[int] = []
        self._plan: Any = None
        # The functions are there for as long as the graph is.
        weakref.finalize(self, _forget, self._kept)

    def input(self, name: str) -> Node:
        """A value that every run is given."""
        return self._add({"name": name, "kind": "input"})

    def add(
        self, function: Callable[..., Any], /, *inputs: Node | str, name: str | None = None, **options: Any
    ) -> Node:
        """A Python function, with the nodes whose values are its arguments."""
        _check(options)
        known = _terms.get(function)
        options = (known.options if known else {}) | options
        number = next(_numbers)
        is_coroutine = inspect.iscoroutinefunction(function)
        spec: dict[str, Any] = {
            "name": name or getattr(function, "__name__", f"node_{number}"),
            "kind": "async" if is_coroutine else "cpu",
        }
        if options.get("on", "pool") == "pool":
            _functions[number] = function
            self._kept.append(number)
            spec["call"] = ("erlang.dag", "_call_async" if is_coroutine else "_call")
            spec["kwargs"] = {"_number": number}
        else:
            spec["call"] = _importable(function)
        return self._add(spec, inputs, options)

    def erl(self, name: str, function: str, *inputs: Node | str, **options: Any) -> Node:
        """A registered Erlang function, which is given the list of its inputs' values."""
        _check(options)
        return self._add({"name": name, "kind": "erl", "function": function}, inputs, options)

    def redis(self, name: str, *command: Any, server: str | None = None, **options: Any) -> Node:
        """A Redis command: text, bytes, numbers, and nodes whose values are arguments."""
        _check(options)
        parts = [("input", part.name) if isinstance(part, Node) else _part(part) for part in command]
        inputs = list(dict.fromkeys(part for part in command if isinstance(part, Node)))
        return self._add({"name": name, "kind": "redis", "command": parts, "server": server}, inputs, options)

    def compile(self) -> None:
        """Checks the graph. Raises `DagError`, which names the culprit."""
        self._plan = _answer(_vm().call("py.dag.compile", *self._written()))

    async def run(
        self,
        *,
        outputs: Iterable[Node | str] | None = None,
        deadline: float | None = None,
        mode: str = "fail_fast",
        **inputs: Any,
    ) -> dict[str, Any]:
        """Runs the graph; its outputs by name, or those asked for. What is cancelled stops the run."""
        vm = _vm()
        if self._plan is None:
            self._plan = _answer(await _async_call("py.dag.compile", *self._written()))
        options: dict[str, Any] = {"mode": mode}
        if outputs is not None:
            options["outputs"] = [_name(output) for output in outputs]
        if deadline is not None:
            options["deadline"] = _millis(deadline)
        key = next(_numbers)
        try:
            answer = await _async_call("py.dag.run", key, self._plan, inputs, options)
        except asyncio.CancelledError:
            vm.call("py.dag.cancel", key)
            raise
        values: dict[str, Any] = _answer(answer)
        return values

    def dot(self) -> str:
        """The graph for Graphviz."""
        if self._plan is None:
            self.compile()
        text: str = _vm().call("py.dag.dot", self._plan)
        return text

    def _add(
        self,
        spec: dict[str, Any],
        inputs: Iterable[Node | str] = (),
        options: Mapping[str, Any] | None = None,
    ) -> Node:
        options = dict(options or {})
        if "timeout" in options:
            options["timeout"] = _millis(options["timeout"])
        self._nodes.append({**spec, "inputs": [_name(each) for each in inputs], **options})
        self._plan = None
        return Node(spec["name"])

    def _written(self) -> tuple[Any, ...]:
        return self._nodes, self._regions, self._limits, self._redis


def _name(each: Node | str) -> str:
    return each.name if isinstance(each, Node) else each


def _importable(function: Callable[..., Any]) -> tuple[str, str]:
    """By which names another interpreter finds a function."""
    module, name = getattr(function, "__module__", None), getattr(function, "__name__", None)
    if module is None or name is None or getattr(sys.modules.get(module), name, None) is not function:
        raise TypeError(f"another interpreter cannot import {function!r}: it is no function of a module")
    return module, name


def _part(part: Any) -> Any:
    return part if isinstance(part, (bytes, int)) else str(part)


def _millis(seconds: float) -> int:
    return max(1, round(seconds * 1000))


def _forget(numbers: list[int]) -> None:
    for number in numbers:
        _functions.pop(number, None)


def _vm() -> Any:
    """The VM's side of `erlang`, which is there before any Python code runs, or never."""
    if "erlang._bridge" not in sys.modules:
        _standalone.refuse("dag")
    return importlib.import_module("erlang._beam")


def _async_call(name: str, *args: Any) -> Awaitable[Any]:
    awaited: Awaitable[Any] = _vm().async_call(name, *args)
    return awaited


def _answer(answer: Any) -> Any:
    outcome, value = answer
    if outcome == "ok":
        return value
    raise DagError(value)


def _call(*args: Any, _number: int) -> Any:
    return _functions[_number](*args)


async def _call_async(*args: Any, _number: int) -> Any:
    return await _functions[_number](*args)
