"""Owns what the programs and their fixtures both speak of: the address, and how a program is run."""

from collections.abc import Callable, Coroutine
from typing import Any

import loops
from servers import LOCAL as LOCAL

Run = Callable[[Coroutine[Any, Any, Any]], Any]


def type_of(factory: loops.Factory) -> type:
    loop = factory()
    loop.close()
    return type(loop)
