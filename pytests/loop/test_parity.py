"""Bad input gives on our loop what it gives on stdlib's of the same Python: the type, the errno, and the
sense of it.
"""

import asyncio
import gc
import inspect
import re
import socket
from typing import Any

import loops
import parity
import parity_calls
import pytest

# What these say is asyncio's own text, word for word; a TypeError's comes from whoever parses the arguments.
WORDED = (RuntimeError, ValueError, NotImplementedError)


def outcome(factory: loops.Factory, row: parity.Row, debug: bool) -> tuple[Any, ...]:
    loop = factory()
    loop.set_debug(debug)
    loop.set_exception_handler(lambda *_: None)
    bench = parity_calls.Bench(loop)
    made: Any = None
    try:
        with bench.stack:
            try:
                made = row[1](bench)
                if inspect.isawaitable(made):
                    made = loop.run_until_complete(asyncio.wait_for(made, 10))
                result: tuple[Any, ...] = ("returned", describe(made))
            except BaseException as error:
                text = plain(str(error)) if isinstance(error, WORDED) and type(error) in WORDED else ""
                number = error.errno if isinstance(error, OSError) else None
                result = ("raised", type(error), number, text)
            if isinstance(made, tuple) and made and isinstance(made[0], asyncio.BaseTransport):
                made[0].close()
            if isinstance(made, asyncio.AbstractServer):
                made.close()
        if not loop.is_closed():
            loop.run_until_complete(asyncio.sleep(0.001))
            loop.run_until_complete(loop.shutdown_default_executor())
    finally:
        loop.close()
    del bench, made, loop
    gc.collect()  # what was left open is complained about here, where warnings are ignored
    return result


def describe(value: Any) -> Any:
    """Plain values as they are, others by what they can do."""
    if value is None or isinstance(value, (bool, int, str, bytes)):
        return value
    if isinstance(value, tuple):
        return tuple(describe(part) for part in value)
    kinds: tuple[type, ...] = (
        asyncio.TimerHandle,
        asyncio.Handle,
        asyncio.AbstractServer,
        asyncio.DatagramTransport,
        asyncio.Transport,
    )
    kinds += (asyncio.BaseTransport, asyncio.BaseProtocol, socket.socket)
    return next((kind.__name__ for kind in kinds if isinstance(value, kind)), type(value).__name__)


def plain(text: str) -> str:
    """Without the names and numbers that differ from run to run and from loop to loop."""
    text = re.sub(r"<(?:[^<>]|<[^<>]*>)*>", "<...>", text)
    text = re.sub(r"'/tmp/[^']*'|/tmp/\S*", "PATH", text)
    return re.sub(r"\d+", "N", text)


def case(row: parity.Row) -> Any:
    processes = row[0].startswith("subprocess") or "signal" in row[0]
    return pytest.param(
        row, id=re.sub(r"\W+", "-", row[0]), marks=[pytest.mark.own_process] if processes else []
    )


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("debug", [False, True], ids=["plain", "debug"])
@pytest.mark.parametrize("row", [case(row) for row in parity.ROWS])
@pytest.mark.usefixtures("limit")
def test_bad_input(row: parity.Row, debug: bool) -> None:
    if "blocking socket" in row[0] and not debug:
        pytest.skip("it blocks: only debug mode looks")
    expected = outcome(loops.factory("stdlib"), row, debug)
    assert outcome(loops.ours(), row, debug) == expected


def test_the_table_is_large() -> None:
    assert len(parity.ROWS) > 100
