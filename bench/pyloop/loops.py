"""The loops that take part: a name and the factory behind it."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Callable

FACTORIES = {
    "asyncio": "asyncio:new_event_loop",
    "uvloop": "uvloop:new_event_loop",
    "rloop": "rloop:new_event_loop",
    "zuvloop": "zuvloop:new_event_loop",
    "aiofastnet": "pyloop.loops:aiofastnet_on_uvloop",
    "erlang": "erlang:new_event_loop",
}


def factory(text: str) -> Callable[[], asyncio.AbstractEventLoop]:
    """The callable that `module:name` names."""
    module, _, name = text.partition(":")
    found: Callable[[], asyncio.AbstractEventLoop] = getattr(importlib.import_module(module), name)
    return found


def make(name: str) -> asyncio.AbstractEventLoop:
    """A loop of this kind; a factory string works as well as a name."""
    return factory(FACTORIES.get(name, name))()


def like(loop: asyncio.AbstractEventLoop) -> asyncio.AbstractEventLoop:
    """Another loop of the same kind."""
    return type(loop)()


def aiofastnet_on_uvloop() -> asyncio.AbstractEventLoop:
    loop = make("uvloop")
    importlib.import_module("aiofastnet").patch_loop(loop)
    return loop
