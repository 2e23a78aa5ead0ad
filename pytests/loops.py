"""Owns which event loops the tests run on: stdlib's (the definition), ours (asserted), uvloop's (reported
only).

LOOPS names the columns (default `stdlib,ours,uvloop`), OURS the factory behind `ours`, so that the tests
themselves can be tried with a loop that is known to be wrong. A column whose package is missing is an error
for ours, a skip for uvloop.
"""

import asyncio
import importlib
import os
from collections.abc import Callable

OURS = os.environ.get("OURS", "erlang:new_event_loop")
COLUMNS = os.environ.get("LOOPS", "stdlib,ours,uvloop").split(",")

Factory = Callable[[], asyncio.AbstractEventLoop]

_STDLIB: Factory = asyncio.SelectorEventLoop


def factory(column: str) -> Factory:
    """The factory of a column; ImportError if its package is not there."""
    if column == "stdlib":
        return _STDLIB
    module, _, attribute = (OURS if column == "ours" else "uvloop:new_event_loop").partition(":")
    found: Factory = getattr(importlib.import_module(module), attribute)
    return found


def ours() -> Factory:
    return factory("ours")
