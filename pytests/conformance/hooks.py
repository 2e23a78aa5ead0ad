"""Owns how a process is made to use a given event loop wherever asyncio would make one of its own, and the
proof of it.

A factory is named `module:attribute`. Installed, it serves the default policy (so `asyncio.new_event_loop`,
`Runner` and `IsolatedAsyncioTestCase`) and `asyncio.SelectorEventLoop` where code calls it by that name.
Every loop made is counted.
"""

import asyncio
import contextlib
import importlib
import selectors
import sys
import unittest
from asyncio import unix_events
from collections.abc import Callable
from typing import Any

STDLIB = "asyncio:SelectorEventLoop"

Factory = Callable[[], asyncio.AbstractEventLoop]


def load(name: str) -> Factory:
    """The factory `module:attribute` names."""
    module, _, attribute = name.partition(":")
    factory: Factory = getattr(importlib.import_module(module), attribute or "new_event_loop")
    return factory


class Made:
    """Calls the factory and remembers how many loops, and of which types, came out."""

    def __init__(self, factory: Factory) -> None:
        self._factory = factory
        self.count = 0
        self.types: set[type] = set()

    def __call__(self) -> asyncio.AbstractEventLoop:
        loop = self._factory()
        self.count += 1
        self.types.add(type(loop))
        return loop


def install(name: str) -> Made:
    """From here on asyncio makes the loops of this factory. With stdlib's own nothing but the counting
    changes.
    """
    made = Made(load(name))
    policies: Any = unix_events
    policy = getattr(policies, "_UnixDefaultEventLoopPolicy", None) or policies._DefaultEventLoopPolicy
    policy._loop_factory = staticmethod(made)
    if name == STDLIB:
        _count_calls(policies._UnixSelectorEventLoop, made)
    else:
        stand_in = _stand_in(made)
        for attribute in ("SelectorEventLoop", "EventLoop"):
            if hasattr(asyncio, attribute):
                setattr(asyncio, attribute, stand_in)
    return made


def _count_calls(loop_type: Any, made: Made) -> None:
    """Loops made by the type's own name count as well (those by way of the policy are counted already)."""
    plain = loop_type.__init__

    def counting(self: Any, *args: Any, **kwargs: Any) -> None:
        made.types.add(type(self))
        made.count += 1
        plain(self, *args, **kwargs)

    loop_type.__init__ = counting


def _stand_in(made: Made) -> type:
    """What answers to `asyncio.SelectorEventLoop`: called it makes our loop, asked it knows our loops.

    The suite parametrises its cases by selector; a loop with a poller of its own closes it unused.
    """

    class Meta(type):
        def __call__(cls, selector: selectors.BaseSelector | None = None) -> asyncio.AbstractEventLoop:
            if selector is not None:
                selector.close()
            return made()

        def __instancecheck__(cls, instance: object) -> bool:
            return type(instance) in made.types

    class SelectorEventLoop(metaclass=Meta):
        pass

    return SelectorEventLoop


def adapt_test_utils(made: Made, *, real_loops: bool) -> None:
    """The helpers of CPython's suite by public means, and, if asked, a real loop where it would take a
    simulated one.
    """
    utils: Any = importlib.import_module("test.test_asyncio.utils")
    plain_close = utils.TestCase.close_loop

    def close_loop(loop: Any) -> None:
        if hasattr(loop, "_default_executor"):
            plain_close(loop)
            return
        if not loop.is_closed():
            loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()

    utils.TestCase.close_loop = staticmethod(close_loop)
    if "erlang._bridge" in sys.modules and hasattr(unix_events, "BaseChildWatcher"):
        # The suite has a watcher of children for every test, also for those that start none.
        _watch_no_children(unix_events.BaseChildWatcher)
    if not real_loops:
        return
    plain_new = utils.TestCase.new_test_loop

    def new_test_loop(self: unittest.TestCase, gen: object = None) -> Any:
        if gen is not None:
            return plain_new(self, gen)
        loop = made()
        self.set_event_loop(loop)  # type: ignore[attr-defined]
        return loop

    utils.TestCase.new_test_loop = new_test_loop


def _watch_no_children(watcher: Any) -> None:
    """A loop that refuses the signal of children is none to attach to, and no error."""
    for kind in [watcher, *watcher.__subclasses__()]:
        if "attach_loop" in vars(kind):
            kind.attach_loop = _unless_refused(kind.attach_loop)


def _unless_refused(attach: Callable[[Any, Any], None]) -> Callable[[Any, Any], None]:
    def attach_loop(self: Any, loop: Any) -> None:
        with contextlib.suppress(NotImplementedError):
            attach(self, loop)

    return attach_loop
